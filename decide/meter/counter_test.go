package meter

import (
	"testing"
	"time"

	"stile/decide/internal/bucket"
)

// count is what has been counted in the window.
func (c *Counter) count(now int64, window time.Duration) uint32 {
	return unpack(c.state.Load(), bucket.Tick(now), bucket.Ticks(window)).N
}

func TestCounter(t *testing.T) {
	var c Counter
	add := func(d time.Duration, limit uint32, wantOK bool) (left time.Duration) {
		t.Helper()
		left, ok := c.Add(at(d), time.Minute, limit)
		if ok != wantOK || left <= 0 || left > time.Minute {
			t.Errorf("at %v: left = %v, ok = %v, want %v", d, left, ok, wantOK)
		}
		return left
	}
	add(0, 0, false)
	add(0, 2, true)
	add(30*time.Second, 2, true)
	left := add(40*time.Second, 2, false)
	c.Undo(at(40*time.Second), time.Minute)
	add(40*time.Second, 2, true)
	add(40*time.Second+left-1, 2, false)
	add(40*time.Second+left, 2, true)
	if n := c.count(at(40*time.Second+left), time.Minute); n != 1 {
		t.Errorf("a new window begins with %d, want 1", n)
	}
	c.Undo(at(5*time.Minute), time.Minute) // has ended: nothing to take back
	c.Undo(at(5*time.Minute), time.Minute)
	if n := c.count(at(5*time.Minute), time.Minute); n != 0 {
		t.Errorf("an ended window has %d", n)
	}
}
