package meter

import (
	"sync/atomic"
	"time"

	"stile/decide/internal/bucket"
)

// Counter is one window for all callers together. It keeps time as a Table does. The
// zero value is ready. Safe for concurrent use, without locks; it has a cache line of
// its own.
type Counter struct {
	state atomic.Uint64 // the tick at which the window began, and the count below it
	_     [56]byte
}

// Add counts one request, unless limit have been counted in the window. left is the
// time until it ends, more than 0.
func (c *Counter) Add(now int64, window time.Duration, limit uint32) (left time.Duration, ok bool) {
	tick, long := bucket.Tick(now), bucket.Ticks(window)
	for {
		old := c.state.Load()
		e := unpack(old, tick, long)
		left = time.Duration(e.At+long-tick)*bucket.TickLength - bucket.Phase(now)
		if e.N >= limit {
			return left, false
		}
		e.N++
		if c.state.CompareAndSwap(old, pack(e)) {
			return left, true
		}
	}
}

// Undo takes one request back, if the window still runs.
func (c *Counter) Undo(now int64, window time.Duration) {
	tick, long := bucket.Tick(now), bucket.Ticks(window)
	for {
		old := c.state.Load()
		e := unpack(old, tick, long)
		if e.N == 0 {
			return
		}
		e.N--
		if c.state.CompareAndSwap(old, pack(e)) {
			return
		}
	}
}

// unpack is the window as it is at tick: one that has ended is a new one.
func unpack(state uint64, tick, long uint32) bucket.Entry {
	e := bucket.Entry{At: uint32(state >> 32), N: uint32(state)}
	if e.N == 0 || e.Age(tick) >= long {
		return bucket.Entry{At: tick}
	}
	return e
}

func pack(e bucket.Entry) uint64 { return uint64(e.At)<<32 | uint64(e.N) }
