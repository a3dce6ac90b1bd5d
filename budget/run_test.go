package budget

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Run does by a timer what a test does by Tick.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := func() int64 { return time.Now().UnixNano() }
		g, err := New(Options{Budget: 1, Queue: 8, Wait: 20 * time.Second, Lease: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { g.Run(ctx, clock) })
		synctest.Wait()

		ask := func(n uint64, want Answer) *Waiter {
			t.Helper()
			a, w := g.Admit(&Request{ID: id(n), Caller: mix(n)}, clock())
			if a != want {
				t.Fatalf("%d: %v, want %v", n, a, want)
			}
			return w
		}
		start := time.Now()
		after := func(w *Waiter, want Answer, d time.Duration) {
			t.Helper()
			<-w.Done()
			// A lease ends up to a 60th of a second late, and then the next one.
			if late := time.Since(start) - d; w.Answer() != want || late < 0 || late > 34*time.Millisecond {
				t.Errorf("%v after %v, want %v after %v", w.Answer(), time.Since(start), want, d)
			}
		}
		ask(1, Admitted)
		time.Sleep(5 * time.Second)
		b := ask(2, Waiting)
		time.Sleep(10 * time.Second)
		c := ask(3, Waiting)
		after(b, Elapsed, 25*time.Second)
		after(c, Admitted, 30*time.Second)
		// An earlier end than the one that Run sleeps for wakes it.
		g.Release(id(3), clock())
		time.Sleep(time.Second)
		g.Admit(&Request{ID: id(4), Lease: time.Second}, clock())
		d := ask(5, Waiting)
		after(d, Admitted, 32*time.Second)
		// After a day without work there is nothing that Run could have missed.
		time.Sleep(24 * time.Hour)
		if s := g.Stats(clock()); s.Leases != 0 {
			t.Errorf("%+v", s)
		}
		ask(6, Admitted)
		e := ask(7, Waiting)
		cancel()
		run.Wait()
		if e.Answer() != Closed {
			t.Errorf("when Run has ended a waiter is %v, want closed", e.Answer())
		}
	})
}

// A busy gate does not wake Run for every request.
func TestRunSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		g, _ := New(Options{Budget: 1, Lease: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		go g.Run(ctx, func() int64 { reads++; return time.Now().UnixNano() })
		for n := range uint64(10_000) {
			g.Admit(&Request{ID: id(n)}, time.Now().UnixNano())
			time.Sleep(60 * time.Millisecond)
			g.Release(id(n), time.Now().UnixNano())
		}
		cancel()
		synctest.Wait()
		if reads > 25 {
			t.Errorf("in ten minutes Run woke up %d times, want once a minute or two", reads)
		}
	})
}

// TestTogether lets many goroutines ask, wait, leave, release and reload at once while
// another steps the clock. What is held to be in the backend never costs more than the
// budget, or is one request; everybody is answered; nothing is left.
func TestTogether(t *testing.T) {
	const budget = 20
	g, err := New(Options{Budget: budget, Queue: 64, PerCaller: 6, Wait: time.Second, Lease: maxTime}) // no lease ends by itself, however fast the clock is stepped
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Int64
	var backend sync.Mutex
	inBackend, inCost, admitted := 0, int64(0), 0
	stop := make(chan struct{})
	var stepping, all sync.WaitGroup
	stepping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				g.Tick(now.Add(int64(time.Millisecond)))
				runtime.Gosched()
			}
		}
	})
	for worker := range uint64(96) {
		all.Go(func() {
			for i := range uint64(400) {
				n := mix(worker<<32 | i)
				r := Request{ID: id(n), Caller: n >> 8 % 24, Lane: Lane(n >> 16 % uint64(lanes)), Cost: int64(1 + n>>24%8)}
				if n>>32%50 == 0 {
					r.Cost = 3 * budget
				}
				a, w := g.Admit(&r, now.Load())
				if w != nil {
					switch n >> 40 % 4 {
					case 0:
						a = w.Leave(now.Load())
						if a == Admitted {
							continue // and given back
						}
					default:
						<-w.Done()
						a = w.Answer()
					}
				}
				if a == Waiting {
					t.Error("still waiting after the answer")
				}
				if a != Admitted {
					continue
				}
				backend.Lock()
				inBackend++
				inCost += r.Cost
				admitted++
				if inCost > budget && inBackend > 1 {
					t.Errorf("%d requests that cost %d are in the backend", inBackend, inCost)
				}
				backend.Unlock()
				runtime.Gosched()
				backend.Lock()
				inBackend--
				inCost -= r.Cost
				backend.Unlock()
				if _, how := g.Release(r.ID, now.Load()); how != Released && how != Late {
					t.Errorf("release: %d", how)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	stepping.Wait()
	s := g.Stats(now.Load())
	if s.Leases != 0 || s.Waiting != 0 || s.InFlight != 0 {
		t.Errorf("at the end: %+v", s)
	}
	sum := uint64(0)
	for _, n := range s.Answers {
		sum += n
	}
	if sum != 96*400 || s.Answers[Admitted] != uint64(admitted)+s.Returned {
		t.Errorf("%d answers to 38400 requests, %d admitted: %+v", sum, admitted, s)
	}
	t.Logf("%+v", s.Counts)
}
