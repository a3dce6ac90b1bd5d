package meter

import (
	"sync/atomic"
	"testing"
	"time"
)

// What a request pays for one meter, with a table that is full of running windows, so
// that nearly every call misses the caches; and the same for a table within them.
//
//	go test -run - -bench . -cpu 1,2 ./decide/meter
func BenchmarkAdd(b *testing.B) {
	f := func(name string, keys uint64) {
		tb := NewTable(int(keys))
		for i := range 2 * keys {
			tb.Add(mix(i%keys), start, time.Hour, 1<<30)
		}
		seed := new(atomic.Uint64)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := seed.Add(1 << 32); pb.Next(); i++ {
					tb.Add(mix(mix(i)%keys), start, time.Hour, 1<<30)
				}
			})
		})
	}
	f("keys=1000", 1000)
	f("keys=1000000", 1_000_000)
}

// A spray: every key is new to a full bucket.
func BenchmarkAddNew(b *testing.B) {
	tb := NewTable(1_000_000)
	for i := range uint64(4 << 20) {
		tb.Add(mix(1<<50+i), start, time.Hour, 1<<30)
	}
	seed := new(atomic.Uint64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := seed.Add(1 << 32); pb.Next(); i++ {
			tb.Add(mix(i), start, time.Hour, 1<<30)
		}
	})
}

func BenchmarkCounter(b *testing.B) {
	var c Counter
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Add(start, time.Hour, 1<<32-1)
		}
	})
}

// The yardstick: the same keys, and one cache line read in 16 MB of memory.
func BenchmarkYardstick(b *testing.B) {
	lines := make([][8]uint64, 1<<18)
	for i := range lines {
		lines[i][0] = uint64(i)
	}
	sum := uint64(0)
	for i := 0; b.Loop(); i++ {
		sum += lines[mix(mix(uint64(i))%1_000_000+sum&1)&(1<<18-1)][0]
	}
	if sum == 0 {
		b.Error("BUG: nothing was read")
	}
}
