package budget

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	day    = 24 * 3600 * second
	lesson = 20_000 * day
)

var unseen = Cost{Bytes: 8 << 20, Time: 4 * time.Second}

// familiar is a table in which enough paths of some routes are known, all as cheap as can be.
func familiar(paths int, routes ...uint64) *Costs {
	c := NewCosts(paths, unseen)
	for _, r := range routes {
		for i := range uint64(enoughPaths) {
			c.Teach(r, mix(1<<50|r<<40|i), Cost{}, 0)
		}
	}
	return c
}

func expect(t *testing.T, c *Costs, route, path uint64, want Cost, from Source) {
	t.Helper()
	if got, source := c.Estimate(route, path); got != want || source != from {
		t.Errorf("route %d, path %d: %v from %d, want %v from %d", route, path, got, source, want, from)
	}
}

func TestUnseenPathsCostTheMost(t *testing.T) {
	c := familiar(1024, 1, 3)
	small, large := Cost{256, time.Millisecond}, Cost{25 << 20, 2 * time.Second}
	c.Teach(1, mix(1), small, lesson)
	expect(t, c, 1, mix(1), small, FromPath)
	expect(t, c, 1, mix(2), small, FromRoute)
	c.Teach(1, mix(2), large, lesson)
	expect(t, c, 1, mix(1), small, FromPath)
	expect(t, c, 1, mix(2), large, FromPath)
	expect(t, c, 1, mix(3), large, FromRoute)
	expect(t, c, 2, mix(3), unseen, FromNothing)

	// A thousand small ones do not make it forget the large one. A day of them does.
	for i := range uint64(1000) {
		c.Teach(1, mix(10+i%5), small, lesson+int64(i)*second)
	}
	expect(t, c, 1, mix(3), large, FromRoute)
	c.Teach(1, mix(10), small, lesson+day/4)
	expect(t, c, 1, mix(3), large, FromRoute)
	c.Teach(1, mix(10), small, lesson-day) // a clock that was stepped back
	expect(t, c, 1, mix(3), large, FromRoute)
	c.Teach(1, mix(10), small, lesson+day/2)
	expect(t, c, 1, mix(3), small, FromRoute)

	// Without lessons there is no reason to think that they have become cheap.
	c.Teach(3, mix(30), large, lesson)
	c.Teach(3, mix(31), small, lesson+1000*day)
	expect(t, c, 3, mix(32), large, FromRoute)
}

// The first paths of a route may all be cheap, or one be asked for again and again: of the
// others that tells nothing yet. A dear one counts at once, and a restart changes nothing.
func TestFewPathsTellLittle(t *testing.T) {
	c := NewCosts(1024, unseen)
	small, large := Cost{256, time.Millisecond}, Cost{25 << 20, time.Millisecond}
	expect(t, c, 1, mix(0), unseen, FromNothing)
	for i := range uint64(enoughPaths) {
		for range 100 {
			c.Teach(1, mix(1+i), small, lesson)
		}
		expect(t, c, 1, mix(1), small, FromPath)
		if i < enoughPaths-1 {
			expect(t, c, 1, mix(0), unseen, FromFew)
		}
		d := NewCosts(1024, unseen)
		if err := d.Restore(c.AppendState(nil)); err != nil {
			t.Fatal(err)
		}
		c = d
	}
	expect(t, c, 1, mix(0), small, FromRoute)
	c.Teach(2, mix(100), large, lesson)
	expect(t, c, 2, mix(0), Cost{25 << 20, unseen.Time}, FromFew)
}

// One lesson by a clock that is years ahead (a machine that has not asked for the time yet)
// does not keep a route from forgetting for years.
func TestLessonFromTheFuture(t *testing.T) {
	c := familiar(1024, 1)
	small, large := Cost{256, time.Millisecond}, Cost{25 << 20, 2 * time.Second}
	c.Teach(1, mix(1), large, lesson+1000*day)
	for i := range int64(12) {
		c.Teach(1, mix(2), small, lesson+i*day/8)
		if i == 0 {
			expect(t, c, 1, mix(3), large, FromRoute) // not forgotten at once either
		}
	}
	expect(t, c, 1, mix(3), small, FromRoute)
}

func TestRisesAtOnceFallsSlowly(t *testing.T) {
	c := NewCosts(1024, unseen)
	teach := func(mib float64, took time.Duration) {
		c.Teach(1, mix(1), Cost{int64(mib * (1 << 20)), took}, lesson)
	}
	teach(1, time.Second)
	teach(16, 16*time.Second)
	expect(t, c, 1, mix(1), Cost{16 << 20, 16 * time.Second}, FromPath)
	teach(0, 0)
	expect(t, c, 1, mix(1), Cost{15<<20 + 256, 15*time.Second + time.Microsecond}, FromPath)
	for range 9 {
		teach(0, 0)
	}
	if got, _ := c.Estimate(1, mix(1)); got.Bytes < 8<<20 || got.Bytes > 9<<20 {
		t.Errorf("after ten cheap answers it is %v, want a little more than half", got)
	}
	for range 300 {
		teach(0, 0)
	}
	if got, _ := c.Estimate(1, mix(1)); got.Bytes > 16*256 || got.Time > 16*time.Microsecond {
		t.Errorf("after many it is %v, want almost nothing", got)
	}
	teach(math.MaxInt32, time.Hour) // 2 PiB
	expect(t, c, 1, mix(1), Cost{math.MaxUint32 * 256, time.Hour}, FromPath)
}

// A spray of paths that come once pushes out one in four of those that come again.
func TestSprayOfPaths(t *testing.T) {
	c := NewCosts(4096, unseen)
	kept := 0
	for range 3 {
		for i := range uint64(1024) {
			c.Teach(1, mix(i), Cost{512, time.Second}, lesson)
		}
	}
	for i := range uint64(100_000) {
		c.Teach(1, mix(1<<40+i), Cost{1024, time.Second}, lesson)
	}
	for i := range uint64(1024) {
		if _, from := c.Estimate(1, mix(i)); from == FromPath {
			kept++
		}
	}
	if kept < 960 {
		t.Errorf("of 1024 paths %d are left", kept)
	}
	if n := c.Len(); n != c.Cap() || n != 4096 {
		t.Errorf("%d of %d places are in use, want all of 4096", n, c.Cap())
	}
}

func TestRoutesAreBounded(t *testing.T) {
	c := NewCosts(4, unseen)
	for i := range uint64(maxRoutes + 100) {
		c.Teach(i, 1, Cost{256, time.Second}, lesson)
	}
	expect(t, c, maxRoutes-1, 2, unseen, FromFew)
	expect(t, c, maxRoutes, 2, unseen, FromNothing)
}

func TestCostLease(t *testing.T) {
	f := func(took, most, want time.Duration) {
		t.Helper()
		if got := (Cost{Time: took}).Lease(most); got != want {
			t.Errorf("%v took: the lease is %v, want %v", took, got, want)
		}
	}
	f(5*time.Second, time.Minute, 15*time.Second)
	f(time.Hour, time.Minute, time.Minute)
	f(math.MaxInt64, time.Minute, time.Minute)
	f(time.Millisecond, time.Minute, time.Second)
	f(time.Millisecond, time.Second/2, time.Second/2)
	f(0, time.Minute, time.Minute)
}

func TestScaled(t *testing.T) {
	f := func(cost int64, scale float64, want int64) {
		t.Helper()
		if got := Scaled(cost, scale); got != want {
			t.Errorf("%d times %v is %d, want %d", cost, scale, got, want)
		}
	}
	f(1<<20, 24, 24<<20)
	f(3, 0.5, 2)
	f(0, 24, 1)
	f(-5, 24, 1)
	f(1<<59, 2, MaxBudget)
	f(math.MaxInt64, 1e300, MaxBudget)
	f(1, math.NaN(), MaxBudget)
	f(1, math.Inf(-1), 1)
}

func TestState(t *testing.T) {
	c := NewCosts(1000, unseen)
	for i := range uint64(5000) {
		c.Teach(i%7, mix(i%1500), Cost{int64(i) * 1000, time.Duration(i) * time.Millisecond}, lesson+int64(i)*day/100)
	}
	state := c.AppendState([]byte("before"))[6:]
	d := NewCosts(1000, unseen)
	d.Teach(1, 2, Cost{1, 1}, lesson)
	if err := d.Restore(state); err != nil {
		t.Fatal(err)
	}
	if d.Len() != c.Len() {
		t.Errorf("%d paths, want %d", d.Len(), c.Len())
	}
	for i := range uint64(1500) {
		for route := range uint64(8) {
			want, from := c.Estimate(route, mix(i))
			expect(t, d, route, mix(i), want, from)
		}
	}
	for _, paths := range []int{1, 64, 1 << 16} {
		d := NewCosts(paths, unseen)
		if err := d.Restore(state); err != nil || d.Len() != min(d.Cap(), c.Len()) && paths < 1000 {
			t.Errorf("into a table of %d: %v, %d paths", paths, err, d.Len())
		}
	}
	if err := NewCosts(4, unseen).Restore(NewCosts(4, unseen).AppendState(nil)); err != nil {
		t.Error(err)
	}
}

func TestBadState(t *testing.T) {
	c := NewCosts(64, unseen)
	c.Teach(1, 1, Cost{256, time.Second}, lesson)
	c.Teach(2, 2, Cost{256, time.Second}, lesson)
	good := c.AppendState(nil)
	f := func(want string, change func(b []byte) []byte) {
		t.Helper()
		b := change(bytes.Clone(good))
		d := NewCosts(64, unseen)
		d.Teach(9, 9, Cost{512, time.Second}, lesson)
		if err := d.Restore(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		expect(t, d, 9, 9, Cost{512, time.Second}, FromPath)
		expect(t, d, 1, 1, unseen, FromNothing)
	}
	sum := func(b []byte) []byte {
		n := len(b) - 4
		return binary.LittleEndian.AppendUint32(b[:n], crc32.ChecksumIEEE(b[:n]))
	}
	f("no state", func(b []byte) []byte { return nil })
	f("no state", func(b []byte) []byte { b[0]++; return sum(b) })
	f(`version "1\n"`, func(b []byte) []byte { b[12] = '1'; return sum(b) })
	f("bytes, want", func(b []byte) []byte { return b[:len(b)-1] })
	f("bytes, want", func(b []byte) []byte { return append(b, 0) })
	f("bytes, want", func(b []byte) []byte { b[14] = 0xFF; return sum(b) })
	f("checksum", func(b []byte) []byte { b[30]++; return b })
	f("route 0x1 is there twice", func(b []byte) []byte {
		copy(b[22:30], "\x01\x00\x00\x00\x00\x00\x00\x00")
		copy(b[58:66], "\x01\x00\x00\x00\x00\x00\x00\x00")
		return sum(b)
	})
	f("path 0x1 is there twice", func(b []byte) []byte { copy(b[110:118], b[94:102]); return sum(b) })
	f("or has no cost", func(b []byte) []byte { copy(b[102:106], "\x00\x00\x00\x00"); return sum(b) })
	f("or has no cost", func(b []byte) []byte { copy(b[106:110], "\x00\x00\x00\x00"); return sum(b) })
}

// A state that is taken is the state that is given back.
func FuzzRestore(f *testing.F) {
	c := NewCosts(64, unseen)
	f.Add(c.AppendState(nil)[:costHeader])
	for i := range uint64(20) {
		c.Teach(i%3, mix(i), Cost{int64(i) << 20, time.Second}, lesson+int64(i)*day)
		f.Add(c.AppendState(nil)[:costHeader+int(min(i, 3))*routeSize+int(i+1)*pathSize])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum is put right, for a fuzzer does not find it.
		b = binary.LittleEndian.AppendUint32(b[:len(b):len(b)], crc32.ChecksumIEEE(b))
		d := NewCosts(64, unseen)
		if d.Restore(b) != nil {
			if d.Len() != 0 || len(d.routes) != 0 {
				t.Error("a state that was refused has left something")
			}
			return
		}
		first := d.AppendState(nil)
		e := NewCosts(64, unseen)
		if err := e.Restore(first); err != nil {
			t.Errorf("its own state is refused: %v", err)
		}
		if e.Len() != d.Len() || len(e.routes) != len(d.routes) || !bytes.Equal(paths(e), paths(d)) {
			t.Error("a state that was taken is not the one that is given back")
		}
	})
}

func paths(c *Costs) (b []byte) {
	c.walk(func(e pathCost) { b = fmt.Append(b, e) })
	return b
}

func TestCostsTogether(t *testing.T) {
	c := NewCosts(256, unseen)
	var all sync.WaitGroup
	for worker := range uint64(4) {
		all.Go(func() {
			for i := range uint64(2000) {
				n := mix(worker<<32 | i)
				c.Teach(n%8, mix(n%300), Cost{int64(n >> 40), time.Duration(n >> 34)}, lesson+int64(i)*day/100)
				c.Estimate(n%8, mix(n%300))
				if i%500 == 0 {
					state := c.AppendState(nil)
					if err := c.Restore(state); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}

func TestPrice(t *testing.T) {
	c := Cost{Bytes: 1000, Time: 3 * time.Millisecond}
	f := func(from Source, micros bool, scale float64, want int64) {
		t.Helper()
		if got := c.Price(from, micros, scale, 5000); got != want {
			t.Errorf("from %d, micros %v, times %g: %d, want %d", from, micros, scale, got, want)
		}
	}
	f(FromNothing, false, 24, 5000)
	f(FromPath, false, 1, 1000)
	f(FromPath, false, 24, 24_000)
	f(FromPath, true, 1, 3000)
	f(FromRoute, false, 1, 1000)
	f(FromFew, false, 1, 5000) // at least what the unseen cost
	f(FromFew, false, 24, 24_000)
}
