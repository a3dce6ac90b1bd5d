// Package meter counts requests in fixed windows, in a fixed amount of memory.
//
// A key's window begins at its first request, not on the wall clock, so that no two
// callers' windows end together. A caller may have up to twice the limit across the
// edge of two windows.
package meter

import (
	"time"

	"stile/decide/internal/bucket"
)

// Table counts keys in windows. It never grows: a key has one of four places, its
// bucket, and in a full bucket something is forgotten. It trades completeness for
// memory: use it to stop floods, not to bill.
//
// What is forgotten first: a window that has ended; else the smallest count; among
// equal counts the window that began first. Hence the guarantee: of the keys that
// share a bucket, the three with the largest counts are never forgotten while their
// windows run, whatever other keys come and however many. A spray of keys that come
// once costs each bucket the smallest of four running counts, if the bucket was full
// of them, and from then on only takes from itself. To forget a count of c somebody
// must bring three other keys in the same bucket to at least c, and cannot know which
// keys those are. To be forgotten is to begin again at 0: nobody is ever refused
// for what another key did.
//
// How much is lost depends on how full the table is. Under an endless spray, of keys
// with larger counts that fill a tenth of the entries one in 480 is forgotten, of
// those that fill a quarter one in 43, of those that fill half one in 9. Choose the
// size accordingly.
//
// All calls on one table carry the same window; after a reload with another window
// what runs is judged by the new one. Keys are well-mixed hashes, seeded by the
// caller; 0 is a valid key. Time is kept in steps of 1/16 s, so a window may end up
// to 1/16 s early; see bucket.Tick for how long 32 bits of it last. A window is at
// most two years.
//
// A clock that is stepped back lets every running window begin again with the count
// it has: nobody starts afresh, and nobody waits longer than one window. (A step to
// before 2025 may let everybody start afresh.) One stepped forward ends windows early.
//
// Safe for concurrent use. No method allocates.
type Table struct{ entries *bucket.Table }

// NewTable makes a table of at least that many entries of 16 bytes, rounded up to a
// power of two.
func NewTable(keys int) *Table { return &Table{entries: bucket.New(keys)} }

// Add counts one request, unless limit have been counted in the key's window. If ok
// is false nothing was counted. left is the time until the window ends, more than 0.
// A limit of 0 refuses everything and remembers nothing.
func (t *Table) Add(key uint64, now int64, window time.Duration, limit uint32) (left time.Duration, ok bool) {
	if limit == 0 {
		return max(window, bucket.TickLength), false
	}
	tick, long := bucket.Tick(now), bucket.Ticks(window)
	b, mu := t.entries.At(key)
	mu.Lock()
	e := running(b, key, tick, long)
	if e == nil {
		e = place(b, key, tick, long)
	}
	if e.N < limit {
		e.N++
		ok = true
	}
	end := e.At + long - tick // in ticks from now
	mu.Unlock()
	return time.Duration(end)*bucket.TickLength - bucket.Phase(now), ok
}

// Undo takes one request back, if the key's window still runs. It is for a caller
// that has several meters, when a later one refuses. If the key was forgotten in
// between it takes nothing, or one from a count that began since. A count that
// returns to 0 ends its window.
func (t *Table) Undo(key uint64, now int64, window time.Duration) {
	b, mu := t.entries.At(key)
	mu.Lock()
	if e := running(b, key, bucket.Tick(now), bucket.Ticks(window)); e != nil {
		e.N--
	}
	mu.Unlock()
}

// Peek is what has been counted in the key's window, and the time until it ends: if
// none runs, 0 and 0.
func (t *Table) Peek(key uint64, now int64, window time.Duration) (n uint32, left time.Duration) {
	tick, long := bucket.Tick(now), bucket.Ticks(window)
	b, mu := t.entries.At(key)
	mu.Lock()
	if e := running(b, key, tick, long); e != nil {
		n = e.N
		left = time.Duration(e.At+long-tick)*bucket.TickLength - bucket.Phase(now)
	}
	mu.Unlock()
	return n, left
}

// Len is the number of running windows. It walks the table: for a metric.
func (t *Table) Len(now int64, window time.Duration) int {
	tick, long := bucket.Tick(now), bucket.Ticks(window)
	return t.entries.Len(func(e *bucket.Entry) bool { return e.Age(tick) < long })
}

// Cap is the number of entries, used or not.
func (t *Table) Cap() int { return t.entries.Cap() }

// running is the key's entry, if its window runs. One that has ended is freed.
func running(b *bucket.Bucket, key uint64, tick, long uint32) *bucket.Entry {
	e := b.Find(key)
	if e == nil || e.Age(tick) < long {
		return e
	}
	e.N = 0
	return nil
}

// place gives a new key the entry that is needed least, with a count of 0.
func place(b *bucket.Bucket, key uint64, tick, long uint32) *bucket.Entry {
	least, leastNeed := &b[0], need(&b[0], tick, long)
	for i := 1; i < len(b); i++ {
		if n := need(&b[i], tick, long); n < leastNeed {
			least, leastNeed = &b[i], n
		}
	}
	*least = bucket.Entry{Key: key, At: tick}
	return least
}

// need orders the entries of a bucket: free and ended ones, then by count, then the
// later beginning.
func need(e *bucket.Entry, tick, long uint32) uint64 {
	if e.N == 0 {
		return 0
	}
	age := e.Age(tick)
	if age >= long {
		return 1
	}
	return uint64(e.N)<<32 | uint64(long-age)
}

// Prefetch has a key's place on its way from memory: for who looks at several tables, one
// after the other, so that he waits once.
func (t *Table) Prefetch(key uint64) { t.entries.Prefetch(key) }
