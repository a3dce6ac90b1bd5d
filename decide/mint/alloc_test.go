//go:build !race

package mint

import (
	"testing"
	"time"
)

// effort: see race_test.go.
const effort = 8

func TestNoAllocations(t *testing.T) {
	l := New(Options{PerNetworkDay: many})
	i, now := uint64(0), start
	if n := testing.AllocsPerRun(20_000, func() {
		i++
		now += int64(time.Millisecond)
		a, b := v4(int(i%1000)), v6(int(i%777))
		l.Price(a, now)
		l.Price(b, now)
		l.mint(i, a, b, now)
		l.mint(i, a, a, now)
		l.MintPaid(i<<32, a, b, 0, now) // refused by now: a price is a byte, and costs no memory
		l.Wait(b, now)
		l.JustWaited(b, i, now)
		l.Solved(a, time.Second, l.BaseBits(), now)
		l.BaseBits()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		now = l.Wait(v4(1), now)
		if err := l.sitOut(v4(1), 1, now); err != nil {
			t.Fatal(err)
		}
		l.sitOut(v4(1), 1, now) // none outstanding
	}); n != 0 {
		t.Errorf("waits: %v allocations, want 0", n)
	}
}
