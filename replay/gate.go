package replay

import (
	"encoding/binary"
	"time"

	"stile/budget"
	"stile/budget/costkey"
	"stile/config"
	"stile/decide"
)

// gate is a gate as it would have been, stepped by the log's clock: a request asks for a
// lease when it came, and gives it back after the time that it took in the log.
type gate struct {
	cfg    *config.Gate
	in     *budget.Gate
	costs  *budget.Costs
	files  *budget.Files
	leases soonest[lease] // by their end
	queue  []waiter       // first come, first served
	waits  histogram      // microseconds, of those who were admitted after one
	id     uint64
	last   int64 // the time that it has been stepped to
	series *series

	requests, admitted, waited, oversize, asked int64
	noTime                                      int64 // requests that were over at once, for all that the log says
	unseenCosts                                 int64
	refused                                     [budget.Answers]int64
	mostQueue, mostLeases                       int
	mostInFlight                                int64
	mostQueueAt, mostInFlightAt                 int64
	firstRefused                                int64
}

type lease struct {
	id          budget.ID
	route       uint64
	path        uint64 // 0: it teaches nothing
	cost        budget.Cost
	took        int64
	toldForCost int64
}

type waiter struct {
	w *budget.Waiter
	l lease
}

func newGate(c *config.Gate, s *series) (*gate, error) {
	g := &gate{cfg: c, costs: budget.NewCosts(1<<16, budget.Cost{}), series: s}
	var err error
	if c.Cost == config.CostFile {
		if g.files, err = budget.NewFiles(c.File); err != nil {
			return nil, err
		}
	}
	g.in, err = budget.New(budget.Options{
		Budget: c.Budget, FreeBelow: c.FreeBelow, Queue: c.Queue, PerCaller: c.PerCaller,
		OperatorPlace: true, Wait: c.Wait, Lease: c.Lease,
	})
	return g, err
}

// ask is one request at its gate. asked tells that it would have been asked for a proof
// first: it wants more than half the budget.
func (g *gate) ask(c *decide.Claim, r *decide.Request, rec *record, now int64) (asked bool) {
	g.advance(now)
	g.requests++
	key := costkey.Route(0, c.Gate, c.Rule)
	route, path := uint64(key), costkey.Path(0, key, r)
	learned, from := g.costs.Estimate(route, path)
	cost := g.cost(r, learned, from, now)
	if c.MayProve && g.cfg.WantsPass(cost) {
		g.asked++
		return true
	}
	if cost > g.cfg.Budget {
		g.oversize++
	}
	g.id++
	l := lease{route: route, took: rec.took, toldForCost: rec.told}
	if rec.worked >= 0 {
		l.took = rec.worked
	}
	if l.took < 0 {
		l.took = 0
	}
	if l.took == 0 {
		g.noTime++
	}
	binary.LittleEndian.PutUint64(l.id[:], g.id)
	if rec.status == 200 && r.Method == "GET" && r.Header[config.HeaderRange] == "" {
		l.path, l.cost = path, budget.Cost{Bytes: max(rec.bytes, 0), Time: time.Duration(l.took)}
	}
	b := budget.Request{ID: l.id, Caller: c.Key ^ uint64(c.Kind)<<62, Lane: budget.Proven, Cost: cost, NoWait: c.NoWait}
	if c.Kind == decide.Stranger {
		b.Lane = budget.Stranger
	}
	if from == budget.FromPath || from == budget.FromRoute {
		b.Expected = learned.Time
	}
	switch a, w := g.in.Admit(&b, now); a {
	case budget.Admitted:
		g.admitted++
		g.leases.push(now+l.took, l)
	case budget.Waiting:
		g.queue = append(g.queue, waiter{w, l})
	default:
		g.refuse(a, now)
	}
	g.look(now)
	return false
}

func (g *gate) refuse(a budget.Answer, now int64) {
	g.refused[a]++
	if g.firstRefused == 0 {
		g.firstRefused = now
	}
}

// cost is what the daemon would have taken the request to cost.
func (g *gate) cost(r *decide.Request, learned budget.Cost, from budget.Source, now int64) int64 {
	c := g.cfg
	switch c.Cost {
	case config.CostFixed:
		return c.Fixed
	case config.CostFile:
		if size, ok := g.files.Largest(r.Path, r.Alt, now); ok {
			return budget.Scaled(size, c.Scale)
		}
		g.unseenCosts++
		return c.Unseen
	}
	if from == budget.FromNothing {
		g.unseenCosts++
	}
	return learned.Price(from, c.Unit == config.Micros, c.Scale, c.Unseen)
}

// advance lets time pass until now: leases end, waits are over.
func (g *gate) advance(now int64) {
	for len(g.leases) > 0 || len(g.queue) > 0 {
		t, release := now+1, false
		if left, ok := g.in.Tick(g.last); ok {
			t = g.last + int64(left)
		}
		if len(g.leases) > 0 && g.leases[0].at <= t {
			t, release = g.leases[0].at, true
		}
		if t > now {
			break
		}
		g.last = t
		if release {
			_, l := g.leases.pop()
			g.in.Release(l.id, t)
			g.teach(&l, t)
		} else {
			g.in.Tick(t)
		}
		g.answered(t)
		g.look(t)
	}
	g.last = now
}

// answered takes those out of the queue who have their answer.
func (g *gate) answered(now int64) {
	for len(g.queue) > 0 {
		q := &g.queue[0]
		switch a := q.w.Answer(); a {
		case budget.Waiting:
			return
		case budget.Admitted:
			g.admitted++
			g.waited++
			g.waits.add(int64(q.w.Waited() / time.Microsecond))
			g.leases.push(now+q.l.took, q.l)
		default:
			g.refuse(a, now)
		}
		g.queue[0] = waiter{}
		g.queue = g.queue[1:]
	}
	g.queue = nil
}

// teach is what the end of a request says about what its page costs.
func (g *gate) teach(l *lease, now int64) {
	if l.path == 0 {
		return
	}
	if g.cfg.Cost == config.CostHeader {
		switch {
		case l.toldForCost < 0:
			return
		case g.cfg.Unit == config.Micros:
			l.cost.Time = time.Duration(min(l.toldForCost, 1e9)) * time.Millisecond
		default:
			l.cost.Bytes = l.toldForCost
		}
	}
	g.costs.Teach(l.route, l.path, l.cost, now)
}

// look notes how full the gate is.
func (g *gate) look(now int64) {
	st := g.in.Stats(now)
	if st.Waiting > g.mostQueue {
		g.mostQueue, g.mostQueueAt = st.Waiting, now
	}
	if st.InFlight > g.mostInFlight {
		g.mostInFlight, g.mostInFlightAt = st.InFlight, now
	}
	g.mostLeases = max(g.mostLeases, st.Leases)
	g.series.gate(now, st.InFlight, st.Waiting)
}
