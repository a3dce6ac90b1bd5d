package budget

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is what a gate should do, written down as plainly as possible: lists that are
// looked through from the beginning, and a clock that is stepped.
type model struct {
	o      Options
	now    int64
	closed bool
	places []*place // in the order of arrival
	late   []*place
	counts Counts

	heldFrom int64 // when the first of the holds in flight was admitted
	slowness float64
	released int64
	round    uint8
}

type place struct {
	r        Request
	cost     int64
	free     bool
	admitted bool
	since    int64
	length   time.Duration
	end      int64
	expected time.Duration
	round    uint8
	waiters  []*modelWaiter
	calls    int
}

type modelWaiter struct {
	at     *place
	answer Answer
	waited time.Duration
	left   bool
}

func (m *model) sum(f func(*place) int64) (n int64) {
	for _, p := range m.places {
		n += f(p)
	}
	return n
}

func (m *model) inFlight() int64 {
	return m.sum(func(p *place) int64 { return when(p.admitted, p.cost) })
}

func (m *model) leases() int64 { return m.sum(func(p *place) int64 { return when(p.admitted, 1) }) }

func (m *model) waiting() int64 { return m.sum(func(p *place) int64 { return when(!p.admitted, 1) }) }

func (m *model) head() *place {
	for _, p := range m.places {
		if !p.admitted {
			return p
		}
	}
	return nil
}

func when(yes bool, n int64) int64 {
	if yes {
		return n
	}
	return 0
}

// fits: the costs of all leases and this one are within the budget, or no lease is left
// that is not free.
func (m *model) fits(cost int64) bool {
	taken := m.sum(func(p *place) int64 { return when(p.admitted && !p.free, 1) })
	return m.leases() < int64(m.o.Leases) && (m.inFlight()+cost <= m.o.Budget || taken == 0)
}

func (p *place) hold() bool { return p.r.Hold && p.r.ID != (ID{}) && !p.free }

func (m *model) heldCost() int64 {
	return m.sum(func(p *place) int64 { return when(p.admitted && p.hold(), p.cost) })
}

func (m *model) admit(p *place) {
	m.counts.Answers[Admitted]++
	if len(p.waiters) > 0 {
		m.counts.Waited++
	}
	for _, w := range p.waiters {
		w.answer, w.waited = Admitted, time.Duration(m.now-p.since)
	}
	p.waiters = nil
	if p.hold() && m.heldCost() == 0 {
		m.heldFrom = m.now
	}
	p.admitted, p.since, p.round = true, m.now, m.round
	p.end = m.now + int64(p.length)
	p.end += (tick - p.end%tick) % tick
}

func (m *model) admitHeads() {
	for p := m.head(); p != nil && m.fits(p.cost); p = m.head() {
		m.admit(p)
	}
}

func (m *model) remove(p *place) {
	m.places = slices.DeleteFunc(m.places, func(q *place) bool { return p == q })
}

func (m *model) refuse(p *place, a Answer) {
	m.counts.Answers[a]++
	for _, w := range p.waiters {
		w.answer, w.waited = a, time.Duration(m.now-p.since)
	}
	m.remove(p)
}

func (m *model) time(now int64) {
	if back := m.now - now; back > int64(stepBack) {
		for _, p := range m.places {
			p.since -= back
			p.end -= back
		}
		m.heldFrom -= back
		m.released -= back
	} else if back > 0 {
		now = m.now
	}
	m.now = now
	for _, p := range slices.Clone(m.places) {
		if p.admitted && p.end <= now {
			p.end = max(p.end, m.lasts(p))
		}
		if p.admitted && p.end <= now {
			m.counts.Expired++
			if p.expected > 0 && m.released <= p.since {
				m.round = min(max(m.round, p.round+1), maxRound)
			}
			m.remove(p)
			if p.r.ID != (ID{}) {
				m.late = append(m.late, p)
			}
		}
	}
	m.admitHeads()
	for p := m.head(); p != nil && p.since+int64(m.o.Wait) <= now; p = m.head() {
		m.refuse(p, Elapsed)
		m.admitHeads()
	}
}

func (m *model) named(id ID) *place {
	for _, p := range m.places {
		if p.r.ID == id && id != (ID{}) {
			return p
		}
	}
	return nil
}

func (m *model) forgetLate(id ID) (was *place) {
	m.late = slices.DeleteFunc(m.late, func(p *place) bool {
		if p.r.ID == id {
			was = p
		}
		return p.r.ID == id
	})
	return was
}

// lasts: a lease with an expected time lasts three times that, at least a second, times
// the slowness; twice as long each round while nothing is released; at most as long as any.
func (m *model) lasts(p *place) int64 {
	if p.expected == 0 {
		return p.end
	}
	d := time.Duration(float64(max(3*p.expected, time.Second)) * m.slowness)
	if m.released <= p.since {
		d = min(d, m.o.Lease) << p.round
	}
	end := p.since + int64(min(d, m.o.Lease))
	return end + (tick-end%tick)%tick
}

func (m *model) learn(p *place, took time.Duration) {
	m.released, m.round = m.now, 0
	if took > 0 && p.expected > 0 {
		x := min(max(float64(took)/float64(max(p.expected, 100*time.Millisecond)), 1), 100)
		m.slowness = max(x, m.slowness-(m.slowness-x)/8)
	}
}

func (m *model) Admit(r Request, now int64) (Answer, *modelWaiter) {
	m.time(now)
	if p := m.named(r.ID); p != nil {
		m.counts.Repeated++
		p.calls++
		if p.admitted {
			return Admitted, nil
		}
		w := &modelWaiter{at: p}
		p.waiters = append(p.waiters, w)
		return Waiting, w
	}
	m.forgetLate(r.ID)
	p := &place{r: r, cost: max(r.Cost, 1), since: m.now, length: m.o.Lease, calls: 1}
	if r.Lease > 0 {
		p.length = min(r.Lease, m.o.Lease)
	} else if r.Expected > 0 && !r.Hold {
		p.expected = r.Expected
	}
	if r.Lease == 0 && r.Expected > 0 && (!r.Hold || r.ID == (ID{})) {
		p.length = min(max(3*r.Expected, time.Second), m.o.Lease)
	}
	if r.Hold && r.ID != (ID{}) {
		p.length = 1 << 61
	}
	held := m.sum(func(q *place) int64 { return when(q.r.Caller == r.Caller && !q.free, 1) })
	heldFree := m.sum(func(q *place) int64 { return when(q.r.Caller == r.Caller && q.free, 1) })
	freeCost := m.sum(func(q *place) int64 { return when(q.free, q.cost) })
	strangers := m.sum(func(q *place) int64 { return when(!q.admitted && q.r.Lane == Stranger, 1) })
	operators := m.sum(func(q *place) int64 { return when(!q.admitted && q.r.Lane == Operator, 1) })
	limit := int64(m.o.PerCaller)
	if limit == 0 {
		limit = 1 << 30
	}
	queue := int64(m.o.Queue)
	answer := Waiting
	switch {
	case m.closed:
		answer = Closed
	case p.cost < m.o.FreeBelow && freeCost+p.cost <= m.o.Budget && heldFree < limit && m.leases() < int64(m.o.Leases):
		p.free = true
		answer = Admitted
		m.counts.Free++
	case held >= limit:
		answer = PerCaller
	case !r.Hold && m.heldCost() > 0 && p.cost > m.o.Budget-m.heldCost() && m.now-m.heldFrom > int64(m.o.Wait):
		answer = Held
	case m.waiting() == 0 && m.fits(p.cost):
		answer = Admitted
	case r.NoWait:
		answer = Busy
	case m.waiting() >= queue && !(r.Lane == Operator && m.o.OperatorPlace && operators == 0 && queue > 0):
		answer = Full
	case r.Lane == Stranger && strangers >= max(queue/2, 1):
		answer = Strangers
	}
	switch answer {
	case Admitted:
		m.places = append(m.places, p)
		m.admit(p)
		return Admitted, nil
	case Waiting:
		m.places = append(m.places, p)
		w := &modelWaiter{at: p}
		p.waiters = append(p.waiters, w)
		return Waiting, w
	}
	m.counts.Answers[answer]++
	return answer, nil
}

func (m *model) Release(id ID, took time.Duration, now int64) (Note, Release) {
	m.time(now)
	p := m.named(id)
	if p == nil {
		if was := m.forgetLate(id); was != nil {
			m.counts.Late++
			m.learn(was, took)
			return was.r.Note, Late
		}
	}
	switch {
	case p == nil:
		m.counts.Unknown++
		return Note{}, Unknown
	case p.admitted:
		m.counts.Released++
		m.learn(p, took)
		m.remove(p)
		m.admitHeads()
		return p.r.Note, Released
	}
	m.refuse(p, Left)
	m.admitHeads()
	return p.r.Note, Unqueued
}

func (m *model) Leave(w *modelWaiter, now int64) Answer {
	m.time(now)
	p, answer := w.at, w.answer
	if !w.left && slices.Contains(m.places, p) {
		p.calls--
		switch {
		case answer == Waiting:
			answer = Left
			w.answer, w.waited = Left, time.Duration(m.now-p.since)
			p.waiters = slices.DeleteFunc(p.waiters, func(x *modelWaiter) bool { return x == w })
			if p.calls == 0 {
				m.refuse(p, Left)
			}
		case p.calls == 0:
			m.counts.Returned++
			m.remove(p)
		}
		m.admitHeads()
	}
	w.left = true
	return answer
}

func (m *model) Set(o Options, now int64) {
	m.o = o
	m.time(now)
}

// TestModel does the same random things to a gate and to the model, with a clock that is
// stepped, and wants the same of both after each.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { compare(t, rand.New(rand.NewPCG(seed, 0)), 3000) })
	}
}

func compare(t *testing.T, rnd *rand.Rand, steps int) {
	options := func() Options {
		o := Options{
			Budget: 1 + rnd.Int64N(30), Queue: rnd.IntN(12), PerCaller: rnd.IntN(5), OperatorPlace: rnd.IntN(2) == 0,
			Wait: time.Duration(1+rnd.IntN(3000)) * time.Millisecond, Lease: time.Duration(1+rnd.IntN(3000)) * time.Millisecond,
			Leases: 1 + rnd.IntN(40),
		}
		if rnd.IntN(3) == 0 {
			o.Lease *= 10
		}
		if rnd.IntN(2) == 0 {
			o.FreeBelow = rnd.Int64N(o.Budget + 1)
		}
		return o
	}
	o := options()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{o: o, slowness: 1}
	type pair struct {
		got  *Waiter
		want *modelWaiter
	}
	var waiters []pair
	now := int64(0)
	ids := 5 + rnd.IntN(60)
	name := func() ID {
		if n := rnd.IntN(ids); n > 0 {
			return id(uint64(n))
		}
		return ID{}
	}
	for step := range steps {
		what := ""
		var got, want any
		switch n := rnd.IntN(100); {
		case n < 45:
			r := Request{
				ID: name(), Caller: rnd.Uint64N(12), Lane: Lane(rnd.IntN(int(lanes))), Cost: rnd.Int64N(12) - 1,
				NoWait: rnd.IntN(10) == 0, Hold: rnd.IntN(30) == 0, Note: Note{Path: uint64(step), Host: 1, Rule: 2},
			}
			if rnd.IntN(8) == 0 {
				r.Cost = rnd.Int64N(100)
			}
			if rnd.IntN(4) == 0 {
				r.Lease = time.Duration(rnd.IntN(4000)) * time.Millisecond
			}
			if rnd.IntN(4) == 0 {
				r.Expected = time.Duration(rnd.IntN(2000)) * time.Millisecond
			}
			what = fmt.Sprintf("Admit(%+v)", r)
			ga, gw := g.Admit(&r, now)
			wa, ww := m.Admit(r, now)
			got, want = ga, wa
			if (gw == nil) != (ww == nil) {
				t.Fatalf("step %d: %s: waiter %v, want %v", step, what, gw, ww)
			}
			if gw != nil {
				waiters = append(waiters, pair{gw, ww})
			}
		case n < 70:
			x := name()
			what = fmt.Sprintf("Release(%x)", x[:4])
			took := time.Duration(rnd.IntN(4000)) * time.Millisecond
			gn, gr := g.release(&x, took, now, 1)
			wn, wr := m.Release(x, took, now)
			got, want = fmt.Sprint(gn, gr), fmt.Sprint(wn, wr)
		case n < 82 && len(waiters) > 0:
			i := rnd.IntN(len(waiters))
			what = fmt.Sprintf("Leave(%d)", i)
			got, want = waiters[i].got.Leave(now), m.Leave(waiters[i].want, now)
		case n < 84:
			o := options()
			what = fmt.Sprintf("Set(%+v)", o)
			got, want = g.Set(o, now), error(nil)
			m.Set(o, now)
		case n < 85:
			what = "a clock stepped back"
			now -= rnd.Int64N(int64(time.Hour))
		default:
			what = "Tick"
			now += rnd.Int64N(int64(400 * time.Millisecond))
			left, ok := g.Tick(now)
			m.time(now)
			// It may be early, but not late.
			for _, p := range m.places {
				due := p.since + int64(m.o.Wait)
				if p.admitted {
					due = p.end
				}
				if !ok || m.now+int64(left) > due || left <= 0 {
					t.Fatalf("step %d: Tick: %v, %v; but something is due in %v", step, left, ok, time.Duration(due-m.now))
				}
			}
		}
		if got != want {
			t.Fatalf("step %d: %s: %v, want %v", step, what, got, want)
		}
		s := g.Stats(now)
		m.time(now)
		wantStats := Stats{Counts: m.counts, Budget: m.o.Budget, InFlight: m.inFlight(), Leases: int(m.leases()), Waiting: int(m.waiting())}
		if p := m.head(); p != nil {
			wantStats.HeadWait = time.Duration(m.now - p.since)
		}
		if s != wantStats {
			t.Fatalf("step %d: %s:\n got %+v\nwant %+v", step, what, s, wantStats)
		}
		for i, w := range waiters {
			if w.got.Answer() != w.want.answer || w.got.Waited() != w.want.waited {
				t.Fatalf("step %d: %s: waiter %d: %v after %v, want %v after %v", step, what, i, w.got.Answer(), w.got.Waited(), w.want.answer, w.want.waited)
			}
		}
		waiters = slices.DeleteFunc(waiters, func(p pair) bool { return p.want.left || p.want.answer != Waiting && rnd.IntN(4) == 0 })
	}
	// When all is over nothing is left, and nothing has been lost.
	if rnd.IntN(2) == 0 {
		g.Close(now)
	}
	for n := range 2 * ids {
		now += int64(time.Hour) / 4
		g.Release(id(uint64(n%ids)), now)
	}
	now += int64(time.Hour)
	if s := g.Stats(now); s.Leases != 0 || s.Waiting != 0 || s.InFlight != 0 {
		t.Errorf("at the end: %+v", s)
	}
	if n := unusedPlaces(g); n < g.made() {
		t.Errorf("%d of %d places in memory are unused", n, g.made())
	}
}

func unusedPlaces(g *Gate) (n int) {
	for l := g.unused; l != nil; l = l.after {
		n++
	}
	return n
}

func (g *Gate) made() (n int) {
	for _, block := range g.memory {
		n += len(block)
	}
	return n
}
