package botauth

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

const (
	recentSets = 512
	recentWays = 4
)

// recent remembers good signatures, a fixed number of them: many agents sign for a site,
// not for a request, and send the same signature with every request until it expires.
// It is safe for concurrent use.
type recent struct {
	mu   sync.Mutex // over a comparison of four hashes; a signature's check is 1000 times that
	sets [recentSets][recentWays]remembered
}

type remembered struct {
	hash  [sha256.Size]byte
	until int64 // Unix seconds
	keys  *keys // those in force when it was verified
}

func recentSet(h *[sha256.Size]byte) int {
	return int(binary.LittleEndian.Uint64(h[:8]) % recentSets)
}

// has tells whether that signature over that base by that key is known to be good.
func (r *recent) has(h *[sha256.Size]byte, k *keys, now int64) bool {
	set := &r.sets[recentSet(h)]
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range set {
		if set[i].hash == *h {
			return set[i].keys == k && now < set[i].until
		}
	}
	return false
}

// put remembers one, in place of the one that ends first.
func (r *recent) put(h *[sha256.Size]byte, k *keys, until int64) {
	set := &r.sets[recentSet(h)]
	r.mu.Lock()
	defer r.mu.Unlock()
	worst := 0
	for i := range set {
		if set[i].hash == *h {
			worst = i
			break
		}
		if set[i].until < set[worst].until {
			worst = i
		}
	}
	set[worst] = remembered{*h, until, k}
}

// len is how many are known that have not expired.
func (r *recent) len(now int64) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.sets {
		for j := range r.sets[i] {
			if now < r.sets[i][j].until {
				n++
			}
		}
	}
	return n
}
