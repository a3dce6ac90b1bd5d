package bucket

import (
	"sync"
	"testing"
	"time"
	"unsafe"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(Bucket{}); n != 64 {
		t.Errorf("a bucket is %d bytes, want one cache line of 64", n)
	}
	if n := unsafe.Sizeof(lock{}); n != 64 {
		t.Errorf("a lock is %d bytes, want one cache line of 64", n)
	}
	f := func(entries, want int) {
		t.Helper()
		tb := New(entries)
		if tb.Cap() != want {
			t.Errorf("New(%d) has %d entries, want %d", entries, tb.Cap(), want)
		}
		if p := uintptr(unsafe.Pointer(&tb.buckets[0])); p%64 != 0 {
			t.Errorf("New(%d): buckets begin at %#x, not on a cache line", entries, p)
		}
	}
	f(-1, 4)
	f(0, 4)
	f(4, 4)
	f(5, 8)
	f(100, 128)
	f(65536, 65536)
	f(1_000_000, 1<<20)
}

func TestKeyZeroIsAKey(t *testing.T) {
	b, _ := New(4).At(0)
	if b.Find(0) != nil {
		t.Error("key 0 is in an empty bucket")
	}
	b[2] = Entry{Key: 0, N: 1}
	if b.Find(0) != &b[2] {
		t.Error("key 0 is not found")
	}
}

// Two keys that share a bucket must share its lock, in tables of every size.
func TestOneLockPerBucket(t *testing.T) {
	for entries := 4; entries <= 1<<14; entries *= 2 {
		tb, owner := New(entries), map[*Bucket]*sync.Mutex{}
		for key := range uint64(4 * entries) {
			b, mu := tb.At(key * 0x9E3779B97F4A7C15)
			if owner[b] != nil && owner[b] != mu {
				t.Fatalf("%d entries: a bucket has two locks", entries)
			}
			owner[b] = mu
		}
	}
}

func TestLen(t *testing.T) {
	tb := New(4096)
	for key := range uint64(1000) {
		b, _ := tb.At(key)
		b[0] = Entry{Key: key, At: uint32(key), N: 1}
	}
	if n := tb.Len(func(e *Entry) bool { return e.At < 600 }); n != 600 {
		t.Errorf("%d entries, want 600", n)
	}
}

func TestTick(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC).UnixNano()
	if Phase(now) != 1 {
		t.Errorf("phase %v, want 1ns", Phase(now))
	}
	if d := Tick(now+int64(time.Hour)) - Tick(now); d != 3600*16 {
		t.Errorf("an hour is %d ticks, want %d", d, 3600*16)
	}
	if Tick(now+int64(TickLength)-2) != Tick(now) || Tick(now+int64(TickLength)) != Tick(now)+1 {
		t.Error("a tick does not end where the next begins")
	}
	for _, now := range []int64{0, 1, 1e9, -1e18} { // clocks that were never set
		if d := Tick(now+int64(time.Hour)) - Tick(now); d != 3600*16 || Phase(now) < 0 || Phase(now) >= TickLength {
			t.Errorf("at %d: an hour is %d ticks, phase %v", now, d, Phase(now))
		}
	}
	in5Years := time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	if Tick(in5Years) < Tick(now) {
		t.Error("ticks wrap within five years")
	}
}

func TestTicks(t *testing.T) {
	f := func(d time.Duration, want uint32) {
		t.Helper()
		if got := Ticks(d); got != want {
			t.Errorf("Ticks(%v) = %d, want %d", d, got, want)
		}
	}
	f(-time.Second, 1)
	f(0, 1)
	f(1, 1)
	f(TickLength, 1)
	f(TickLength+1, 2)
	f(time.Minute, 960)
	f(24*time.Hour, 86400*16)
	f(1<<63-1, MaxTicks)
}

func TestAge(t *testing.T) {
	e := Entry{At: 100, N: 7}
	if e.Age(130) != 30 || e.At != 100 {
		t.Error("the age of an entry from the past is wrong")
	}
	if e.Age(60) != 0 || e.At != 60 || e.N != 7 {
		t.Error("an entry from the future was not moved to the present")
	}
	e.At = 1<<32 - 10
	if e.Age(20) != 30 {
		t.Error("the age is wrong when ticks begin again at 0")
	}
}

// A hint changes nothing, for any key.
func TestPrefetch(t *testing.T) {
	tb := New(100)
	b, _ := tb.At(7)
	b[1] = Entry{Key: 7, N: 3}
	for _, key := range []uint64{0, 7, 1 << 63, ^uint64(0)} {
		tb.Prefetch(key)
	}
	if e := b.Find(7); e == nil || e.N != 3 {
		t.Error("an entry is lost")
	}
}
