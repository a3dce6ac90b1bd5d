package server

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"stile/budget"
	"stile/config"
	"stile/decide"
)

// gates are the gates of the configuration in force, and what they have learned. They
// outlive reloads as long as they have the same name and the same unit.
type gates struct {
	current atomic.Pointer[gateSet]
	costs   *budget.Costs
	servers servers
	seed    uint64    // of the keys of paths, kept with what has been learned
	start   time.Time // of the monotonic clock

	mu      sync.Mutex // of set, run and close
	running bool
	done    sync.WaitGroup // of those that run
}

// gateSet is immutable.
type gateSet struct {
	list   []*gate // in the order of the configuration
	byName map[string]*gate
	all    []*budget.Gate
}

// gate is a [[gate]] in use.
type gate struct {
	cfg   config.Gate
	in    *budget.Gate
	files *budget.Files // of a gate that costs by a file's size
	waits *histogram    // of those who were admitted after a wait
	end   func()        // ends its Run; nil before
}

// unreleased is how long a lease lasts on a server of nginx's that has not yet told of the
// end of any: its log may never come here.
const unreleased = 2 * time.Second

// clock is monotonic: for the gates alone.
func (g *gates) clock() int64 { return int64(time.Since(g.start)) + 1 }

// set puts the gates of a configuration in force.
func (g *gates) set(cfg *config.Config) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.current.Load()
	next := &gateSet{byName: map[string]*gate{}}
	for i := range cfg.Gates {
		made, err := g.gate(cfg.Gates[i], old)
		if err != nil {
			return fmt.Errorf("gate %q: %w", cfg.Gates[i].Name, err)
		}
		next.list = append(next.list, made)
		next.byName[made.cfg.Name] = made
		next.all = append(next.all, made.in)
	}
	// From here on nothing fails.
	for _, n := range next.list {
		if o := old.named(n.cfg.Name); o != nil && o.in == n.in {
			if err := n.in.Set(options(&n.cfg), g.clock()); err != nil {
				panic("BUG: options that were taken before: " + err.Error())
			}
			n.end = o.end
		} else if g.running {
			g.runOne(n)
		}
	}
	g.current.Store(next)
	if old != nil {
		for _, o := range old.list {
			if n := next.byName[o.cfg.Name]; (n == nil || n.in != o.in) && o.end != nil {
				o.end()
			}
		}
	}
	return nil
}

// gate makes one, or takes the old one of that name.
func (g *gates) gate(cfg config.Gate, old *gateSet) (*gate, error) {
	n := &gate{cfg: cfg}
	var err error
	if cfg.Cost == config.CostFile {
		if n.files, err = budget.NewFiles(cfg.File); err != nil {
			return nil, err
		}
	}
	if o := old.named(cfg.Name); o != nil && o.cfg.Unit == cfg.Unit {
		n.in, n.waits = o.in, o.waits
		return n, nil
	}
	n.waits = newHistogram(waitBounds)
	n.in, err = budget.New(options(&cfg))
	return n, err
}

func options(c *config.Gate) budget.Options {
	return budget.Options{
		Budget: c.Budget, FreeBelow: c.FreeBelow, Queue: c.Queue, PerCaller: c.PerCaller,
		OperatorPlace: true, Wait: c.Wait, Lease: c.Lease,
	}
}

func (s *gateSet) named(name string) *gate {
	if s == nil {
		return nil
	}
	return s.byName[name]
}

// holdGate is a gate for a batch job.
func (s *Server) holdGate(name string) (holdGate, bool) {
	g := s.gates.current.Load().named(name)
	if g == nil {
		return holdGate{}, false
	}
	return holdGate{gate: g.in, parse: g.cfg.Unit.Parse}, true
}

// monotonic is the gates' clock.
func (s *Server) monotonic() int64 { return s.gates.clock() }

// run lets time pass in the gates, until close.
func (g *gates) run() {
	g.mu.Lock()
	g.running = true
	for _, n := range g.current.Load().list {
		g.runOne(n)
	}
	g.mu.Unlock()
}

func (g *gates) runOne(n *gate) {
	ctx, end := context.WithCancel(context.Background())
	n.end = end
	g.done.Go(func() { n.in.Run(ctx, g.clock) })
}

// close answers everybody who waits, and lets nobody in from now on. It returns how many
// waited.
func (g *gates) close() (waited int) {
	g.mu.Lock()
	for _, n := range g.current.Load().list {
		waited += n.in.Stats(g.clock()).Waiting
		if n.end != nil {
			n.end()
		}
	}
	g.mu.Unlock()
	g.done.Wait()
	return waited
}

// cost is what a request costs in the gate's unit.
func (n *gate) cost(r *decide.Request, learned budget.Cost, from budget.Source, now int64) int64 {
	c := &n.cfg
	switch c.Cost {
	case config.CostFixed:
		return c.Fixed
	case config.CostFile:
		if size, ok := n.files.Largest(r.Path, r.Alt, now); ok {
			return budget.Scaled(size, c.Scale)
		}
		return c.Unseen
	}
	return learned.Price(from, c.Unit == config.Micros, c.Scale, c.Unseen)
}

// lesson is what the end of a request teaches, if anything.
func (n *gate) lesson(l *budget.Line) (c budget.Cost, ok bool) {
	c = l.Cost
	if n.cfg.Cost == config.CostHeader {
		switch {
		case l.Told < 0:
			return c, false
		case n.cfg.Unit == config.Micros:
			c.Time = time.Duration(min(l.Told, 1e9)) * time.Millisecond
		default:
			c.Bytes = l.Told
		}
	}
	return c, l.Teaches()
}

// write appends the gates' metrics.
func (g *gates) write(w io.Writer) {
	for _, n := range g.current.Load().list {
		label := fmt.Sprintf("gate=%q", n.cfg.Name)
		st := n.in.Stats(g.clock())
		gauge := func(name string, v float64) { fmt.Fprintf(w, "stile_gate_%s{%s} %g\n", name, label, v) }
		count := func(name string, v uint64) { fmt.Fprintf(w, "stile_gate_%s_total{%s} %d\n", name, label, v) }
		unit, of := "requests", 1.0
		switch n.cfg.Unit {
		case config.Bytes:
			unit = "bytes"
		case config.Micros:
			unit, of = "seconds", 1e6
		}
		gauge("budget_"+unit, float64(st.Budget)/of)
		gauge("inflight_"+unit, float64(st.InFlight)/of)
		gauge("leases", float64(st.Leases))
		gauge("queue_length", float64(st.Waiting))
		gauge("head_wait_seconds", st.HeadWait.Seconds())
		count("admitted", st.Answers[budget.Admitted])
		count("free", st.Free)
		for _, why := range []budget.Answer{budget.Full, budget.Strangers, budget.PerCaller, budget.Held, budget.Busy, budget.Elapsed, budget.Closed} {
			fmt.Fprintf(w, "stile_gate_refused_total{%s,reason=%q} %d\n", label, why, st.Answers[why])
		}
		count("abandoned", st.Answers[budget.Left])
		count("lease_expired", st.Expired)
		n.waits.write(w, "stile_gate_wait_seconds", label+",")
	}
}
