package meter

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sort"
	"sync"
	"testing"
	"time"

	"stile/decide/internal/bucket"
)

// start is a moment that is not at the beginning of a tick.
var start = time.Date(2026, 5, 1, 10, 0, 0, 12_345_678, time.UTC).UnixNano()

func at(d time.Duration) int64 { return start + int64(d) }

// mix makes distinct, well-mixed keys of small numbers (the finaliser of splitmix64).
func mix(n uint64) uint64 {
	n += 0x9E3779B97F4A7C15
	n = (n ^ n>>30) * 0xBF58476D1CE4E5B9
	n = (n ^ n>>27) * 0x94D049BB133111EB
	return n ^ n>>31
}

// count is what has been counted in the key's window.
func (t *Table) count(key uint64, now int64, window time.Duration) uint32 {
	n, _ := t.Peek(key, now, window)
	return n
}

func TestWindow(t *testing.T) {
	tb := NewTable(1024)
	add := func(key uint64, d time.Duration, wantOK bool) time.Duration {
		t.Helper()
		left, ok := tb.Add(key, at(d), time.Minute, 3)
		if ok != wantOK {
			t.Errorf("key %d at %v: ok = %v, want %v", key, d, ok, wantOK)
		}
		if left <= 0 || left > time.Minute {
			t.Errorf("key %d at %v: left = %v", key, d, left)
		}
		return left
	}
	for _, key := range []uint64{0, 1, 1<<64 - 1} {
		add(key, 0, true)
		add(key, 20*time.Second, true)
		add(key, 40*time.Second, true)
		left := add(key, 50*time.Second, false)
		if left < 10*time.Second-bucket.TickLength || left > 10*time.Second {
			t.Errorf("key %d: left = %v, want 10s, at most a tick less", key, left)
		}
		if n := tb.count(key, at(50*time.Second), time.Minute); n != 3 {
			t.Errorf("key %d: a refused request was counted: %d", key, n)
		}
		// What left says holds: refused until then, admitted from then on.
		add(key, 50*time.Second+left-1, false)
		add(key, 50*time.Second+left, true)
		if n := tb.count(key, at(50*time.Second+left), time.Minute); n != 1 {
			t.Errorf("key %d: a new window begins with %d, want 1", key, n)
		}
		if n := tb.count(key, at(3*time.Minute), time.Minute); n != 0 {
			t.Errorf("key %d: an ended window has %d", key, n)
		}
	}
}

// left is exact for every phase of now within a tick, and every length of window.
func TestLeftIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		tb := NewTable(4)
		now := at(time.Duration(r.Int64N(int64(100 * time.Hour))))
		window := time.Duration(1 + r.Int64N(int64(time.Duration(1)<<r.IntN(50))))
		tb.Add(7, now, window, 1)
		now += r.Int64N(int64(window))
		left, ok := tb.Add(7, now, window, 1)
		if ok {
			continue // at the very end of the window
		}
		if _, ok := tb.Add(7, now+int64(left)-1, window, 1); ok {
			t.Fatalf("window %v: admitted before left = %v had passed", window, left)
		}
		if _, ok := tb.Add(7, now+int64(left), window, 1); !ok {
			t.Fatalf("window %v: refused when left = %v had passed", window, left)
		}
	}
}

func TestTwiceTheLimitAcrossAnEdge(t *testing.T) {
	tb, n := NewTable(64), 0
	tb.Add(5, at(0), time.Minute, 10) // the window begins
	for d := 59 * time.Second; d < 61*time.Second; d += 10 * time.Millisecond {
		if _, ok := tb.Add(5, at(d), time.Minute, 10); ok {
			n++
		}
	}
	if n != 19 {
		t.Errorf("%d requests around the edge, want 9 of the old window and 10 of the new", n)
	}
}

func TestLimits(t *testing.T) {
	tb := NewTable(64)
	if left, ok := tb.Add(1, start, time.Minute, 0); ok || left <= 0 {
		t.Errorf("limit 0: ok = %v, left = %v", ok, left)
	}
	if tb.Len(start, time.Minute) != 0 {
		t.Error("limit 0 used an entry")
	}
	for range 5 {
		tb.Add(1, start, time.Minute, 5)
	}
	if _, ok := tb.Add(1, start, time.Minute, 3); ok {
		t.Error("a limit below the count admits")
	}
	if _, ok := tb.Add(1, start, time.Minute, 6); !ok {
		t.Error("a raised limit does not admit")
	}
	b, _ := tb.entries.At(1)
	b.Find(1).N = 1<<32 - 2
	for range 3 {
		tb.Add(1, start, time.Minute, 1<<32-1)
	}
	if n := tb.count(1, start, time.Minute); n != 1<<32-1 {
		t.Errorf("the largest count is %d", n)
	}
}

func TestUndo(t *testing.T) {
	tb := NewTable(64)
	undo := func(d time.Duration, want uint32) {
		t.Helper()
		tb.Undo(9, at(d), time.Minute)
		if n := tb.count(9, at(d), time.Minute); n != want {
			t.Errorf("%d after Undo at %v, want %d", n, d, want)
		}
	}
	undo(0, 0)
	tb.Add(9, at(0), time.Minute, 2)
	tb.Add(9, at(0), time.Minute, 2)
	undo(time.Second, 1)
	if _, ok := tb.Add(9, at(2*time.Second), time.Minute, 2); !ok {
		t.Error("what was taken back cannot be used again")
	}
	undo(2*time.Minute, 0) // the window has ended: nothing to take back
	tb.Add(9, at(2*time.Minute), time.Minute, 2)
	undo(2*time.Minute, 0)
	undo(2*time.Minute, 0)
	if tb.Len(at(2*time.Minute), time.Minute) != 0 {
		t.Error("an undone key uses an entry")
	}
}

func TestClockSteps(t *testing.T) {
	const window, limit = time.Minute, 10
	for _, step := range []time.Duration{
		time.Millisecond, time.Second, time.Minute, 3 * time.Hour, 100 * 24 * time.Hour, 365 * 24 * time.Hour,
	} {
		// Back: nobody starts afresh, nobody waits longer than a window.
		tb, one := NewTable(64), new(Counter)
		for range limit - 1 {
			tb.Add(1, at(0), window, limit)
			one.Add(at(0), window, limit)
		}
		now := at(-step)
		if n, m := tb.count(1, now, window), one.count(now, window); n != limit-1 || m != limit-1 {
			t.Errorf("%v back: counts %d and %d, want %d", step, n, m, limit-1)
		}
		tb.Add(1, now, window, limit)
		one.Add(now, window, limit)
		for _, left := range []time.Duration{must(t, tb, now, window, limit), mustOne(t, one, now, window, limit)} {
			if left <= 0 || left > window {
				t.Errorf("%v back: left = %v", step, left)
			}
			if _, ok := tb.Add(1, now+int64(left), window, limit); !ok {
				t.Errorf("%v back: locked out after a window", step)
			}
			tb.Undo(1, now+int64(left), window)
			tb.Add(1, now, window, limit)
		}
	}

	// To 1970, before the tables' own epoch: afresh or not, nobody is locked out.
	tb, one := NewTable(64), new(Counter)
	for range limit {
		tb.Add(1, at(0), window, limit)
		one.Add(at(0), window, limit)
	}
	for _, now := range []int64{1e9, 1e9 + int64(window)} {
		left, ok := tb.Add(1, now, window, limit)
		leftOne, okOne := one.Add(now, window, limit)
		if now > 1e9+1 && (!ok || !okOne) || left <= 0 || left > window || leftOne != left {
			t.Errorf("in 1970: %v %v, counter %v %v", left, ok, leftOne, okOne)
		}
	}

	// Forward for a while and back again, as a machine does whose clock is set twice.
	tb = NewTable(64)
	for range limit {
		tb.Add(1, at(0), window, limit)
	}
	tb.Add(1, at(24*time.Hour), window, limit) // a new window, in what will be the future
	if n := tb.count(1, at(time.Second), window); n != 1 {
		t.Errorf("after forward and back: %d, want 1", n)
	}
	if n := tb.count(1, at(2*window), window); n != 0 {
		t.Errorf("a window from the future runs for more than its length: %d", n)
	}
}

func must(t *testing.T, tb *Table, now int64, window time.Duration, limit uint32) time.Duration {
	t.Helper()
	left, ok := tb.Add(1, now, window, limit)
	if ok {
		t.Error("above the limit after a step of the clock")
	}
	return left
}

func mustOne(t *testing.T, c *Counter, now int64, window time.Duration, limit uint32) time.Duration {
	t.Helper()
	left, ok := c.Add(now, window, limit)
	if ok {
		t.Error("counter above the limit after a step of the clock")
	}
	return left
}

// A heavy key that never returns does not keep its place for as long as the clock
// was stepped back, only for one window.
func TestGhostsOfTheFutureEnd(t *testing.T) {
	tb := NewTable(4)
	for key := range uint64(4) {
		for range 100 {
			tb.Add(key, at(0), time.Minute, 1000)
		}
	}
	tb.Add(100, at(-3*time.Hour), time.Minute, 1000) // evicts one of equals, and looks at all
	now := at(-3*time.Hour + time.Minute)
	if n := tb.Len(now, time.Minute); n != 0 {
		t.Errorf("%d windows still run a window after the step", n)
	}
}

// Ticks begin again at 0 in July 2033.
func TestTicksWrap(t *testing.T) {
	wrap := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() + (1<<32)*int64(bucket.TickLength)
	tb, one := NewTable(64), new(Counter)
	for i := range int64(10) {
		now := wrap + (i-5)*int64(time.Second)
		tb.Add(1, now, time.Minute, 100)
		one.Add(now, time.Minute, 100)
	}
	if n, m := tb.count(1, wrap+5e9, time.Minute), one.count(wrap+5e9, time.Minute); n != 10 || m != 10 {
		t.Errorf("counts across the wrap: %d and %d, want 10", n, m)
	}
	if n := tb.count(1, wrap+60e9, time.Minute); n != 0 {
		t.Errorf("a window does not end after the wrap: %d", n)
	}
}

func TestWhoIsForgotten(t *testing.T) {
	// A table of one bucket: every key shares it.
	f := func(name string, have [4]uint32, begin [4]time.Duration, want uint64) {
		t.Helper()
		tb, order := NewTable(4), []int{0, 1, 2, 3}
		sort.Slice(order, func(i, j int) bool { return begin[order[i]] < begin[order[j]] })
		for _, key := range order {
			for range have[key] {
				tb.Add(uint64(key), at(begin[key]), time.Minute, 1000)
			}
		}
		now := at(50 * time.Second)
		if _, ok := tb.Add(99, now, time.Minute, 1000); !ok {
			t.Errorf("%s: the new key was refused", name)
		}
		for key, n := range have {
			if begin[key] < 0 { // has ended
				n = 0
			}
			if uint64(key) == want {
				n = 0
			}
			if got := tb.count(uint64(key), now, time.Minute); got != n {
				t.Errorf("%s: key %d has %d, want %d", name, key, got, n)
			}
		}
	}
	s := time.Second
	f("a free entry first", [4]uint32{5, 0, 3, 2}, [4]time.Duration{}, 1)
	f("an ended window before a small count", [4]uint32{1, 900, 3, 2}, [4]time.Duration{0, -20 * s, 0, 0}, 1)
	f("the smallest count", [4]uint32{5, 4, 3, 4}, [4]time.Duration{}, 2)
	f("among equals the oldest", [4]uint32{3, 3, 3, 3}, [4]time.Duration{3 * s, 1 * s, 2 * s, 4 * s}, 1)
}

// Against a plain map: several goroutines, each with keys of its own that lie among
// the keys of the others, and never more keys in a bucket than there are places.
func TestModel(t *testing.T) {
	const goroutines, keysEach, rounds, steps = 6, 300, 150, 200
	type window struct {
		begin, n uint32
	}
	const long, limit = 10 * time.Second, 12
	tb := NewTable(4 * 1024)
	inBucket, next := map[any]int{}, uint64(0)
	newKey := func() uint64 {
		for {
			key := mix(next)
			next++
			b, _ := tb.entries.At(key)
			if inBucket[b] < 4 {
				inBucket[b]++
				return key
			}
		}
	}
	keys, models := [goroutines][]uint64{}, [goroutines]map[uint64]window{}
	for g := range keys {
		models[g] = map[uint64]window{}
		for range keysEach {
			keys[g] = append(keys[g], newKey())
		}
	}
	if len(inBucket) > goroutines*keysEach*3/4 {
		t.Fatal("BUG: the keys do not meet in buckets")
	}
	now, clock := start, rand.New(rand.NewPCG(3, 4))
	for round := range rounds {
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(g)))
				tick := bucket.Tick(now)
				for range steps {
					key := keys[g][r.IntN(keysEach)]
					m := models[g][key]
					if int32(tick-m.begin) < 0 {
						m.begin = tick
					}
					if m.n == 0 || tick-m.begin >= bucket.Ticks(long) {
						m = window{begin: tick}
					}
					switch r.IntN(5) {
					case 0:
						tb.Undo(key, now, long)
						m.n -= min(m.n, 1)
					case 1:
						wantLeft := time.Duration(m.begin+bucket.Ticks(long)-tick)*bucket.TickLength - bucket.Phase(now)
						if m.n == 0 {
							wantLeft = 0
						}
						if n, left := tb.Peek(key, now, long); n != m.n || left != wantLeft {
							t.Errorf("%d counted, %v left, want %d and %v", n, left, m.n, wantLeft)
						}
					default:
						left, ok := tb.Add(key, now, long, limit)
						if ok != (m.n < limit) {
							t.Errorf("ok = %v with %d counted", ok, m.n)
						}
						if want := time.Duration(m.begin+bucket.Ticks(long)-tick)*bucket.TickLength - bucket.Phase(now); left != want {
							t.Errorf("left = %v, want %v", left, want)
						}
						if ok {
							m.n++
						}
					}
					models[g][key] = m
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		now += clock.Int64N(int64(2 * time.Second))
	}
	want := 0
	for g := range models {
		for key, m := range models[g] {
			if n := tb.count(key, now, long); n > 0 {
				want++
				if n != m.n {
					t.Errorf("at the end: count %d, want %d", n, m.n)
				}
			}
		}
	}
	if got := tb.Len(now, long); got != want {
		t.Errorf("Len = %d, want %d", got, want)
	}
}

// Many goroutines on one key: exactly limit are admitted.
func TestLimitHoldsUnderContention(t *testing.T) {
	tb, one := NewTable(64), new(Counter)
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := [2]int{}
	for range 8 {
		wg.Go(func() {
			n := [2]int{}
			for range 2000 {
				if _, ok := tb.Add(42, start, time.Hour, 5000); ok {
					n[0]++
				}
			}
			for range effort * 25_000 { // it takes many for two to meet
				if _, ok := one.Add(start, time.Hour, effort*125_000); ok {
					n[1]++
				}
			}
			mu.Lock()
			admitted[0] += n[0]
			admitted[1] += n[1]
			mu.Unlock()
		})
	}
	wg.Wait()
	if admitted != [2]int{5000, effort * 125_000} {
		t.Errorf("admitted %v, want 5000 and %d", admitted, effort*125_000)
	}
}

// Two million keys (250 000 under the race detector) that come once or twice: no memory, and no heavier key forgotten
// but those of which four share a bucket.
func TestSpray(t *testing.T) {
	const window, spray = 10 * time.Minute, effort * 250_000
	tb := NewTable(65536)
	type heavy struct{ key, count uint64 }
	var all []heavy
	r := rand.New(rand.NewPCG(5, 6))
	perBucket := map[any]int{}
	for i := range uint64(tb.Cap() / 10) {
		h := heavy{key: mix(i), count: 3 + r.Uint64N(100)}
		for range h.count {
			tb.Add(h.key, start, window, 1000)
		}
		b, _ := tb.entries.At(h.key)
		perBucket[b]++
		all = append(all, h)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range uint64(spray) {
		key := mix(1<<40 + i)
		now := start + int64(i)*int64(window/2/spray) // for half a window
		for range 1 + i%2 {
			if _, ok := tb.Add(key, now, window, 1000); !ok {
				t.Fatal("a new key was refused")
			}
		}
	}
	if after := heap(); after > before+64<<10 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	now, forgotten := start+int64(window/2), 0
	for _, h := range all {
		b, _ := tb.entries.At(h.key)
		switch n := tb.count(h.key, now, window); {
		case uint64(n) == h.count:
		case n == 0 && perBucket[b] >= 4:
			forgotten++
		default:
			t.Fatalf("a key with %d has %d, and shares its bucket with %d", h.count, n, perBucket[b]-1)
		}
	}
	if forgotten > len(all)/300 {
		t.Errorf("%d of %d keys forgotten, want about one in 480", forgotten, len(all))
	}
	t.Logf("%d of %d keys forgotten; %d of %d entries used", forgotten, len(all), tb.Len(now, window), tb.Cap())
	if n := tb.Len(now+int64(window), window); n != 0 {
		t.Errorf("%d windows run after all have ended", n)
	}
}

func ExampleTable() {
	t := NewTable(65536)
	now := time.Now().UnixNano()
	for range 3 {
		_, ok := t.Add(0x5EED, now, time.Minute, 2)
		fmt.Println(ok)
	}
	// Output:
	// true
	// true
	// false
}
