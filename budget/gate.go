// Package budget lets only so much expensive work into a backend at once. A request
// that does not fit waits its turn, first come, first served, and holds a lease while
// the backend works on it. What a request costs is told by the caller; Costs learns it.
package budget

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// MaxBudget bounds a budget and every cost, so that sums of them cannot overflow.
const MaxBudget = 1 << 60

const (
	defaultLeases = 4096
	maxPlaces     = 1 << 20
	maxTime       = 24 * time.Hour
)

// Options of a gate.
type Options struct {
	// Budget is how much may be in flight at once, in a unit that the caller chooses: bytes,
	// microseconds of backend time, or requests. No default.
	Budget int64
	// FreeBelow is the cost below which a request does not wait. It counts in flight like any
	// other. Default 0: every request waits its turn.
	FreeBelow int64
	// Queue is how many may wait. Default 0: nobody waits.
	Queue int
	// PerCaller is how many places one caller may hold, waiting and in flight together, and how
	// many free requests besides. Default 0: any number.
	PerCaller int
	// OperatorPlace keeps one place in the queue, over and above Queue, for the operator's lane.
	// Default false.
	OperatorPlace bool
	// Wait is how long a waiter waits. No default, unless Queue is 0.
	Wait time.Duration
	// Lease is when a lease ends by itself, if nothing has released it. No default.
	Lease time.Duration
	// Leases is how many leases there may be at once, whatever they cost. Default 4096.
	Leases int
}

func (o *Options) check() error {
	var errs []error
	f := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s is %v: want %s", name, value, want))
		}
	}
	f(o.Budget >= 1 && o.Budget <= MaxBudget, "budget", o.Budget, "1 to 2^60")
	f(o.FreeBelow >= 0 && o.FreeBelow <= o.Budget, "free_below", o.FreeBelow, "at most the budget")
	f(o.Queue >= 0 && o.Queue <= maxPlaces, "queue", o.Queue, "0 to 1048576")
	f(o.PerCaller >= 0 && o.PerCaller <= maxPlaces, "per_caller", o.PerCaller, "0 (no limit) to 1048576")
	f(o.Wait >= 0 && o.Wait <= maxTime && (o.Wait > 0 || o.Queue == 0), "wait", o.Wait, "more than 0, at most 24h")
	f(o.Lease > 0 && o.Lease <= maxTime, "lease", o.Lease, "more than 0, at most 24h")
	f(o.Leases >= 0 && o.Leases <= maxPlaces, "leases", o.Leases, "1 to 1048576")
	return errors.Join(errs...)
}

// Lane is what is known about a caller, as far as it matters here.
type Lane uint8

const (
	Stranger Lane = iota // all strangers together hold at most half the queue
	Proven               // has a pass, or a name
	Operator
	lanes
)

// ID names a client request: nginx's $request_id. All zero: it has no name, and its lease
// ends by itself.
type ID [16]byte

// Request is one client request that asks for a lease.
type Request struct {
	ID     ID
	Caller uint64 // a well-mixed hash of who asks
	Lane   Lane
	Cost   int64         // in the unit of the budget; less than 1 is 1
	Lease  time.Duration // an earlier end than Options.Lease; 0: none
	// Expected is how long the backend is expected to take; 0: not known. The lease then ends
	// earlier by itself, see Gate.
	Expected time.Duration
	NoWait   bool // refused with Busy where another would wait: a prefetch
	Hold     bool // its lease has no end of its own, if it has an ID: a batch job whose holder is watched
	Note     Note // handed back when the lease is released
}

// Note is what its owner wants to know again when a lease is released.
type Note struct {
	Path uint64 // the key that its end teaches Costs; 0: it teaches nothing
	Host uint32
	Rule uint32
}

// Answer is what came of a request.
type Answer uint8

const (
	Waiting   Answer = iota // in the queue: see Waiter
	Admitted                // holds a lease
	Full                    // no place in the queue
	Strangers               // the strangers' half of the queue is full
	PerCaller               // the caller holds its places
	Held                    // would not fit beside the holds in flight, which may take long
	Busy                    // would have to wait, and does not want to
	Elapsed                 // has waited for Options.Wait
	Left                    // gave up waiting
	Closed                  // the gate is no longer in use
	Answers
)

var answerNames = [Answers]string{"waiting", "admitted", "full", "strangers", "caller", "held", "busy", "elapsed", "left", "closed"}

func (a Answer) String() string {
	if a >= Answers {
		return "unknown"
	}
	return answerNames[a]
}

// Gate admits requests as long as the costs of all leases and of the next request fit
// the budget.
//
// It guarantees: Waiters are served strictly in the order of their arrival. The first
// one, however much it costs, holds back all later ones, and is admitted when it fits or
// when no other lease is left but free ones: so what costs more than the budget runs
// alone, and nobody starves. A waiter is answered exactly once: admitted, refused when
// Options.Wait is over, or gone. A request id holds one lease and one place, however
// often it asks, and however often it is released.
//
// Free requests (Options.FreeBelow) do not wait, but only as long as those in flight
// cost no more than the budget together, and their caller has fewer than
// Options.PerCaller of them; the next one takes its turn like any other. So at most twice
// the budget is in flight, or one oversize request and once the budget.
//
// A hold (Request.Hold) may last for hours. Who would not fit beside it is refused at once
// when it has lasted for Options.Wait, so that nobody stands at the head of the queue in
// vain and keeps the others waiting.
//
// A lease that nobody releases ends by itself: after Options.Lease, or, where it is known
// how long the backend should take, after three times that, but at least a second. That
// is stretched by as much as the backend has lately been slower than expected. And while
// nothing at all is released each round of leases lasts twice as long as the one before,
// up to eight times: perhaps the backend stands still, perhaps those who read are slow.
//
// It does not guarantee that the backend is idle when a lease has ended by itself, nor
// fairness between callers beyond Options.PerCaller.
//
// Times are nanoseconds of any one clock. If it is stepped back the gate goes on from
// where it was; one that is stepped forward ends leases and waits early. Memory is
// asked for by New, and does not grow. Safe for concurrent use.
type Gate struct {
	mu sync.Mutex

	// What every request touches.
	closed   bool
	last     int64 // the clock
	due      int64 // nothing has to be done before
	firstEnd int64 // no lease ends before
	inFlight int64 // costs of all leases
	given    int   // leases
	free     int   // free ones among them
	unused   *lease
	waiting  queue
	seed     [2]uint64
	odd      uint64
	o        Options
	counts   Counts

	ids      [buckets]*lease
	callers  [buckets]*lease
	freeCost int64   // of the free leases
	heldCost int64   // of the holds
	heldFrom int64   // when the first of them was given
	slowness float64 // of the backend, at least 1: how many times as long as expected it takes
	released int64   // when a lease was last released
	round    uint8   // of leases that ended by themselves, since then
	inQueue  [lanes]int
	late     queue // leases that ended by themselves, the oldest first
	memory   [][]lease
	armed    int64 // Run sleeps until then, or notRunning
	wake     chan struct{}
}

// New makes a gate.
func New(o Options) (*Gate, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	g := &Gate{slowness: 1, due: never, firstEnd: never, armed: notRunning, wake: make(chan struct{}, 1)}
	g.seed, g.odd = [2]uint64{rand.Uint64(), rand.Uint64()}, rand.Uint64()|1
	g.set(o)
	return g, nil
}

// Set changes the options of a gate in use. Those who wait keep their places, also if
// the queue is shorter now; what is in flight stays in flight. Costs must be in the same
// unit as before: for another unit make another gate, and Close this one.
func (g *Gate) Set(o Options, now int64) error {
	if err := o.check(); err != nil {
		return err
	}
	g.mu.Lock()
	g.set(o)
	g.advance(g.time(now)) // waits may be over earlier now
	g.mu.Unlock()
	return nil
}

func (g *Gate) set(o Options) {
	if o.Leases == 0 {
		o.Leases = defaultLeases
	}
	g.o = o
	need := o.Leases + lateKept + o.Queue + 1
	for _, block := range g.memory {
		need -= len(block)
	}
	if need <= 0 {
		return
	}
	block := make([]lease, need)
	for i := range block {
		block[i].after, g.unused = g.unused, &block[i]
	}
	g.memory = append(g.memory, block)
}

// Close answers everyone who waits, and everyone who comes, with Closed. Leases remain
// until they are released or end.
func (g *Gate) Close(now int64) {
	g.mu.Lock()
	now = g.time(now)
	g.closed = true
	for l := g.waiting.first; l != nil; l = g.waiting.first {
		g.quit(l, Closed, now)
	}
	g.mu.Unlock()
}

// Admit asks for a lease. If the answer is Waiting the Waiter tells when there is
// another; for every other answer it is nil. An id that holds a lease already is
// Admitted and charged nothing; one that waits already waits once.
func (g *Gate) Admit(r *Request, now int64) (Answer, *Waiter) {
	g.mu.Lock()
	now = g.time(now)
	cost := min(max(r.Cost, 1), MaxBudget)
	byID, byCaller := &g.ids[g.idBucket(&r.ID)], &g.callers[g.callerBucket(r.Caller)]
	a, free := Admitted, false
	// Fast path: there is room, and nobody around. Slow path: a look at those who are.
	if *byID != nil || *byCaller != nil || cost < g.o.FreeBelow || g.waiting.first != nil || g.closed || !g.fits(cost) {
		if l := g.find(&r.ID); l != nil {
			a, w := g.again(l)
			g.mu.Unlock()
			return a, w
		}
		a, free = g.judge(r, cost, *byCaller, now)
		if a != Admitted && a != Waiting {
			g.counts.Answers[a]++
			g.mu.Unlock()
			return a, nil
		}
	}

	l := g.unused
	if l == nil {
		g.mu.Unlock()
		panic("BUG: more leases and waiters than places in memory")
	}
	g.unused = l.after
	l.id, l.caller, l.cost, l.note = r.ID, r.Caller, cost, r.Note
	l.lane, l.free, l.hold, l.calls = r.Lane, free, r.Hold && r.ID != (ID{}) && !free, 1
	if r.ID != (ID{}) {
		l.nextID = *byID
		*byID = l
	}
	next := *byCaller
	if next != nil {
		next.atOfCaller = &l.nextOfCaller
	}
	l.nextOfCaller, l.atOfCaller = next, byCaller
	*byCaller = l
	length := g.o.Lease
	l.expected = 0
	if r.Lease != 0 || r.Expected != 0 || r.Hold {
		length = g.length(r)
		if r.Lease == 0 && !r.Hold {
			l.expected = r.Expected
		}
	}
	var w *Waiter
	if a == Waiting {
		w = g.enqueue(l, length, now)
	} else {
		g.give(l, length, now)
	}
	g.mu.Unlock()
	return a, w
}

// find finds a place that is waiting or given. If the id's lease has ended by itself the
// request has outlived it, and now needs another: it is forgotten.
func (g *Gate) find(id *ID) *lease {
	l := g.ids[g.idBucket(id)]
	for l != nil && l.id != *id {
		l = l.nextID
	}
	if l != nil && l.state == late {
		g.forgetLate(l)
		return nil
	}
	return l
}

// again answers a request that has a place already.
func (g *Gate) again(l *lease) (Answer, *Waiter) {
	g.counts.Repeated++
	l.calls++
	if l.state == given {
		return Admitted, nil
	}
	return Waiting, g.join(l)
}

// judge answers a request that is new, and tells whether it is free.
func (g *Gate) judge(r *Request, cost int64, ofCaller *lease, now int64) (a Answer, free bool) {
	held, heldFree, limit := 0, 0, g.o.PerCaller
	if limit == 0 {
		limit, ofCaller = 1, nil
	}
	for l := ofCaller; l != nil; l = l.nextOfCaller {
		switch {
		case l.caller != r.Caller:
		case l.free:
			heldFree++
		default:
			held++
		}
	}
	full := g.waiting.n >= g.o.Queue
	switch {
	case g.closed:
		return Closed, false
	case cost < g.o.FreeBelow && cost <= g.o.Budget-g.freeCost && heldFree < limit && g.given < g.o.Leases:
		g.counts.Free++
		return Admitted, true
	case held >= limit:
		return PerCaller, false
	case g.heldCost > 0 && cost > g.o.Budget-g.heldCost && now-g.heldFrom > int64(g.o.Wait) && !r.Hold:
		return Held, false
	case g.waiting.first == nil && g.fits(cost):
		return Admitted, false
	case r.NoWait:
		return Busy, false
	case full && r.Lane == Operator && g.o.OperatorPlace && g.o.Queue > 0 && g.inQueue[Operator] == 0:
		return Waiting, false
	case full:
		return Full, false
	case r.Lane == Stranger && g.inQueue[Stranger] >= max(g.o.Queue/2, 1):
		return Strangers, false
	}
	return Waiting, false
}

// length is how long a lease lasts that is not like the others.
func (g *Gate) length(r *Request) time.Duration {
	switch {
	case r.Hold && r.ID != (ID{}):
		return 1 << 61 // 73 years
	case r.Lease > 0:
		return min(r.Lease, g.o.Lease)
	}
	return Cost{Time: r.Expected}.Lease(g.o.Lease)
}

// fits tells whether the next in turn may go.
func (g *Gate) fits(cost int64) bool {
	return g.given < g.o.Leases && (cost <= g.o.Budget-g.inFlight || g.given == g.free)
}

// admitWaiting admits from the head of the queue as long as the head fits.
func (g *Gate) admitWaiting(now int64) {
	for l := g.waiting.first; l != nil && g.fits(l.cost); l = g.waiting.first {
		g.leaveQueue(l)
		waited := time.Duration(now - l.since)
		g.give(l, l.length, now)
		g.counts.Waited++
		l.tell(Admitted, waited)
	}
}
