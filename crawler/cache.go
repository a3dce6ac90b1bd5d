package crawler

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// How long the answer of a lookup holds. A crawler's addresses keep their names for
// months; an imitator may be gone, and its address a crawler's, after an hour.
const (
	verifiedTime = 24 * time.Hour
	spoofedTime  = time.Hour
	unknownTime  = time.Minute
	// graceTime is how long an answer is still given while it is looked up anew.
	graceTime = time.Hour
)

// holds is for how long the result of a lookup holds.
func holds(r Result) time.Duration {
	switch r {
	case ResultVerified:
		return verifiedTime
	case ResultFailed:
		return unknownTime
	}
	return spoofedTime
}

// answer is what was found out about a claim by somebody at an address.
type answer struct {
	addr    netip.Addr
	claimed Set
	claim   Claim
	until   int64 // unix nanoseconds
}

const (
	cacheShards = 64
	cacheWays   = 8
	cacheSets   = 64 // of each shard
	// cacheSize is how many answers are kept.
	cacheSize = cacheShards * cacheSets * cacheWays
)

// cache keeps the newest answers, a fixed number of them. It is safe for concurrent use.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu   sync.Mutex
	sets [cacheSets][cacheWays]answer
	_    [56]byte
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

func (c *cache) place(a netip.Addr) (*cacheShard, int) {
	b := a.As16()
	h := maphash.Bytes(c.seed, b[:])
	return &c.shards[h%cacheShards], int(h / cacheShards % cacheSets)
}

// get is the answer for a claim, and until when it holds; ok is false if there is none.
func (c *cache) get(a netip.Addr, claimed Set) (claim Claim, until int64, ok bool) {
	s, set := c.place(a)
	s.mu.Lock()
	for i := range s.sets[set] {
		if e := &s.sets[set][i]; e.addr == a && e.claimed == claimed {
			claim, until, ok = e.claim, e.until, true
			break
		}
	}
	s.mu.Unlock()
	return claim, until, ok
}

// put keeps an answer, in the place of the one that has the least time left: a spray of
// imitators pushes out imitators, not crawlers.
func (c *cache) put(a netip.Addr, claimed Set, claim Claim, until int64) {
	s, set := c.place(a)
	s.mu.Lock()
	worst := &s.sets[set][0]
	for i := range s.sets[set] {
		e := &s.sets[set][i]
		if e.addr == a && e.claimed == claimed {
			worst = e
			break
		}
		if e.until < worst.until {
			worst = e
		}
	}
	*worst = answer{a, claimed, claim, until}
	s.mu.Unlock()
}

// clear forgets everything: what was found by other lists or another resolver.
func (c *cache) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		clear(s.sets[:])
		s.mu.Unlock()
	}
}

// len is how many answers there are that still hold.
func (c *cache) len(now int64) (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for j := range s.sets {
			for k := range s.sets[j] {
				if s.sets[j][k].until > now {
					n++
				}
			}
		}
		s.mu.Unlock()
	}
	return n
}
