package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestDistinct(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100, 1000, 20_000, 40_000, 60_000, 1_000_000} {
		var d distinct
		for i := range n {
			d.add(uint64(i))
			d.add(uint64(i / 2))
		}
		if got := d.count(); got < n-n*3/100 || got > n+n*3/100 {
			t.Errorf("%d keys: %d", n, got)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	if h.below(0.99) != 0 {
		t.Error("an empty one")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var all []int64
	for range 10_000 {
		v := int64(rng.ExpFloat64() * 1000)
		all = append(all, v)
		h.add(v)
	}
	slices.Sort(all)
	for _, share := range []float64{0.5, 0.9, 0.99} {
		exact, got := all[int(share*10_000)-1], h.below(share)
		if got < exact || got > exact+exact/32+1 {
			t.Errorf("%g: %d, exactly %d", share, got, exact)
		}
	}
	if h.below(1) != all[len(all)-1] {
		t.Errorf("the largest: %d, want %d", h.below(1), all[len(all)-1])
	}
	for _, v := range []int64{0, 1, 31, 32, 63, 64, 65, 1<<40 + 12345, 1<<62 + 1, 1<<63 - 1} {
		if i := slot(v); top(i) < v || i > 0 && top(i-1) >= v {
			t.Errorf("%d is counted in slot %d, up to %d", v, i, top(i))
		}
	}
}

func TestSoonest(t *testing.T) {
	var h soonest[int]
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		h.push(int64(rng.IntN(500)), i)
	}
	last := int64(-1)
	for range 1000 {
		at, _ := h.pop()
		if at < last {
			t.Fatalf("%d after %d", at, last)
		}
		last = at
	}
}

// TestCrowdForgets: the table does not grow, forgets who asked least, and never those who
// asked for much.
func TestCrowdForgets(t *testing.T) {
	c := newCrowd(1024, 1)
	for i := range uint64(50_000) {
		for _, key := range []uint64{i%10 + 1, i + 1000} {
			at := c.at(key)
			c.caller(at).requests++
			c.caller(at).factor = 1
			c.want(at, 0, int64(i)*1e6, time.Hour)
		}
	}
	for key := range uint64(10) {
		if at, ok := c.find(key + 1); !ok || c.caller(at).requests != 5000 {
			t.Errorf("caller %d is forgotten", key+1)
		}
	}
	c.settleAll()
	if c.peaks[0].n != 50_010 || c.peaks[0].max != 5000 || c.forgotten < 48_000 {
		t.Errorf("%d callers, the most %d, %d forgotten", c.peaks[0].n, c.peaks[0].max, c.forgotten)
	}
}

func TestNumbers(t *testing.T) {
	f := func(got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	f(number("0"), 0)
	f(number("123456"), 123456)
	f(number(""), -1)
	f(number("1x"), -1)
	f(number("-1"), -1)
	f(number("99999999999999999999"), -1)
	f(seconds("1.25"), 1_250_000_000)
	f(seconds("0.000"), 0)
	f(seconds("1.2.3"), -1)
	f(seconds("1e9"), -1)
	f(seconds("99999999999"), -1)
	f(sum("0.100, 0.200 : 0.300", seconds), 600_000_000)
	f(sum("-, 0.200", seconds), 200_000_000)
	f(sum("-", seconds), -1)
	f(sum("12, 30", number), 42)
}

func TestAddresses(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		a, ok := parseAddr(s)
		if got := a.String(); !ok && want != "" || ok && got != want {
			t.Errorf("%s: %s %v, want %q", s, got, ok, want)
		}
	}
	f("192.0.2.1", "192.0.2.1")
	f("255.255.255.255", "255.255.255.255")
	f("2001:db8::1", "2001:db8::1")
	f("::ffff:192.0.2.1", "192.0.2.1")
	for _, bad := range []string{"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1..2.3", "unix:", "fe80::1%eth0", "a.b.c.d", "1.2.3.4 ", "0x1.2.3.4"} {
		f(bad, "")
	}
}
