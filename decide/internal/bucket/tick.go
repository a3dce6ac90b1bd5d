package bucket

import "time"

// TickLength is the resolution of time in a table: 1/16 s.
const TickLength = time.Second / 16

// epoch is 2025-01-01. Ticks since then fit into 32 bits until July 2033; after that
// they begin again at 0, and nobody notices: ticks are only ever subtracted, modulo
// 2^32. What nobody has looked at for half of that, 4.2 years, would be taken for
// the future and live once more.
const epoch = 1735689600 * int64(time.Second)

// MaxTicks is the longest time that a table can measure, two years, well below the
// half of 2^32 at which the past would look like the future.
const MaxTicks = 1 << 30

// Tick is a time given in unix nanoseconds, rounded down. It goes on counting on a
// machine whose clock says 1970, hence the unsigned division.
func Tick(now int64) uint32 { return uint32(uint64(now-epoch) / uint64(TickLength)) }

// Phase is the part of now that Tick rounded away.
func Phase(now int64) time.Duration { return time.Duration(uint64(now-epoch) % uint64(TickLength)) }

// Ticks is a duration, rounded up, from 1 to MaxTicks.
func Ticks(d time.Duration) uint32 {
	if d <= TickLength {
		return 1
	}
	if d > MaxTicks*TickLength {
		return MaxTicks
	}
	return uint32((d + TickLength - 1) / TickLength)
}

// Age is the number of ticks since e.At. An entry from the future means that the
// clock was stepped back: it is moved to the present. So what ran before the step
// goes on, from its beginning at worst, and nothing outlives the step by more than
// its own length. The bucket's lock must be held.
func (e *Entry) Age(tick uint32) uint32 {
	age := tick - e.At
	if int32(age) < 0 {
		e.At = tick
		return 0
	}
	return age
}
