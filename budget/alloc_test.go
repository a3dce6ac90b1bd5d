//go:build !race

package budget

import (
	"testing"
	"time"
)

func TestNoAllocations(t *testing.T) {
	g, now, n := bench(), int64(time.Hour), uint64(0)
	held := Request{ID: id(1 << 50), Caller: mix(1 << 50), Lane: Proven, Cost: 4 << 20}
	f := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(10_000, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	one := func() {
		n++
		now += int64(time.Millisecond)
		r := Request{ID: id(n), Caller: mix(n % 16), Cost: 4 << 20, Lease: 3 * time.Second}
		if a, _ := g.Admit(&r, now); a != Admitted {
			t.Fatal(a)
		}
		if _, how := g.Release(r.ID, now); how != Released {
			t.Fatal(how)
		}
		g.Release(r.ID, now)
	}
	f("alone", one)
	g.Admit(&held, now)
	f("beside another", one)
	f("by its own end", func() {
		n++
		now += int64(time.Second)
		g.Admit(&Request{ID: id(n), Caller: mix(n), Cost: 1}, now)
		g.Tick(now)
	})
	f("refused", func() {
		n++
		g.Admit(&Request{ID: id(n), Caller: mix(n), Cost: 20 << 20, NoWait: true}, now)
	})
	f("the state", func() {
		g.Stats(now)
	})
	c, l, line := NewCosts(1024, Cost{}), Line{}, []byte(goodLine)
	c.Teach(1, 1, Cost{1, 1}, now)
	f("a line", func() {
		n++
		if l.Parse(line) != nil {
			t.Fatal("not a line")
		}
		c.Teach(1, mix(n), l.Cost, now)
		c.Estimate(1, mix(n))
		c.Estimate(1, mix(n+1))
	})
}
