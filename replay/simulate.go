package replay

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"stile/config"
	"stile/crawler"
	"stile/decide"
)

// simulation is what both reckonings have in common.
type simulation struct {
	cfg     *config.Config
	feed    *feed
	strict  *decide.Engine // nobody solves
	lenient *decide.Engine // all solve: it sees those with a pass only; nil: nobody has been asked
	find    *finder
	shape
	req decide.Request

	now, first, last int64
	requests         int64
	verdicts         [2]Verdicts
	rules            []*ruleCount // the last is for requests that no rule matches
	bites            []*bite      // by meter, three for each: caller, wide, collective
	demands          *demands
	routes           []route // by their number
	series           *series
	gates            [2]map[string]*gate
	users, named     int64
	passes           int64
	claims           [crawler.States]int64 // of crawlers: requests by what is known of them
	late, back       int64                 // see Skipped
	mostBack         time.Duration
	everyone         distinct
}

func newSimulation(c *config.Config, f *feed) (*simulation, error) {
	s := &simulation{cfg: c, feed: f, demands: newDemands(c.Meters), routes: make([]route, maxRoutes+1), series: newSeries()}
	var err error
	if s.look, err = newLookups(c); err != nil {
		return nil, err
	}
	if s.strict, err = decide.New(c); err != nil {
		return nil, err
	}
	for range len(c.Rules) + 1 {
		s.rules = append(s.rules, &ruleCount{firstMeter: -1})
	}
	s.bites = make([]*bite, 3*len(c.Meters))
	s.part = f.has[head+config.HeaderAccept] || f.has[head+config.HeaderSecFetchDest]
	s.referers = looksAt(c, "Referer")
	s.find = newFinder(s.shape, s.strict, c, f.timed())
	if f.timed() {
		for k := range s.gates {
			s.gates[k] = map[string]*gate{}
			for i := range c.Gates {
				if s.gates[k][c.Gates[i].Name], err = newGate(&c.Gates[i], newSeries()); err != nil {
					return nil, err
				}
			}
		}
	}
	return s, nil
}

// identify is step 2 of the decision: who is it?
func (s *simulation) identify(r *request) {
	q := &s.req
	q.Caller = decide.Caller{}
	switch {
	case r.user != "":
		q.Caller = decide.Caller{Kind: decide.User, Key: xxhash.Sum64String(r.user)}
		if s.users++; r.named {
			s.named++
		}
	case r.pass != "":
		q.Caller = decide.Caller{Kind: decide.Holder, Level: 2, Key: xxhash.Sum64String(r.pass)}
		s.passes++
	}
}

// touch looks at what requests that come next will be counted in, as memo.touch does: of
// everything that is, this saves the most (BenchmarkReplay: 20 %).
func (s *simulation) touch(requests []request) {
	s.demands.touch(requests)
	q := &s.req
	for i := range requests {
		r := &requests[i]
		q.From, q.Path = r.from, r.path
		s.strict.Prefetch(q, r.found)
	}
}

// request is one request of the log.
func (s *simulation) request(r *request) {
	s.fill(&s.req, r)
	s.identify(r)
	now := r.at
	if now < s.now {
		s.behind(r)
		now = s.now
	}
	s.now, s.last = now, now
	if s.first == 0 {
		s.first = now
	}
	s.requests++
	s.claims[r.claim.State]++
	q := &s.req
	key := uint64(q.From)
	if q.Caller.Kind == decide.User {
		key = q.Caller.Key
	}
	s.everyone.add(key)
	at := r.place
	if !s.demands.callers.is(at, key) {
		at = s.demands.callers.at(key)
	}
	e := s.demands.callers.caller(at)
	e.requests++
	e.factor = uint16(b2i(q.Caller.Kind == decide.Stranger))

	policy := s.strict.Policy()
	v := s.strict.DecideFound(q, r.found, now)
	i, found := policy.Rule(v)
	rc := s.rules[len(s.rules)-1]
	if found {
		rc = s.rules[i]
		s.demands.count(q, s.cfg.Rules[i].Meters, at, r.around, now)
	}
	if v.Action == decide.Allow && s.gates[0] != nil {
		if claim, ok := policy.Claim(q, v); ok {
			if s.gates[0][claim.Gate].ask(&claim, q, &r.record, now) {
				v = policy.AskAtGate(q, v)
			}
		}
	}
	rc.requests++
	rc.callers.add(key)
	b := s.series.at(now)
	rt := &s.routes[r.route]
	rt.requests++
	if r.bytes > 0 {
		rt.bytes += r.bytes
		rc.bytes += r.bytes
	}
	if t := max(r.worked, r.took); t >= 0 {
		rt.took, rt.timed = rt.took+t, rt.timed+1
		rc.took, rc.timed = rc.took+t, rc.timed+1
	}
	asked := v.Action == decide.Challenge || v.Unsafe
	switch {
	case v.Action == decide.Allow:
		rc.verdicts[0].Allowed++
		s.verdicts[0].Allowed++
		b.allowed++
	case asked:
		rc.verdicts[0].Asked++
		s.verdicts[0].Asked++
		b.asked++
		rt.asked++
		e.asked++
	default:
		rc.verdicts[0].Refused++
		s.verdicts[0].Refused++
		b.refused++
		rt.refused++
		e.refused++
	}
	if v.Action != decide.Allow {
		s.noted(r, v, rc, e, i, found, key, now)
	}
	s.solved(r, v, asked, rc, e, i, found, b, now)
}

// solved is the second reckoning: v is the verdict of the first.
func (s *simulation) solved(r *request, v decide.Verdict, asked bool, rc *ruleCount, e *caller, rule int, found bool, b *bin, now int64) {
	q := &s.req
	policy := s.strict.Policy()
	if q.Caller.Kind == decide.Stranger && (asked || e.passEnd > now) {
		level := max(v.Level, 2) // by work
		if found {
			level = max(level, s.cfg.Rules[rule].Level)
		}
		if asked && (e.passEnd <= now || e.level < level) {
			e.passEnd, e.level = now+int64(s.cfg.Pass.Lifetime), level
			rc.verdicts[1].Asked++
			s.verdicts[1].Asked++
			b.solves++
		}
		q.Caller = decide.Caller{Kind: decide.Holder, Level: e.level, Key: spread(uint64(q.From))}
		if s.lenient == nil {
			var err error
			if s.lenient, err = decide.New(s.cfg); err != nil {
				panic("BUG: a configuration that was taken before: " + err.Error())
			}
		}
		v = s.lenient.DecideFound(q, r.found, now) // the rules are the same
		policy = s.lenient.Policy()
	}
	if v.Action == decide.Allow {
		rc.verdicts[1].Allowed++
		s.verdicts[1].Allowed++
	} else {
		rc.verdicts[1].Refused++
		s.verdicts[1].Refused++
		b.refusedWithPasses++
		return
	}
	if s.gates[1] == nil {
		return
	}
	if claim, ok := policy.Claim(q, v); ok {
		claim.MayProve = false // asked in the first reckoning
		s.gates[1][claim.Gate].ask(&claim, q, &r.record, now)
	}
}
