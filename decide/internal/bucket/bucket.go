// Package bucket is the memory under stile's tables of fixed size: buckets of four
// small entries, each bucket one cache line, behind striped locks. What an entry
// means, and which one has to go when a bucket is full, is the caller's.
package bucket

import "sync"

// Entry is one key and what is counted of it, 16 bytes. N == 0 is a free entry, so
// that key 0 is a key like any other.
type Entry struct {
	Key uint64
	At  uint32 // a Tick
	N   uint32
}

// Bucket is the four places in which a key may be.
type Bucket [4]Entry

// Find is the entry of a key, or nil. The bucket's lock must be held.
func (b *Bucket) Find(key uint64) *Entry {
	for i := range b {
		if e := &b[i]; e.Key == key && e.N != 0 {
			return e
		}
	}
	return nil
}

// maxLocks bounds the memory for locks to 16 KiB a table. Two callers out of a
// hundred at work at once then meet on a lock about once in three.
const maxLocks = 256

// lock has a cache line of its own, so that neighbours do not slow each other down.
type lock struct {
	sync.Mutex
	_ [56]byte
}

// Table is an array of buckets. It never grows: its memory is asked for by New, and
// the system hands it out page by page as buckets are first used.
type Table struct {
	buckets []Bucket // a power of two: Go then aligns them to cache lines
	locks   []lock   // bucket i has lock i mod len, also a power of two
}

// New makes a table of at least that many entries (and at least four), rounded up to
// a power of two.
func New(entries int) *Table {
	n := 1
	for n*len(Bucket{}) < entries {
		n *= 2
	}
	return &Table{buckets: make([]Bucket, n), locks: make([]lock, min(n, maxLocks))}
}

// At is the bucket of a key, and the lock to hold while looking at it. The key's low
// bits choose the bucket: keys must be well mixed, by a hash whose seed nobody
// outside knows, or somebody will fill one bucket at his leisure.
func (t *Table) At(key uint64) (*Bucket, *sync.Mutex) {
	i := key & uint64(len(t.buckets)-1)
	return &t.buckets[i], &t.locks[i&uint64(len(t.locks)-1)].Mutex
}

// Prefetch has the bucket of a key on its way when At is called a moment later: a table is
// far larger than the caches, and a look at it takes longer than the rest of what is done.
func (t *Table) Prefetch(key uint64) { prefetch(&t.buckets[key&uint64(len(t.buckets)-1)]) }

// Cap is the number of entries.
func (t *Table) Cap() int { return len(t.buckets) * len(Bucket{}) }

// Len counts the used entries for which live holds. It walks the whole table, one
// lock at a time: for a metric, not for a request.
func (t *Table) Len(live func(*Entry) bool) int {
	n := 0
	for l := range t.locks {
		t.locks[l].Lock()
		for i := l; i < len(t.buckets); i += len(t.locks) {
			for j := range t.buckets[i] {
				if e := &t.buckets[i][j]; e.N != 0 && live(e) {
					n++
				}
			}
		}
		t.locks[l].Unlock()
	}
	return n
}
