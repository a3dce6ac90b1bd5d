package replay

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"

	"stile/config"
	"stile/crawler"
	"stile/decide"
	"stile/decide/path"
)

// request is a record with what is known of it beyond the line.
type request struct {
	record

	// Of finder.
	key         uint64        // of memo
	claim       crawler.Claim // if a rule asks for it
	path, query string
	alt         []string
	found       decide.Found
	route       uint16 // of routeNames

	// Of demands: guesses at the places of the caller and of the network around it.
	place, around int
}

// finder does for each request what depends on nothing but it: it reads the target, and
// finds the rule. It is the first core's half of the work, with the reading of lines.
type finder struct {
	shape
	memo     *memo
	engine   *decide.Engine // asked for what memo has not
	req      decide.Request
	readings path.Readings
	routes   *routeNames
	agents   agents
	claimed  claimed
	ordered  bool // requests have waited to be put in order
	sum      int  // of touch, which must not be left out
}

func newFinder(s shape, e *decide.Engine, c *config.Config, ordered bool) *finder {
	return &finder{ordered: ordered, shape: s, memo: newMemo(c, s.look), engine: e, routes: newRouteNames(), agents: agents{seed: maphash.MakeSeed()}, claimed: claimed{lookups: s.look}}
}

// all finds the rules of requests that follow one another, moves those that stile is asked
// about to the front, and returns how many these are. Of the others nginx would have
// answered the target with 400, or they are for stile's own pages.
func (f *finder) all(requests []request) int {
	if f.ordered {
		f.touch(requests)
	}
	if f.memo.crawler {
		for i := range requests {
			r := &requests[i]
			agent := r.agent
			if !f.agents.claim(agent) {
				agent = ""
			}
			r.claim = f.look.Crawler(agent, r.addr, r.at)
		}
	}
	f.memo.touch(requests)
	n := 0
	for i := range requests {
		r := &requests[i]
		if !f.known(r) && !f.find(r) {
			continue
		}
		if n < i {
			requests[n] = *r
		}
		n++
	}
	return n
}

// touch looks at the texts of requests that have waited so long that they are in no cache
// any more, as memo.touch does (BenchmarkReplay/Timed: 8 %).
func (f *finder) touch(requests []request) {
	sum := 0
	for i := range requests {
		r := &requests[i]
		sum += int(r.target[0])
		if n := len(r.agent); n > 0 {
			sum += int(r.agent[0]) + int(r.agent[n/2]) + int(r.agent[n-1])
		}
	}
	f.sum += sum
}

// known takes what was found of a target before. False: it is to be found.
func (f *finder) known(r *request) bool {
	s := f.memo.at(r.key)
	n := int(s.path)
	if s.key != r.key || n > len(r.target) {
		return false
	}
	r.path, r.query, r.alt = r.target[:n], "", nil
	if n < len(r.target) {
		r.query = r.target[n+1:]
	}
	r.found, r.route = f.memo.found[s.found], s.route
	return true
}

// find reads a target, and finds the rule. False: stile is not asked about it.
func (f *finder) find(r *request) bool {
	if err := f.readings.Parse(r.target); err != nil || strings.HasPrefix(f.readings.Path, "/.stile/") {
		return false
	}
	r.path, r.query, r.alt = f.readings.Path, f.readings.Query, f.readings.Alt
	n, plain := len(r.path), false
	if n <= len(r.target) && r.path == r.target[:n] && len(r.alt) == 0 {
		r.path = r.target[:n]
		plain = n == len(r.target) && r.query == "" || n < len(r.target) && r.target[n] == '?' && r.query == r.target[n+1:]
	} else {
		// Slow path: it lies in memory that is used again.
		r.path = strings.Clone(r.path)
		r.alt = slices.Clone(r.alt)
		for i := range r.alt {
			r.alt[i] = strings.Clone(r.alt[i])
		}
	}
	f.fill(&f.req, r)
	if f.memo.crawler {
		f.claimed.claim, f.req.Look = r.claim, &f.claimed
	}
	r.found = f.engine.Find(&f.req)
	r.route = f.routes.of(r.path)
	if plain {
		f.memo.keep(r)
	}
	return true
}

// claimed says of a request what has been found out about it.
type claimed struct {
	*lookups
	claim crawler.Claim
}

func (c *claimed) Crawler(string, netip.Addr, int64) crawler.Claim { return c.claim }

// agents remembers of agents whether they name a crawler. It compares them by a seeded hash,
// as memo does targets.
type agents struct {
	seed maphash.Seed
	all  [1 << 10]struct {
		hash  uint64
		claim bool
	}
}

// claim tells whether an agent names a crawler.
func (a *agents) claim(agent string) bool {
	if agent == "" {
		return false
	}
	h := max(maphash.String(a.seed, agent), 1)
	e := &a.all[h%uint64(len(a.all))]
	if e.hash != h {
		e.hash, e.claim = h, crawler.Claimed(agent) != 0
	}
	return e.claim
}

// shape is what of a record a decision sees.
type shape struct {
	part     bool     // the log tells parts of pages from pages
	referers bool     // rules look at the Referer
	look     *lookups // nil: no rule needs any
	filled   *format  // of whose headers a request has been filled; nil: none
}

// fill makes what the decision works on of a record, as server/facts.go does of nginx's
// headers; all but the caller. It is always the same q.
func (s *shape) fill(q *decide.Request, r *request) {
	if s.look != nil {
		q.Look = s.look
	}
	q.Path, q.Query, q.Alt = r.path, r.query, r.alt
	q.Method, q.Host, q.Agent, q.Addr, q.From = r.method, r.host, r.agent, r.addr, r.from
	if r.format != s.filled { // another log
		q.Header, s.filled = decide.Header{}, r.format
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
