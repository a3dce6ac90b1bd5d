// Package replay runs access logs through the decision, with the log's own clock, and
// reports what would have happened: what an operator chooses limits by.
//
// A log does not tell who has a pass or what a challenge would have led to. So there are two
// reckonings. In the first nobody solves: whoever is above a limit stays a stranger, is
// asked again at each request, and what is refused is not counted, as in the daemon. In the
// second all solve: who is asked in the first gets a pass by work, at once, and has its
// limits from then on, until it ends. The truth lies between. In the second, what all
// strangers together may have is used up as in the first: it asks rather too often.
package replay

import (
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"stile/config"
	"stile/decide"
	"stile/decide/path"
)

// Options of a run.
type Options struct {
	Config *config.Config
	Logs   []string  // files; "-" is Stdin
	Stdin  io.Reader // default: an empty one
	// Format is "combined", "json", a log_format string or a whole log_format directive.
	// Default "": what the first lines look like.
	Format string
	// Since and Until bound the time at which requests ended: RFC 3339, or "2026-11-30",
	// "2026-11-30 06:37" in the log's zone. Default "": no bound.
	Since, Until string
	// Progress is called now and then, by another goroutine than Run's, with how many bytes
	// of the files have been read. Default nil.
	Progress func(read int64)
}

// batch is how many requests go from the reading to the deciding goroutine at once.
const batch = 512

// Run replays logs. It uses a second core if there is one: one reads and finds the
// rules, the other counts. Memory does not
// grow with the logs.
func Run(o Options) (*Report, error) {
	if o.Stdin == nil {
		o.Stdin = strings.NewReader("")
	}
	f, err := newFeed(o.Logs, o.Format, o.Config.Pass.Cookie, o.Stdin)
	if err != nil {
		return nil, err
	}
	zone := time.FixedZone("", f.offset)
	since, err := when(o.Since, zone, 0)
	if err != nil {
		return nil, err
	}
	until, err := when(o.Until, zone, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	s, err := newSimulation(o.Config, f)
	if err != nil {
		f.close()
		return nil, err
	}
	full, empty := make(chan []record, 4), make(chan []record, 5)
	failed := make(chan error, 1)
	for range cap(empty) {
		empty <- make([]record, 0, batch)
	}
	find := &finder{shape: s.shape, memo: s.strict.NewMemo(o.Config, memoPlaces)}
	go func() { failed <- f.read(full, empty, find, since, until, o.Progress) }()
	for records := range full {
		for i := range records {
			s.request(&records[i])
		}
		empty <- records[:0]
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	return s.report(zone), nil
}

// read sends all requests in the order in which they came, with the rules that they fall
// under, and closes full.
func (f *feed) read(full chan<- []record, empty <-chan []record, find *finder, since, until int64, progress func(int64)) error {
	defer close(full)
	defer f.close()
	next := f.next
	if f.timed() {
		o := &order{feed: f, whole: !f.has[fieldMsec]}
		next = o.next
	}
	for {
		records := <-empty
		var err error
		for len(records) < batch {
			n := len(records)
			records = records[:n+1]
			r := &records[n]
			if err = next(r); err != nil {
				records = records[:n]
				break
			}
			switch {
			case r.end < since || r.end > until:
				f.skip.Outside++
				records = records[:n]
			case !find.find(r):
				f.skip.Own++
				records = records[:n]
			}
		}
		full <- records
		if progress != nil {
			progress(f.done.Load())
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// when reads a time of the operator's.
func when(s string, zone *time.Location, unset int64) (int64, error) {
	if s == "" {
		return unset, nil
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t.UnixNano(), nil
		}
	}
	return 0, &badTime{s}
}

type badTime struct{ text string }

func (e *badTime) Error() string {
	return "time \"" + e.text + "\": want one such as 2026-11-30, 2026-11-30T06:37, or 2026-11-30T06:37:00Z"
}

// simulation is what both reckonings have in common.
type simulation struct {
	cfg     *config.Config
	feed    *feed
	strict  *decide.Engine // nobody solves
	lenient *decide.Engine // all solve: it sees those with a pass only; nil: nobody has been asked
	shape
	req decide.Request

	now, first, last int64
	requests         int64
	verdicts         [2]Verdicts
	rules            []*ruleCount // the last is for requests that no rule matches
	bites            []*bite      // by meter, three for each: caller, wide, collective
	demands          *demands
	routes           map[string]*route
	series           *series
	gates            [2]map[string]*gate
	users, named     int64
	passes           int64
	late, back       int64 // see Skipped
	mostBack         time.Duration
	everyone         distinct
}

// Verdicts count requests of one reckoning. In the second, Asked are proofs: the requests
// that they were asked for are allowed, or refused, too.
type Verdicts struct{ Allowed, Asked, Refused int64 }

// ruleCount is what fell under one rule.
type ruleCount struct {
	requests       int64
	callers, asked distinct
	verdicts       [2]Verdicts
	reasons        [decide.Reasons]int64 // of those that are not allowed, if nobody solves
	first          int64
	firstWhy       decide.Reason
	firstMeter     int
	bytes, took    int64
	timed          int64
}

// bite is one limit that said no.
type bite struct {
	requests int64
	callers  distinct
	first    int64
}

// route is the first segment of paths.
type route struct {
	requests, asked, refused, bytes, took, timed int64
}

const (
	maxRoutes  = 2000
	memoPlaces = 1 << 16
)

func newSimulation(c *config.Config, f *feed) (*simulation, error) {
	s := &simulation{cfg: c, feed: f, demands: newDemands(c.Meters), routes: map[string]*route{}, series: newSeries()}
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

// timed tells whether a log says how long requests took.
func (f *feed) timed() bool { return f.has[fieldTook] || f.has[fieldUpstreamTime] }

// finder does for each request what depends on nothing but it: the second core's half of
// the work.
type finder struct {
	shape
	memo     *decide.Memo
	req      decide.Request
	readings path.Readings
}

// shape is what of a record a decision sees.
type shape struct {
	part     bool     // the log tells parts of pages from pages
	referers bool     // rules look at the Referer
	look     *lookups // nil: no rule needs any
}

// fill makes what the decision works on of a record, as server/facts.go does of nginx's
// headers; all but the caller.
func (s *shape) fill(q *decide.Request, r *record) {
	q.Look = nil
	if s.look != nil {
		q.Look = s.look
	}
	q.Path, q.Query, q.Alt = r.path, r.query, r.alt
	q.Method, q.Host, q.Agent, q.Addr, q.From = r.method, r.host, r.agent, r.addr, r.from
	if r.format != nil || q.Header != (decide.Header{}) {
		q.Header = decide.Header{}
	}
	if r.format != nil {
		for i, k := range r.format.headers {
			q.Header[k-head] = r.header[i]
		}
	}
	q.Header[headerReferer] = r.referer
	if !s.part && !s.referers {
		// Without Accept and Sec-Fetch-Dest whatever comes from a page of this site would
		// count as a part of it, with three times the limits.
		q.Header[headerReferer] = ""
	}
}

// find reads a record's target, and finds its rule. False: stile is not asked about it:
// nginx would have answered the target with 400, or it is one of stile's own pages.
func (f *finder) find(r *record) bool {
	if err := f.readings.Parse(r.target); err != nil || strings.HasPrefix(f.readings.Path, "/.stile/") {
		return false
	}
	r.path, r.query, r.alt = f.readings.Path, f.readings.Query, f.readings.Alt
	if n := len(r.path); n > len(r.target) || r.path != r.target[:n] || len(r.alt) > 0 {
		// Slow path: it lies in memory that is used again.
		r.path = strings.Clone(r.path)
		r.alt = slices.Clone(r.alt)
		for i := range r.alt {
			r.alt[i] = strings.Clone(r.alt[i])
		}
	} else {
		r.path = r.target[:n]
	}
	f.fill(&f.req, r)
	r.found = f.memo.Find(&f.req)
	return true
}

// identify is step 2 of the decision: who is it?
func (s *simulation) identify(r *record) {
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

// request is one request of the log.
func (s *simulation) request(r *record) {
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
	q := &s.req
	key := uint64(q.From)
	if q.Caller.Kind == decide.User {
		key = q.Caller.Key
	}
	s.everyone.add(key)
	at := s.demands.callers.at(key)
	e := &s.demands.callers.callers[at]
	e.requests++
	e.factor = uint32(b2i(q.Caller.Kind == decide.Stranger))

	policy := s.strict.Policy()
	v := s.strict.DecideFound(q, r.found, now)
	i, found := policy.Rule(v)
	rc := s.rules[len(s.rules)-1]
	if found {
		rc = s.rules[i]
		s.demands.count(q, s.cfg.Rules[i].Meters, at, now)
	}
	if v.Action == decide.Allow && s.gates[0] != nil {
		if claim, ok := policy.Claim(q, v); ok {
			if s.gates[0][claim.Gate].ask(&claim, q, r, now) {
				v = policy.AskAtGate(q, v)
			}
		}
	}
	rc.requests++
	rc.callers.add(key)
	b := s.series.at(now)
	rt := s.route(q.Path)
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

// noted keeps what is told of requests that are not let through.
func (s *simulation) noted(r *record, v decide.Verdict, rc *ruleCount, e *caller, rule int, found bool, key uint64, now int64) {
	rc.reasons[v.Reason]++
	rc.asked.add(key)
	m, byMeter := s.strict.Policy().Meter(v)
	if !byMeter {
		m = -1
	}
	if rc.first == 0 {
		rc.first, rc.firstWhy, rc.firstMeter = now, v.Reason, m
	}
	if !found {
		rule = -1
	}
	if e.what == nil {
		e.what = &what{at: now, rule: rule, meter: m, reason: v.Reason.String(), target: clip(r.target), agent: clip(r.agent), addr: r.addr.String()}
		if !r.addr.Is4() {
			p, _ := r.addr.Prefix(64)
			e.what.addr = p.String()
		}
		if r.user != "" {
			e.what.addr = "user " + clip(r.user)
		}
	}
	if byMeter && v.Reason >= decide.Meter && v.Reason <= decide.Collective {
		at := 3*m + int(v.Reason-decide.Meter)
		if s.bites[at] == nil {
			s.bites[at] = &bite{first: now}
		}
		s.bites[at].requests++
		s.bites[at].callers.add(key)
	}
}

// clip is a copy of the beginning of a client's text.
func clip(s string) string { return strings.Clone(s[:min(len(s), maxText)]) }

// solved is the second reckoning: v is the verdict of the first.
func (s *simulation) solved(r *record, v decide.Verdict, asked bool, rc *ruleCount, e *caller, rule int, found bool, b *bin, now int64) {
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
		v = s.lenient.Decide(q, now)
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
		s.gates[1][claim.Gate].ask(&claim, q, r, now)
	}
}

// behind counts a request that is judged later than it came.
func (s *simulation) behind(r *record) {
	by := time.Duration(s.now - r.at)
	if r.took > 0 {
		s.late++
		return
	}
	if by > time.Second {
		s.back++
		s.mostBack = max(s.mostBack, by)
	}
}

// route is where a path's first segment is counted; the last of very many is all others.
func (s *simulation) route(p string) *route {
	name := p[1:]
	if n := strings.IndexByte(name, '/'); n >= 0 {
		name = p[:n+2]
	} else {
		name = p
	}
	if len(name) > 64 {
		name = name[:64]
	}
	if r := s.routes[name]; r != nil {
		return r
	}
	if len(s.routes) >= maxRoutes {
		name = "(others)"
		if r := s.routes[name]; r != nil {
			return r
		}
	}
	r := &route{}
	s.routes[strings.Clone(name)] = r
	return r
}

// looksAt tells whether a rule looks at a header.
func looksAt(c *config.Config, name string) bool {
	for i := range c.Rules {
		for m := &c.Rules[i].Match; m != nil; m = m.Not {
			for _, h := range m.Header {
				if h.Name == name {
					return true
				}
			}
		}
	}
	return false
}
