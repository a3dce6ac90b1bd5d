package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"stile/config"
	"stile/decide/pattern"
)

// rule is one [[rule]], compiled.
type rule struct {
	name    string
	do      config.Action
	points  int // of a suspect rule
	level   uint8
	never   bool // proof = "never"
	observe bool
	match   matcher
	meters  []int16
	gate    int16  // index into the configuration's gates plus one, 0: none
	strict  uint64 // rank among rules, for targets that can be read in two ways
	*hits
}

// hits counts how often a rule was the one, and how often it would have been refusing
// or challenging in observe mode. It outlives reloads, by the rule's name.
type hits struct{ found, would atomic.Uint64 }

// matcher is the compiled matchers of a rule. All must hold; a list is any of.
type matcher struct {
	methods []string
	hosts   []pattern.Host
	paths   pattern.Paths
	queries pattern.Queries
	agents  []pattern.Text
	headers []headerMatcher
	network *bart.Lite
	crawler crawlerMatcher
	systems []uint32   // sorted
	country *countries // nil: any
	not     *matcher
}

type headerMatcher struct {
	index    int
	patterns []pattern.Text
}

func compileMatcher(c *config.Match, words *pattern.Dictionary) (matcher, error) {
	var m matcher
	m.methods = c.Method
	var err error
	if m.hosts, err = compileAll(c.Host, pattern.CompileHost); err != nil {
		return m, err
	}
	if m.paths, err = pattern.CompilePaths(c.Path, words); err != nil {
		return m, err
	}
	if m.queries, err = pattern.CompileQueries(c.Query); err != nil {
		return m, err
	}
	if m.agents, err = compileAll(c.Agent, pattern.CompileText); err != nil {
		return m, err
	}
	for _, h := range c.Header {
		i := slices.Index(config.Headers[:], h.Name)
		if i < 0 {
			return m, fmt.Errorf("header %q does not reach stile", h.Name)
		}
		ps, err := compileAll(h.Patterns, pattern.CompileText)
		if err != nil {
			return m, err
		}
		m.headers = append(m.headers, headerMatcher{i, ps})
	}
	if len(c.Network) > 0 {
		m.network = new(bart.Lite)
		for _, p := range c.Network {
			m.network.Insert(p)
		}
	}
	m.crawler, m.systems, m.country = compileCrawler(c.Crawler), compileSystems(c.ASN), compileCountries(c.Country)
	if c.Not != nil {
		not, err := compileMatcher(c.Not, words)
		if err != nil {
			return m, err
		}
		m.not = &not
	}
	return m, nil
}

func compileAll[P any](texts []string, compile func(string) (P, error)) ([]P, error) {
	var ps []P
	for _, t := range texts {
		p, err := compile(t)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// hits is those of the readings in set for which all matchers hold.
func (m *matcher) hits(r *Request, t *target, set uint) uint {
	if len(m.methods) > 0 && !slices.Contains(m.methods, r.Method) {
		return 0
	}
	if !m.paths.Empty() {
		if set &= t.match(&m.paths, set); set == 0 {
			return 0
		}
	}
	if m.missBeside(r) != "" || m.not != nil && m.not.anyBeside(r) {
		return 0
	}
	if m.not != nil && !m.not.paths.Empty() {
		set &^= t.match(&m.not.paths, set)
	}
	return set
}

// miss names the first matcher that does not hold for one reading of the path, "" when
// all hold. It is for explanations; find takes the matchers apart.
func (m *matcher) miss(r *Request, path string, words *pattern.Words) string {
	if !m.paths.Empty() && !m.paths.Match(path, words) {
		return "path"
	}
	if miss := m.missBeside(r); miss != "" {
		return miss
	}
	if m.not != nil && (m.not.anyBeside(r) || m.not.paths.Match(path, words)) {
		return "not"
	}
	return ""
}

// missBeside is miss for everything beside the path: the same for every reading of a
// target, so it is asked once a request. The cheap and selective ones come first.
func (m *matcher) missBeside(r *Request) string {
	if len(m.methods) > 0 && !slices.Contains(m.methods, r.Method) {
		return "method"
	}
	if len(m.hosts) > 0 && !anyHost(m.hosts, r.Host) {
		return "host"
	}
	if m.network != nil && !contains(m.network, r.Addr) {
		return "network"
	}
	if !m.queries.Empty() && !m.queries.Match(r.Query) {
		return "query"
	}
	if len(m.agents) > 0 && !anyText(m.agents, r.Agent) {
		return "agent"
	}
	for i := range m.headers {
		if !anyText(m.headers[i].patterns, r.Header[m.headers[i].index]) {
			return "header"
		}
	}
	switch {
	case len(m.systems) > 0 && !anySystem(m.systems, r):
		return "asn"
	case m.country != nil && !m.country.match(r):
		return "country"
	case m.crawler.given && !m.crawler.match(r): // last: see looked.waits
		return "crawler"
	}
	return ""
}

// anyBeside tells whether at least one of the matchers beside the path holds: "not"
// excludes by each.
func (m *matcher) anyBeside(r *Request) bool {
	if len(m.methods) > 0 && slices.Contains(m.methods, r.Method) ||
		len(m.hosts) > 0 && anyHost(m.hosts, r.Host) ||
		m.network != nil && contains(m.network, r.Addr) ||
		m.queries.Match(r.Query) ||
		len(m.agents) > 0 && anyText(m.agents, r.Agent) {
		return true
	}
	for i := range m.headers {
		if anyText(m.headers[i].patterns, r.Header[m.headers[i].index]) {
			return true
		}
	}
	return len(m.systems) > 0 && anySystem(m.systems, r) || m.country != nil && m.country.match(r) || m.crawler.given && m.crawler.match(r)
}

func anyHost(ps []pattern.Host, s string) bool {
	for i := range ps {
		if ps[i].Match(s) {
			return true
		}
	}
	return false
}

func anyText(ps []pattern.Text, s string) bool {
	for i := range ps {
		if ps[i].Match(s) {
			return true
		}
	}
	return false
}

// contains looks an address up in a prefix table; IPv4-mapped addresses are IPv4.
func contains(t *bart.Lite, a netip.Addr) bool { return a.IsValid() && t.Contains(a.Unmap()) }

// describe is the verdict of a rule for a caller that has used nothing yet, as
// [[expect]] and explain write it: "allow", "deny", "challenge 2", "meter a b".
func (r *rule) describe(p *Policy) string {
	switch r.do {
	case config.Allow:
		return "allow"
	case config.Deny:
		return "deny"
	case config.Trap:
		return "trap"
	case config.Challenge:
		if r.level > 1 {
			return fmt.Sprintf("challenge %d", r.level)
		}
		return "challenge"
	case config.Suspect:
		return fmt.Sprintf("suspect %d", r.points)
	}
	names := make([]string, 0, len(r.meters))
	for _, i := range r.meters {
		names = append(names, p.meters[i].name)
	}
	return "meter " + strings.Join(names, " ")
}
