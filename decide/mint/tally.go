package mint

import (
	"math"
	"time"

	"stile/decide/internal/bucket"
)

// halfLife of what a pass counts in the price.
const halfLife = time.Hour

// tally counts keys, and forgets half of each count in halfLife. An entry is a float32
// as it was at its tick. In a full bucket the smallest count has to go.
type tally struct{ entries *bucket.Table }

func newTally(keys int) tally { return tally{bucket.New(keys)} }

func (t tally) add(key uint64, tick uint32) {
	b, mu := t.entries.At(key)
	mu.Lock()
	e := b.Find(key)
	if e == nil {
		e = &b[0]
		for i := range b {
			if decayed(&b[i], tick) < decayed(e, tick) {
				e = &b[i]
			}
		}
		*e = bucket.Entry{Key: key, At: tick}
	}
	e.N = math.Float32bits(decayed(e, tick) + 1)
	e.At = tick
	mu.Unlock()
}

func (t tally) count(key uint64, tick uint32) (n float32) {
	b, mu := t.entries.At(key)
	mu.Lock()
	if e := b.Find(key); e != nil {
		n = decayed(e, tick)
	}
	mu.Unlock()
	return n
}

// len is the number of counts that are still worth half a pass.
func (t tally) len(now int64) int {
	tick := bucket.Tick(now)
	return t.entries.Len(func(e *bucket.Entry) bool { return decayed(e, tick) >= 0.5 })
}

// decayed is the count of an entry at tick; of a free one, 0. The lock must be held.
func decayed(e *bucket.Entry, tick uint32) float32 {
	n := math.Float32frombits(e.N)
	if n == 0 {
		return 0
	}
	if age := e.Age(tick); age != 0 {
		n *= float32(math.Exp2(-float64(age) / float64(halfLife/bucket.TickLength)))
	}
	return n
}
