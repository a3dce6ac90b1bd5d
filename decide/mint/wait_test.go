package mint

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stile/decide/internal/bucket"
	"stile/network"
)

func TestWait(t *testing.T) {
	l, n := New(Options{}), net("192.0.2.1")
	ready := l.Wait(n, start)
	if d := time.Duration(ready - start); d < 10*time.Second || d > 10*time.Second+bucket.TickLength {
		t.Fatalf("ready in %v, want 10s, at most a tick more", d)
	}
	// Asking again before, at and after its end does not change it.
	for _, d := range []time.Duration{0, 1, time.Second, 9999 * time.Millisecond, 15 * time.Second, 119 * time.Second} {
		if got := l.Wait(n, at(d)); got != ready {
			t.Errorf("asked again after %v: ready %v later", d, time.Duration(got-ready))
		}
	}
	early := ErrEarly{}
	if err := l.sitOut(n, 1, at(4*time.Second)); !errors.As(err, &early) || int64(early.Retry) != ready-at(4*time.Second) {
		t.Errorf("after 4s: %v", err)
	}
	if err := l.sitOut(n, 1, ready-1); !errors.As(err, &early) || early.Retry != 1 {
		t.Errorf("a nanosecond early: %v", err)
	}
	if err := l.sitOut(n, 1, ready); err != nil {
		t.Errorf("when ready: %v", err)
	}
	if err := l.sitOut(n, 1, ready); err != ErrNone {
		t.Errorf("redeemed twice: %v", err)
	}
	// The next slot opened at once, with a wait of its own.
	if next := l.Wait(n, ready); next < ready+int64(10*time.Second) {
		t.Errorf("the next wait takes %v", time.Duration(next-ready))
	}
}

func TestWaitNobodyRedeems(t *testing.T) {
	l, n := New(Options{}), net("192.0.2.1")
	if err := l.sitOut(n, 1, start); err != ErrNone {
		t.Errorf("no wait was begun: %v", err)
	}
	l.Wait(n, start)
	if err := l.sitOut(n, 1, at(2*time.Minute)); err != ErrNone {
		t.Errorf("after two minutes: %v", err)
	}
	if ready := l.Wait(n, at(2*time.Minute)); ready < at(2*time.Minute+10*time.Second) {
		t.Errorf("a new wait after two minutes is ready after %v", time.Duration(ready-at(2*time.Minute)))
	}
	if err := l.sitOut(v4(7), 1, at(3*time.Minute)); err != ErrNone {
		t.Errorf("the wait of another network: %v", err)
	}
}

// Begun and never redeemed, by everybody, for hours: nobody pays for it.
func TestWaitCostsNothing(t *testing.T) {
	l := New(Options{Keys: 256})
	for i := range 100_000 {
		l.Wait(v4(i%5000), at(time.Duration(i)*100*time.Millisecond))
	}
	for i := range 5000 {
		if p := l.Price(v4(i), at(3*time.Hour)); p != 0 {
			t.Fatalf("a network that only began waits pays %d", p)
		}
	}
	if n := l.day.Len(at(3*time.Hour), day); n != 0 {
		t.Errorf("%d networks have passes", n)
	}
}

func TestWaitsCountAsPasses(t *testing.T) {
	l, n := New(Options{PerNetworkDay: 20}), net("192.0.2.1")
	now := start
	for range 20 {
		now = l.Wait(n, now)
		if err := l.sitOut(n, 1, now); err != nil {
			t.Fatal(err)
		}
	}
	if p := l.Price(n, now); p != 1 {
		t.Errorf("after 20 waits a proof costs %d doublings, want 1", p)
	}
	full := ErrCeiling{}
	now = l.Wait(n, now)
	if err := l.sitOut(n, 1, now); !errors.As(err, &full) {
		t.Errorf("the 21st wait of a day of 20: %v", err)
	}
	// Whoever waits all day keeps nobody behind the same address from proving anything.
	if _, err := l.mint(1, n, n, now); err != nil {
		t.Errorf("a proof after a day's worth of waits: %v", err)
	}
	// The wait that met the ceiling is still there.
	if err := l.sitOut(n, 1, now+int64(time.Second)); !errors.As(err, &full) {
		t.Errorf("asked again: %v", err)
	}
	if err := l.takeWait(n, now); err != nil {
		t.Errorf("a refused wait was used up: %v", err)
	}
}

func TestJustWaited(t *testing.T) {
	l, n := New(Options{}), net("192.0.2.1")
	ready := l.Wait(n, start)
	if l.JustWaited(n, 5, start) {
		t.Error("before any wait")
	}
	l.sitOut(n, 5, ready)
	f := func(by int, target uint64, after time.Duration, want bool) {
		t.Helper()
		who := n
		if by != 0 {
			who = v4(by)
		}
		if got := l.JustWaited(who, target, ready+int64(after)); got != want {
			t.Errorf("network %d, page %d, after %v: %v", by, target, after, got)
		}
	}
	f(0, 5, 0, true)
	f(0, 5, 14*time.Second, true)
	f(0, 5, 15*time.Second+bucket.TickLength, false)
	f(0, 6, 0, false)
	f(1, 5, 0, false)
	// A second wait for the same page counts from its own end.
	second := l.Wait(n, ready)
	l.sitOut(n, 5, second)
	f(0, 5, time.Duration(second-ready)+14*time.Second, true)
}

// A wait redeemed by many at once is redeemed once.
func TestWaitRedeemedAtOnce(t *testing.T) {
	l, n := New(Options{}), net("192.0.2.1")
	now := start
	for range 200 {
		now = l.Wait(n, now)
		var got atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if l.sitOut(n, 1, now) == nil {
					got.Add(1)
				}
				l.Wait(n, now)
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Fatalf("redeemed %d times", got.Load())
		}
	}
}

// sitOut redeems a wait with a challenge of its own.
func (l *Ledger) sitOut(n network.Network, target uint64, now int64) error {
	_, err := l.Waited(waits.Add(1)<<32, n, target, now)
	return err
}

var waits atomic.Uint64

// A lost connection: the link is followed again, and earns the same pass.
func TestWaitedAgain(t *testing.T) {
	l := New(Options{})
	n := v4(1)
	ready := l.Wait(n, start)
	if first, err := l.Waited(5, n, 1, ready); err != nil || !first {
		t.Fatal(first, err)
	}
	day := l.Price(n, ready)
	for range 3 {
		if first, err := l.Waited(5, n, 1, ready); err != nil || first {
			t.Errorf("again: %v %v", first, err)
		}
	}
	if l.Price(n, ready) != day {
		t.Error("it is counted again")
	}
	if _, err := l.Waited(6, n, 1, ready); err != ErrNone {
		t.Errorf("another link: %v", err)
	}
}
