package budget

import (
	"math"
	"sync"
	"time"
)

// Cost is what a request costs its backend.
type Cost struct {
	Bytes int64         // that the backend sends
	Time  time.Duration // that it takes
}

// shortest is the least that a lease lasts. A render that took a millisecond when it was
// learned takes longer when the machine is busy, which is when it matters.
const shortest = time.Second

// Lease is after what time a lease for a request of this cost may end by itself: three
// times what it takes, but at least a second and at most most. Without a Time it is most.
func (c Cost) Lease(most time.Duration) time.Duration {
	if c.Time <= 0 || c.Time > most/3 {
		return most
	}
	return min(max(3*c.Time, shortest), most)
}

// Scaled is a cost times a scale, rounded up: 1 to MaxBudget.
func Scaled(cost int64, scale float64) int64 {
	if x := math.Ceil(float64(cost) * scale); x < MaxBudget {
		return max(int64(x), 1)
	}
	return MaxBudget
}

// Price is what an estimate comes to in a budget of bytes, or of microseconds of backend
// time, times a scale. unseen is the price where nothing is known, and the least where
// little is.
func (c Cost) Price(from Source, micros bool, scale float64, unseen int64) int64 {
	if from == FromNothing {
		return unseen
	}
	n := c.Bytes
	if micros {
		n = c.Time.Microseconds()
	}
	if from == FromFew {
		return max(Scaled(n, scale), unseen)
	}
	return Scaled(n, scale)
}

// Source is how an estimate was made.
type Source uint8

const (
	FromNothing Source = iota // nothing is known of the route
	FromFew                   // the path has not been seen, and few others of the route: perhaps only cheap ones
	FromRoute                 // the path has not been seen
	FromPath
)

// Costs learns what requests cost, by route and path, in a fixed amount of memory. What
// it says is an upper estimate, not a mean:
//
// A path costs what it has cost. A higher cost counts at once; of a lower one a sixteenth
// of the difference counts, each time.
//
// A path that has not been seen costs what the most expensive path of its route has cost
// lately: in the six hours of the last lesson, and in the six hours with a lesson before
// those. Of a route that has not been seen every path costs what NewCosts was told, and
// as long as fewer than enoughPaths of its paths have been seen, at least that: the first
// few may all be cheap. So a swarm that asks for one new page each is let in as if each
// were the largest.
//
// It learns only what it is taught. That should be complete answers with status 200 to
// plain GETs (see Line.Teaches): who could teach it less by asking for half a page, or
// for a head, would teach that large pages are cheap.
//
// A path has one of four places in memory. A new one takes a free place, or that of the
// lowest rank; a path that is taught again rises by one rank. So paths that come once,
// however many, push out each other, and one in four of the others at most.
//
// Keys are well-mixed hashes, seeded by the caller, and the same after a restart if the
// state is to be kept. Safe for concurrent use; Estimate and Teach do not allocate, but
// for the first lesson of a route.
type Costs struct {
	unseen  Cost
	buckets []costBucket // a power of two: Go then aligns them to cache lines
	locks   [costLocks]costLock

	mu     sync.RWMutex
	routes map[uint64]*route
}

const (
	costLocks = 64
	// maxRoutes bounds the routes. There are as many as an operator writes rules.
	maxRoutes = 4096
	// routeMemory is how long a route's most expensive path counts, at least.
	routeMemory = int64(6 * time.Hour)
	fall        = 16
	// enoughPaths is how many paths of a route tell what its others may cost.
	enoughPaths = 32
)

type costLock struct {
	sync.Mutex
	_ [56]byte // a cache line of its own
}

// learned is a cost in 8 bytes.
type learned struct {
	blocks uint32 // of 256 bytes, rounded up; at least one
	micros uint32 // at least one
}

type pathCost struct {
	key uint64
	learned
}

// costBucket is the places of a path, the highest rank first. blocks == 0: free.
type costBucket [4]pathCost

type route struct {
	period        int64 // of routeMemory, of the last lesson
	worst, before learned
	seen          uint32 // new paths, enoughPaths at most
}

// NewCosts makes a table for at least that many paths, at 16 bytes each, rounded up to a
// power of two. unseen is the cost of a path of which, and of whose route, nothing is
// known.
func NewCosts(paths int, unseen Cost) *Costs {
	n := 1
	for n*len(costBucket{}) < paths {
		n *= 2
	}
	return &Costs{unseen: unseen, buckets: make([]costBucket, n), routes: map[uint64]*route{}}
}

// Estimate is what a request probably costs at most.
func (c *Costs) Estimate(route, path uint64) (Cost, Source) {
	b, mu := c.bucket(path)
	mu.Lock()
	for i := range b {
		if e := &b[i]; e.key == path && e.blocks != 0 {
			cost := e.cost()
			mu.Unlock()
			return cost, FromPath
		}
	}
	mu.Unlock()
	c.mu.RLock()
	r := c.routes[route]
	if r == nil {
		c.mu.RUnlock()
		return c.unseen, FromNothing
	}
	cost, few := r.worst.max(r.before).cost(), r.seen < enoughPaths
	c.mu.RUnlock()
	if few {
		return Cost{max(cost.Bytes, c.unseen.Bytes), max(cost.Time, c.unseen.Time)}, FromFew
	}
	return cost, FromRoute
}

// Teach counts what a request has cost. now is the time of the lesson in unix
// nanoseconds.
func (c *Costs) Teach(route, path uint64, cost Cost, now int64) {
	l := learn(cost)
	b, mu := c.bucket(path)
	mu.Lock()
	i := 0
	for i < len(b)-1 && b[i].blocks != 0 && b[i].key != path {
		i++
	}
	e, known := &b[i], false
	if known = e.key == path && e.blocks != 0; known {
		e.learned = learned{blocks: toward(e.blocks, l.blocks), micros: toward(e.micros, l.micros)}
		if i > 0 {
			b[i-1], b[i] = b[i], b[i-1]
		}
	} else {
		*e = pathCost{key: path, learned: l}
	}
	mu.Unlock()
	c.teachRoute(route, l, now/routeMemory, known)
}

func (c *Costs) teachRoute(key uint64, l learned, period int64, known bool) {
	c.mu.RLock()
	r := c.routes[key]
	nothingNew := r != nil && period <= r.period && period >= r.period-1 && l.max(r.worst) == r.worst &&
		(known || r.seen >= enoughPaths)
	c.mu.RUnlock()
	if nothingNew {
		return
	}
	c.mu.Lock()
	r = c.routes[key]
	switch {
	case r == nil && len(c.routes) < maxRoutes:
		c.routes[key] = &route{period: period, worst: l}
	case r == nil:
	case period > r.period:
		r.period, r.before, r.worst = period, r.worst, l
	case period < r.period-1: // a clock that was ahead: nothing would be forgotten until then
		r.period, r.before, r.worst = period, r.worst.max(r.before), l
	default:
		r.worst = r.worst.max(l)
	}
	if r = c.routes[key]; r != nil && !known && r.seen < enoughPaths {
		r.seen++
	}
	c.mu.Unlock()
}

// Len is the number of paths that are known. It walks the table: for a metric.
func (c *Costs) Len() int {
	n := 0
	c.walk(func(pathCost) { n++ })
	return n
}

// Cap is the number of paths that there is memory for.
func (c *Costs) Cap() int { return len(c.buckets) * len(costBucket{}) }

func (c *Costs) bucket(path uint64) (*costBucket, *sync.Mutex) {
	i := path & uint64(len(c.buckets)-1)
	return &c.buckets[i], &c.locks[i%costLocks].Mutex
}

// walk visits all paths, bucket by bucket, the highest rank first.
func (c *Costs) walk(f func(pathCost)) {
	for i := range c.buckets {
		mu := &c.locks[i%costLocks]
		mu.Lock()
		b := c.buckets[i]
		mu.Unlock()
		for _, e := range b {
			if e.blocks != 0 {
				f(e)
			}
		}
	}
}

func learn(c Cost) learned {
	blocks := (max(c.Bytes, 1)-1)/256 + 1
	return learned{
		blocks: uint32(min(blocks, math.MaxUint32)),
		micros: uint32(min(max(c.Time.Microseconds(), 1), math.MaxUint32)),
	}
}

func (l learned) cost() Cost {
	return Cost{Bytes: int64(l.blocks) * 256, Time: time.Duration(l.micros) * time.Microsecond}
}

func (l learned) max(m learned) learned {
	return learned{blocks: max(l.blocks, m.blocks), micros: max(l.micros, m.micros)}
}

// toward rises to what has been seen at once and falls to it slowly.
func toward(known, seen uint32) uint32 {
	if seen >= known {
		return seen
	}
	return known - (known-seen)/fall
}
