package crawler

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// workers is how many lookups run at once. With lookupTime it says how many an hour there
// are of those whose owner makes them slow.
const workers = 16

// RetrySeconds is when a crawler whose claim is being looked up should come again.
const RetrySeconds = 10

// Checker says what is known of a claim, without waiting: from lists, from what DNS said
// before, and by beginning a lookup where neither tells. It is safe for concurrent use.
type Checker struct {
	sources atomic.Pointer[sources]
	setting sync.Mutex // held by who replaces them
	cache   *cache
	queue   *queue
	now     func() time.Time

	lookups [results]atomic.Uint64
	checks  [][States]atomic.Uint64 // by crawler
}

// sources are what a reload replaces.
type sources struct {
	lists    *Lists
	resolver *net.Resolver
}

// Result is how a lookup ended.
type Result uint8

const (
	ResultVerified Result = iota
	ResultSpoofed         // DNS does not confirm it
	ResultFailed          // DNS did not answer, or too late
	ResultDropped         // there was no place in the queue
	results
)

var resultNames = [results]string{"verified", "spoofed", "failed", "dropped"}

// NewChecker makes a checker; lookups run while Run does. now is the clock that answers
// expire by, nil for time.Now.
func NewChecker(l *Lists, r *net.Resolver, now func() time.Time) *Checker {
	if now == nil {
		now = time.Now
	}
	c := &Checker{cache: newCache(), queue: newQueue(), now: now, checks: make([][States]atomic.Uint64, len(Known))}
	c.sources.Store(&sources{l, r})
	return c
}

// SetLists replaces the lists. What DNS said stays.
func (c *Checker) SetLists(l *Lists) {
	c.setting.Lock()
	defer c.setting.Unlock()
	c.sources.Store(&sources{l, c.sources.Load().resolver})
}

// SetResolver replaces the resolver, and forgets what the old one said.
func (c *Checker) SetResolver(r *net.Resolver) {
	c.setting.Lock()
	defer c.setting.Unlock()
	c.sources.Store(&sources{c.Lists(), r})
	c.cache.clear()
}

// Lists are the lists in force.
func (c *Checker) Lists() *Lists { return c.sources.Load().lists }

// Run does the lookups until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	for range workers - 1 {
		go c.work(ctx)
	}
	c.work(ctx)
}

func (c *Checker) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.queue.ready:
			j := c.queue.take()
			c.lookup(ctx, &j)
			c.queue.done(&j)
		}
	}
}

// LookUp does the lookups that wait, one after another, and returns when none does. Run
// does them as they come.
func (c *Checker) LookUp(ctx context.Context) {
	for {
		select {
		case <-c.queue.ready:
			j := c.queue.take()
			c.lookup(ctx, &j)
			c.queue.done(&j)
		default:
			return
		}
	}
}

// lookup asks DNS and keeps the answer.
func (c *Checker) lookup(ctx context.Context, j *job) {
	s := c.sources.Load()
	limited, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	id, ok := confirm(limited, s.resolver, j.claimed, j.addr)
	if ctx.Err() != nil {
		return
	}
	claim, _ := s.lists.verdict(j.claimed, j.addr) // of those whom DNS cannot confirm
	result := ResultSpoofed
	switch {
	case id != 0:
		claim, result = Claim{Verified, id}, ResultVerified
	case !ok:
		claim.State, result = Unknown, ResultFailed
	}
	c.lookups[result].Add(1)
	c.cache.put(j.addr, j.claimed, claim, c.now().Add(holds(result)).UnixNano())
}

// Claim is what is known of a request with that agent from that address, at a time in
// unix nanoseconds. It allocates nothing, keeps nothing of agent, and never waits.
func (c *Checker) Claim(agent string, a netip.Addr, now int64) Claim {
	claimed := Claimed(agent)
	claim := Claim{}
	if claimed != 0 {
		claim = c.claim(claimed, a.Unmap(), now)
	} else if claim = c.Lists().unclaimed(a); claim.State == None {
		return claim
	}
	c.checks[claim.Crawler-1][claim.State].Add(1)
	return claim
}

func (c *Checker) claim(claimed Set, a netip.Addr, now int64) Claim {
	// Fast path: the lists say it, or DNS did before.
	claim, dns := c.Lists().verdict(claimed, a)
	if claim.State == Verified || dns == 0 {
		return claim
	}
	if !a.IsValid() {
		return Claim{Unknown, claimed.First()}
	}
	known, until, ok := c.cache.get(a, claimed)
	if ok && now < until {
		return known
	}
	// Slow path.
	if _, queued := c.queue.add(a, claimed); !queued {
		c.lookups[ResultDropped].Add(1)
	}
	if ok && now < until+int64(graceTime) {
		return known
	}
	return Claim{Pending, claimed.First()}
}

// Results are how lookups end: all of them.
func Results() (rs []Result) {
	for r := range results {
		rs = append(rs, r)
	}
	return rs
}

func (r Result) String() string { return resultNames[r] }

// Lookups is how many lookups ended so.
func (c *Checker) Lookups(r Result) uint64 { return c.lookups[r].Load() }

// Checks is how many requests in a crawler's name were of a state.
func (c *Checker) Checks(id ID, s State) uint64 { return c.checks[id-1][s].Load() }

// Queue is how many lookups wait or run, and how many may.
func (c *Checker) Queue() (n, most int) { return c.queue.len(), queueSize }

// Answers is how many answers of DNS are kept, and how many may be.
func (c *Checker) Answers(now int64) (n, most int) { return c.cache.len(now), cacheSize }
