package server

import (
	"net"
	"time"

	"stile/budget"
	"stile/budget/costkey"
	"stile/config"
	"stile/decide"
)

// turn is step 11 of the decision: an allowed request whose rule has a gate is admitted,
// waits its turn, or is refused. leased tells whether it holds a lease now; waited is the
// time that it spent in the queue.
func (s *Server) turn(c net.Conn, p *decide.Policy, f *facts, v decide.Verdict) (out decide.Verdict, leased bool, waited time.Duration) {
	claim, ok := p.Claim(&f.req, v)
	if !ok {
		return v, false, 0
	}
	g := s.gates.current.Load().named(claim.Gate)
	if g == nil { // a reload has just taken it away
		return v, false, 0
	}
	now := s.gates.clock()
	route := costkey.Route(s.gates.seed, claim.Gate, claim.Rule)
	path := costkey.Path(s.gates.seed, route, &f.req)
	learned, from := s.gates.costs.Estimate(uint64(route), path)
	cost := g.cost(&f.req, learned, from, now)
	if claim.MayProve && g.cfg.WantsPass(cost) && !v.Again {
		v = p.AskAtGate(&f.req, v)
		s.engine.Amend(&f.req, v, s.now().UnixNano())
		return v, false, 0
	}
	host, told := s.gates.servers.find(f.server, now)
	r := budget.Request{
		ID: f.req.ID, Caller: claim.Key ^ uint64(claim.Kind)<<62, Lane: budget.Proven, Cost: cost,
		NoWait: claim.NoWait || p.Observing(),
		Note:   budget.Note{Host: host, Rule: route},
	}
	if claim.Kind == decide.Stranger {
		r.Lane = budget.Stranger
	}
	switch {
	case !told:
		r.Lease = unreleased
	case from == budget.FromPath, from == budget.FromRoute:
		// Of a path that is not known, as long as the slowest of its rule: a client that is
		// admitted and then sends or reads nothing holds a place no longer than that.
		r.Expected = learned.Time
	}
	if plainGet(&f.req) {
		r.Note.Path = path
	}

	answer, w := g.in.Admit(&r, now)
	if w != nil {
		answer = s.queued(c, w)
		if waited = w.Waited(); answer == budget.Admitted {
			g.waits.update(waited)
		}
	}
	if answer == budget.Admitted {
		s.gates.servers.given(s.log, host, s.gates.clock())
		return v, true, waited
	}
	why := decide.Gate
	if answer == budget.Closed {
		why = decide.Closed
	}
	v = v.RefusedAtGate(why, g.retry(answer))
	s.engine.Amend(&f.req, v, s.now().UnixNano())
	return v, false, waited
}

// queued waits for a turn, and leaves the queue when nginx closes the connection: then the
// visitor has gone (N5).
func (s *Server) queued(c net.Conn, w *budget.Waiter) budget.Answer {
	gone, stop := watchHangup(c)
	select {
	case <-w.Done():
	case <-gone:
	}
	if stop() { // nobody would hear it, also if it has just been admitted
		w.Leave(s.gates.clock())
		return budget.Left
	}
	return w.Answer()
}

// retry is after how many seconds somebody whom the gate has not admitted may come again.
// A crowd is told a longer time than somebody who has only his own places to wait for;
// decide.Retry makes each one's different.
func (g *gate) retry(a budget.Answer) uint32 {
	switch a {
	case budget.PerCaller, budget.Busy, budget.Closed:
		return 2
	case budget.Elapsed, budget.Held:
		return 10
	}
	return uint32(min(max(g.cfg.Wait/(2*time.Second), 2), 10))
}

// plainGet tells whether the answer to a request will be a whole page, which teaches what
// the path costs.
func plainGet(r *decide.Request) bool { return r.Method == "GET" && r.Header[config.HeaderRange] == "" }
