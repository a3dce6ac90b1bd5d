package mint

import (
	"testing"
	"time"

	"stile/network"
)

const (
	easy  = 300 * time.Millisecond
	right = time.Second
	hard  = 3 * time.Second
)

// vote has voters from..to-1 solve a puzzle of today's difficulty.
func vote(l *Ledger, from, to int, took time.Duration, now int64) {
	for i := from; i < to; i++ {
		l.Solved(v4(i), took, l.BaseBits(), now)
	}
}

func TestCalibration(t *testing.T) {
	f := func(name string, want int, votes func(l *Ledger)) {
		t.Helper()
		l := New(Options{Base: 17})
		votes(l)
		if got := int(l.BaseBits()) - 17; got != want {
			t.Errorf("%s: moved by %d, want %d", name, got, want)
		}
	}
	f("nobody", 0, func(l *Ledger) {})
	f("63 voters", 0, func(l *Ledger) { vote(l, 0, 63, easy, start) })
	f("64 find it easy", 1, func(l *Ledger) { vote(l, 0, 64, easy, start) })
	f("64 find it hard", -1, func(l *Ledger) { vote(l, 0, 64, hard, start) })
	f("64 find it right", 0, func(l *Ledger) { vote(l, 0, 64, right, start) })
	f("half find it easy", 0, func(l *Ledger) { vote(l, 0, 32, easy, start); vote(l, 32, 64, right, start) })
	f("33 of 64", 1, func(l *Ledger) { vote(l, 0, 33, easy, start); vote(l, 33, 64, right, start) })
	f("31 that took an hour weigh no more", 1, func(l *Ledger) {
		vote(l, 0, 31, time.Hour, start)
		vote(l, 31, 64, easy, start)
	})
	f("the median of a slow third and a fast third", 0, func(l *Ledger) {
		vote(l, 0, 21, easy, start)
		vote(l, 21, 42, hard, start)
		vote(l, 42, 64, right, start)
	})
	f("two rounds", 2, func(l *Ledger) { vote(l, 0, 128, easy, start) })
	f("and back", 0, func(l *Ledger) { vote(l, 0, 64, easy, start); vote(l, 64, 128, hard, start) })
	f("at most BaseRange up", BaseRange, func(l *Ledger) { vote(l, 0, 10_000, 1, start) })
	f("at most BaseRange down", -BaseRange, func(l *Ledger) { vote(l, 0, 10_000, hard, start) })
	f("another difficulty", 0, func(l *Ledger) {
		for i := range 1000 {
			l.Solved(v4(i), easy, 16, start)
			l.Solved(v4(i), easy, 18, start)
		}
	})
	f("no time at all", 0, func(l *Ledger) { vote(l, 0, 1000, 0, start); vote(l, 0, 1000, -time.Hour, start) })
	f("no network", 0, func(l *Ledger) {
		for range 1000 {
			l.Solved(0, easy, 17, start)
		}
	})
}

// A step leads to a difficulty that nobody wants to leave: no swinging to and fro.
func TestCalibrationSettles(t *testing.T) {
	for _, took := range []time.Duration{100, 200, 300, 400, 500, 660, 670, 1000, 1400, 1510, 2000, 5000, 20000} { // ms at 17 bits
		l, last := New(Options{Base: 17}), 0
		changes, now := 0, start
		for round := range 40 {
			bits := int(l.BaseBits())
			at := took * time.Millisecond * (1 << bits) / (1 << 17)
			vote(l, 0, 64, at, now)
			now += int64(2 * time.Hour)
			if step := int(l.BaseBits()) - bits; step != 0 {
				changes++
				if step == -last {
					t.Errorf("%d ms: swings back in round %d", took, round)
				}
				last = step
			}
		}
		if changes > BaseRange {
			t.Errorf("%d ms: %d changes", took, changes)
		}
	}
}

// One voter, however often and from however many of its networks, moves nothing.
func TestOneVoteANetwork(t *testing.T) {
	f := func(name string, n func(i int) network.Network, every time.Duration) {
		t.Helper()
		l := New(Options{Base: 17})
		for i := range 10_000 {
			l.Solved(n(i), easy, l.BaseBits(), start+int64(i)*int64(every))
		}
		if l.BaseBits() != 17 {
			t.Errorf("%s: moved to %d", name, l.BaseBits())
		}
	}
	one := func(int) network.Network { return net("192.0.2.1") }
	f("one network at once", one, 0)
	f("one network every second", one, time.Second)
	f("one network every two hours", one, 2*time.Hour) // one vote a round
	f("the addresses of one /24", func(i int) network.Network { return net("192.0.2.0") + network.Network(i%256) }, time.Minute)
	f("the networks of one /48", func(i int) network.Network { return net("2001:db8::") + network.Network(i) }, time.Minute)
	f("63 networks for a year", func(i int) network.Network { return v4(i % 63) }, time.Hour)

	// The same 64 have one vote an hour.
	l := New(Options{Base: 17})
	for m := range 59 {
		vote(l, 0, 64, easy, at(time.Duration(m)*time.Minute))
	}
	if l.BaseBits() != 18 {
		t.Errorf("64 voters within the hour moved to %d, want one step", l.BaseBits())
	}
	vote(l, 0, 64, easy, at(61*time.Minute))
	if l.BaseBits() != 19 {
		t.Errorf("after an hour they have another vote: %d", l.BaseBits())
	}
}
