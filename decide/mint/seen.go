package mint

import (
	"time"

	"stile/decide/internal/bucket"
)

// seenFor is as long as a challenge lives, with clocks that differ by some seconds.
const seenFor = 5*time.Minute + 30*time.Second

// recent remembers keys for a while. In a full bucket the oldest has to go.
type recent struct {
	entries *bucket.Table
	ticks   uint32
}

func newRecent(keys int, life time.Duration) recent {
	return recent{entries: bucket.New(keys), ticks: bucket.Ticks(life)}
}

func (r recent) mark(key uint64, tick uint32) {
	b, mu := r.entries.At(key)
	mu.Lock()
	*place(b, key, tick) = bucket.Entry{Key: key, At: tick, N: 1}
	mu.Unlock()
}

func (r recent) has(key uint64, tick uint32) bool {
	b, mu := r.entries.At(key)
	mu.Lock()
	e := b.Find(key)
	has := e != nil && e.Age(tick) < r.ticks
	mu.Unlock()
	return has
}

func (r recent) len(now int64) int {
	tick := bucket.Tick(now)
	return r.entries.Len(func(e *bucket.Entry) bool { return e.Age(tick) < r.ticks })
}

// place is the entry of a key; if it has none, a free one or the oldest, as it is. The
// lock must be held.
func place(b *bucket.Bucket, key uint64, tick uint32) *bucket.Entry {
	if e := b.Find(key); e != nil {
		return e
	}
	oldest := &b[0]
	for i := range b {
		e := &b[i]
		if e.N == 0 {
			return e
		}
		if e.Age(tick) > oldest.Age(tick) {
			oldest = e
		}
	}
	return oldest
}
