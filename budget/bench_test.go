package budget

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

func bench() *Gate {
	g, err := New(Options{Budget: 16 << 20, FreeBelow: 1 << 20, Queue: 2048, PerCaller: 4, Wait: 20 * time.Second, Lease: time.Minute})
	if err != nil {
		panic(err)
	}
	return g
}

func id(n uint64) (id ID) {
	binary.LittleEndian.PutUint64(id[:], mix(n))
	binary.LittleEndian.PutUint64(id[8:], mix(n+1<<40))
	return id
}

// mix is SplitMix64's: Steele, Lea, Flood, OOPSLA 2014.
func mix(n uint64) uint64 {
	n += 0x9E3779B97F4A7C15
	n = (n ^ n>>30) * 0xBF58476D1CE4E5B9
	n = (n ^ n>>27) * 0x94D049BB133111EB
	return n ^ n>>31
}

// What a request pays when nobody else is there, beside the semaphore that has the same
// order of service but knows neither names nor callers nor ends. They take turns of a
// thousand; the fastest turn of each is compared, for the machine has other work.
//
//	go test -run - -bench Uncontended -benchtime 2000x ./budget
func BenchmarkUncontended(b *testing.B) {
	s, ctx := semaphore.NewWeighted(16<<20), context.Background()
	g, now, n := bench(), int64(time.Hour), uint64(0)
	requests := make([]Request, 256)
	for i := range uint64(256) {
		requests[i] = Request{ID: id(i), Caller: mix(i), Cost: 4 << 20, Note: Note{Path: i}}
	}
	fastest := [2]time.Duration{time.Hour, time.Hour}
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for range 1000 {
			if s.Acquire(ctx, 4<<20) != nil {
				b.Fatal("not acquired")
			}
			s.Release(4 << 20)
		}
		fastest[0] = min(fastest[0], time.Since(start))
		start = time.Now()
		for range 1000 {
			n++
			now += 1000
			r := &requests[n%256]
			if a, _ := g.Admit(r, now); a != Admitted {
				b.Fatal(a)
			}
			if _, how := g.Release(r.ID, now); how != Released {
				b.Fatal(how)
			}
		}
		fastest[1] = min(fastest[1], time.Since(start))
	}
	b.ReportMetric(float64(fastest[0].Nanoseconds())/1000, "semaphore-ns")
	b.ReportMetric(float64(fastest[1].Nanoseconds())/1000, "gate-ns")
	b.ReportMetric(float64(fastest[1])/float64(fastest[0]), "times-semaphore")
}

// A place for one, and others who wait for it: each that has it gives it to the first in
// the queue and goes to the end of it. Gate and semaphore take turns of twenty thousand;
// the fastest of each are compared.
//
//	go test -run - -bench Waiters -benchtime 40x ./budget
func BenchmarkWaiters(b *testing.B) {
	const turn = 20_000
	ids, callers := make([]ID, turn+1), make([]uint64, turn+1)
	for i := range ids {
		ids[i], callers[i] = id(uint64(i)), mix(uint64(i))
	}
	sem := func(n int) time.Duration {
		s, ctx := semaphore.NewWeighted(1), context.Background()
		return queued(n, turn, func(int) {
			if s.Acquire(ctx, 1) != nil {
				b.Error("not acquired")
			}
		}, func(int) { s.Release(1) })
	}
	gate := func(n int) time.Duration {
		g, _ := New(Options{Budget: 1, Queue: 2048, PerCaller: 4, Wait: time.Hour, Lease: time.Hour})
		return queued(n, turn, func(i int) {
			r := Request{ID: ids[i], Caller: callers[i], Lane: Proven, Cost: 1}
			a, w := g.Admit(&r, 0)
			if a == Waiting {
				<-w.Done()
				a = w.Answer()
			}
			if a != Admitted {
				b.Error(a)
			}
		}, func(i int) { g.Release(ids[i], 0) })
	}
	fastest := map[string]time.Duration{}
	f := func(name string, d time.Duration) {
		if old, ok := fastest[name]; !ok || d < old {
			fastest[name] = d
		}
	}
	for b.Loop() {
		for _, n := range []int{10, 100, 1000} {
			f(fmt.Sprint("semaphore-", n), sem(n))
			f(fmt.Sprint("gate-", n), gate(n))
		}
	}
	for name, d := range fastest {
		b.ReportMetric(float64(d.Nanoseconds())/turn, name+"-ns")
	}
}

// queued lets n goroutines, that all wait before the first may go, do so many things.
func queued(n, things int, admit, release func(i int)) time.Duration {
	var all sync.WaitGroup
	var next, here atomic.Int64
	admit(0)
	for range n {
		all.Go(func() {
			here.Add(1)
			for i := next.Add(1); i <= int64(things); i = next.Add(1) {
				admit(int(i))
				release(int(i))
			}
		})
	}
	for here.Load() < int64(n) {
		runtime.Gosched()
	}
	runtime.Gosched()
	start := time.Now()
	release(0)
	all.Wait()
	return time.Since(start)
}
