package mint

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stile/network"
)

// mint is a pass whose price has been met, whatever it is.
func (l *Ledger) mint(challenge uint64, asked, redeemed network.Network, now int64) (first bool, err error) {
	return l.MintPaid(challenge, asked, redeemed, MaxDoublings, now)
}

// hadToday is how many passes a network has had in its day.
func (l *Ledger) hadToday(n network.Network, now int64) uint32 {
	had, _ := l.day.Peek(l.keyOf(n, byProof), now, day)
	return had
}

func TestMintCountsBothNetworks(t *testing.T) {
	l := New(Options{PerNetworkDay: many})
	asked, redeemed := net("192.0.2.1"), net("2001:db8::1")
	for i := range uint64(16) {
		if first, err := l.mint(i, asked, redeemed, start); !first || err != nil {
			t.Fatal(first, err)
		}
	}
	if p, q := l.Price(asked, start), l.Price(redeemed, start); p != 1 || q != 1 {
		t.Errorf("prices %d and %d, want 1 and 1", p, q)
	}
	other := net("198.51.100.1")
	for i := range uint64(16) {
		l.mint(100+i, other, 0, start)
		if i < 15 {
			l.mint(100+i, other, other, start) // replays
		}
	}
	if p := l.Price(other, start); p != 1 {
		t.Errorf("16 passes of one network: price %d, want 1", p)
	}
}

func TestReplayCountsNothing(t *testing.T) {
	l, c := newLedger(t, Options{PerNetworkDay: 40})
	n, elsewhere := net("192.0.2.1"), net("198.51.100.1")
	l.mint(1<<40, n, n, start)
	for i := range 1000 {
		by := elsewhere
		if i%2 == 0 {
			by = n
		}
		if first, err := l.MintPaid(1<<40, n, by, 0, at(time.Duration(i)*300*time.Millisecond)); first || err != nil {
			t.Fatalf("replay %d: first = %v, err = %v", i, first, err)
		}
	}
	c.mint(n, 39, at(5*time.Minute))
	c.mint(elsewhere, 40, at(5*time.Minute))
	// At the ceiling, and at a price it does not meet, a replay is still answered: it
	// is the answer to a connection that dropped.
	if first, err := l.MintPaid(1<<40, n, n, 0, at(5*time.Minute)); first || err != nil {
		t.Errorf("replay at the ceiling: first = %v, err = %v", first, err)
	}
}

func TestPriceIsLookedAtAgain(t *testing.T) {
	l, c := newLedger(t, Options{PerNetworkDay: many})
	n := net("192.0.2.1")
	c.mint(n, 40, start)
	for _, pair := range [][2]network.Network{{n, n}, {n, v4(5)}, {v4(5), n}, {n, 0}} {
		for paid := range uint8(2) {
			_, err := l.MintPaid(1<<40, pair[0], pair[1], paid, start)
			if price := (ErrPrice{}); !errors.As(err, &price) || price.Price != 2 {
				t.Errorf("%v paid %d: err = %v, want a price of 2", pair, paid, err)
			}
		}
	}
	if p := l.Price(v4(5), start); p != 0 || l.proven.count(l.key(n), 0) > 40 {
		t.Error("a refused proof was counted")
	}
	if first, err := l.MintPaid(1<<40, n, n, 2, start); !first || err != nil {
		t.Errorf("a proof that meets the price: first = %v, err = %v", first, err)
	}
}

func TestCeiling(t *testing.T) {
	l, c := newLedger(t, Options{}) // 1000 a day
	n := net("192.0.2.1")
	c.mint(n, 1000, start)
	f := func(asked, redeemed network.Network, after time.Duration) {
		t.Helper()
		c.next++
		first, err := l.mint(c.next, asked, redeemed, at(after))
		full := ErrCeiling{}
		if first || !errors.As(err, &full) {
			t.Fatalf("first = %v, err = %v, want the ceiling", first, err)
		}
		if want := 24*time.Hour - after; full.Retry <= want-time.Second || full.Retry > want {
			t.Errorf("retry in %v, want %v", full.Retry, want)
		}
		// What was refused is not remembered as minted: a replay is refused too.
		if _, err := l.mint(c.next, asked, redeemed, at(after)); err == nil {
			t.Error("a refused challenge is good for a pass when posted again")
		}
	}
	f(n, n, 0)
	f(n, 0, time.Hour)
	f(n, v4(1), 2*time.Hour)
	f(v4(1), n, 3*time.Hour)
	if n := l.hadToday(v4(1), at(3*time.Hour)); n != 0 {
		t.Errorf("the other network of refused mints has %d", n)
	}
	if p := l.Price(v4(1), at(3*time.Hour)); p != 0 {
		t.Errorf("the other network of refused mints pays %d", p)
	}
	c.mint(v4(1), 1, at(3*time.Hour))
	c.mint(n, 1000, at(24*time.Hour))
}

// One challenge, many goroutines and networks: one is first.
func TestOneFirst(t *testing.T) {
	l := New(Options{})
	asked := net("192.0.2.1")
	for challenge := range uint64(300) {
		var firsts atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 3 {
					first, err := l.mint(challenge, asked, v4(i%3), start)
					if first {
						firsts.Add(1)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := firsts.Load(); n != 1 {
			t.Fatalf("challenge %d was first %d times", challenge, n)
		}
	}
	if n := l.hadToday(asked, start); n != 300 {
		t.Errorf("%d passes counted, want 300", n)
	}
	if n := l.hadToday(v4(0), start) + l.hadToday(v4(1), start) + l.hadToday(v4(2), start); n != 300 {
		t.Errorf("%d passes counted for those who redeemed, want 300", n)
	}
}

func TestOptions(t *testing.T) {
	bad := func(o Options) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("New(%+v) does not panic", o)
			}
		}()
		New(o)
	}
	bad(Options{WaitFor: 2 * time.Minute})
	bad(Options{WaitFor: -1})
	bad(Options{Base: 2})
	bad(Options{Base: 31})
	bad(Options{Target: -1})
	New(Options{Keys: 1, WaitFor: time.Minute, Base: 30})
}

func TestTables(t *testing.T) {
	l, c := newLedger(t, Options{Keys: 1000})
	n := net("2001:db8::1")
	c.mint(n, 1, start)
	l.Wait(n, start)
	if err := l.sitOut(n, 7, at(11*time.Second)); err != nil {
		t.Fatal(err)
	}
	l.Wait(n, at(11*time.Second))
	l.Solved(n, time.Second, l.BaseBits(), start)
	seen := map[string]bool{}
	l.Tables(at(11*time.Second), func(name string, used, size int) {
		if want := map[bool]int{true: 2, false: 1}[name == "passes_day"]; used != want || size != 1024 {
			t.Errorf("%s: %d of %d entries used, want %d of 1024", name, used, size, want)
		}
		if seen[name] = true; strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("table %q: want lower case and underscores", name)
		}
	})
	if len(seen) != 10 {
		t.Errorf("%d tables, want 10", len(seen))
	}
	l.Tables(at(100*time.Hour), func(name string, used, _ int) {
		if used != 0 {
			t.Errorf("%s: %d entries after days of silence", name, used)
		}
	})
}
