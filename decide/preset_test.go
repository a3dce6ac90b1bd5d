package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"stile/config"
	"stile/crawler"
)

// The attacks on presets are made, not listed: every example of an exemption is put on every
// example of an expensive page, in every way that a client can think of, and what comes out
// must be judged as the page wherever the application would answer with it. What an
// application makes of a request is written down here a second time (the oracles), after its
// own code and manuals and not after the presets.

// backend is one application: whether it answers a request with an expensive page.
type backend func(a *sent) bool

var backends = map[string]backend{
	"generic": anyApp, "forge": forgejo, "cgit": cgit, "gitweb": gitweb, "gitlab": gitlab, "wiki": mediawiki, "packages": packageIndex,
}

// exemptGates guard what programs do that are exempt, and not pages.
var exemptGates = []string{"git", "thumbs"}

func TestPresetsStandDressUps(t *testing.T) {
	for _, name := range config.Presets() {
		t.Run(name, func(t *testing.T) {
			serves, ok := backends[name]
			if !ok {
				t.Fatalf("no oracle: write down what the application makes of a request")
			}
			d := newDressUp(t, name)
			tried, served, k := 0, 0, 0
			for _, page := range d.pages {
				for _, exempt := range d.exempt {
					for i, target := range targets(page.Target, exempt.Target) {
						// Each page and client get another part of what can be thought of: among them all is tried.
						if (i+i/29+k)%29 == 0 {
							n, hit := d.try(serves, target, page, exempt)
							tried, served = tried+n, served+hit
						}
					}
					k++
				}
			}
			t.Logf("%d pages, %d exempt clients: %d requests, of which %d get an expensive page", len(d.pages), len(d.exempt), tried, served)
			if served < 3000 {
				t.Errorf("only %d requests get an expensive page: the attack attacks nothing", served)
			}
		})
	}
}

// Nobody's word wins anything: whoever says that he is a crawler, and is refuted, not known
// or not known yet, is under the same meters as he would be in silence, and is never
// exempt by it. A verified one is better off on pages alone, and only if a rule names it.
func TestPresetsBelieveNoWord(t *testing.T) {
	for _, name := range config.Presets() {
		t.Run(name, func(t *testing.T) {
			d := newDressUp(t, name)
			better := map[string]bool{}
			for i := range d.examples {
				x := &d.examples[i]
				r := d.request(x.Method, x.Target, x.Header)
				if r == nil {
					continue
				}
				plain := d.rule(r)
				for _, c := range everyClaim {
					c.put(r)
					got := d.rule(r)
					same := slices.Equal(got.meters, plain.meters) && got.never == plain.never && got.do == plain.do && got.gate == plain.gate
					switch {
					case same:
					case c.claim.State == crawler.Verified && got.never && d.onPages(plain) && slices.Contains(got.match.crawler.words(), c.claim.Crawler.Name()):
						better[c.claim.Crawler.Name()] = true
					default:
						t.Errorf("%s %s as %s (%s): rule %q, and in silence %q", x.Method, x.Target, c.agent, c.claim.State, got.name, plain.name)
					}
				}
			}
			if !better["google"] || !better["google-user"] || better["openai"] {
				t.Errorf("better off when verified: %v", better)
			}
		})
	}
}

// everyClaim is all that may be known of who names a crawler in his agent.
var everyClaim = func() (all []claimed) {
	for i := range crawler.Known {
		for _, s := range []crawler.State{crawler.None, crawler.Spoofed, crawler.Unknown, crawler.Pending, crawler.Verified} {
			c := claimed{crawler.Known[i].Tokens[0], crawler.Claim{State: s, Crawler: crawler.ID(i + 1)}}
			if s == crawler.None { // the agent alone
				c.claim = crawler.Claim{}
			}
			all = append(all, c)
		}
	}
	return all
}()

// claimed is an agent, and what is known of it.
type claimed struct {
	agent string
	claim crawler.Claim
}

func (c *claimed) put(r *Request) { r.Agent, r.Crawler = c.agent, c.claim }

// words are the crawlers that a rule names.
func (m *crawlerMatcher) words() (names []string) {
	for i := range crawler.Known {
		if id := crawler.ID(i + 1); m.names.Has(id) {
			names = append(names, id.Name())
		}
	}
	return names
}

// rule is the one that a request falls under.
func (d *dressUp) rule(r *Request) *rule { return &d.policy.rules[d.policy.find(r).rule] }

// onPages tells whether a rule counts pages, which cost little.
func (d *dressUp) onPages(ru *rule) bool {
	return len(ru.meters) > 0 && d.policy.meters[ru.meters[0]].name == "pages" && ru.gate == 0
}

// dressUp is a preset and the examples that it has itself.
type dressUp struct {
	t      *testing.T
	policy *Policy
	gates  []bool // of each rule: it guards expensive pages
	pages  []*config.Expect
	exempt []*config.Expect
	holes  map[string]bool

	examples []config.Expect
	dressed  int // how many of everyClaim have been tried
}

func newDressUp(t *testing.T, name string) *dressUp {
	parse := func(name string) *config.Config {
		c, err := config.Parse("test.toml", []byte(fmt.Sprintf("include = [%q]", "preset:"+name)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := parse(name)
	examples := c.Expects
	c.State.Keys = 1
	p, err := compile(c, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &dressUp{t: t, policy: p, gates: make([]bool, len(c.Rules)), holes: map[string]bool{}}
	for i, r := range c.Rules {
		d.gates[i] = r.Gate > 0 && !slices.Contains(exemptGates, c.Gates[r.Gate-1].Name)
	}
	if name != "generic" {
		examples = append(examples, parse("generic").Expects...)
	}
	d.examples = examples
	covered := map[int]int{}
	for i := range examples {
		x := &examples[i]
		r := d.request(x.Method, x.Target, x.Header)
		if r == nil {
			continue
		}
		r.Agent, r.Crawler = x.Agent, x.Crawler
		switch found := p.find(r).rule; {
		case found < 0:
		case c.Rules[found].Do == config.Allow || c.Rules[found].Proof == config.Never:
			if covered[found]++; covered[found] <= 1 || covered[found] == 2 && x.Pos.File == "preset:"+name {
				d.exempt = append(d.exempt, x)
			}
		case d.gates[found] && x.Method == "GET" && x.Pos.File == "preset:"+name:
			// Of each rule some pages; those that are dressed up already can be dressed up more.
			if covered[found]++; covered[found] <= 3 && backends[name](see(x.Method, x.Target)) {
				d.pages = append(d.pages, x)
			}
		}
	}
	for i, r := range c.Rules {
		if (r.Do == config.Allow || r.Proof == config.Never) && covered[i] == 0 && r.Pos.File == "preset:"+name {
			t.Errorf("%s: rule %q: no [[expect]] shows what it exempts", r.Pos, r.Name)
		}
	}
	return d
}

func (d *dressUp) request(method, target string, header map[string]string) *Request {
	r, err := NewRequest(method, target, "", header)
	if err != nil {
		return nil // nginx answers 400
	}
	return r
}

// junk is everything that a client may claim to be, at once.
var junk = map[string]string{
	"Authorization": "Bearer junk", "Accept": "application/activity+json", "Sec-Fetch-Dest": "style", "Sec-Fetch-Mode": "no-cors", "Range": "bytes=1-",
	"Content-Type": "application/x-git-upload-pack-request", "Signature": `keyId="x"`, "User-Agent": "git/2.39.5", "Git-Protocol": "version=2",
	"X-Requested-With": "XMLHttpRequest", "Origin": "https://x.example.org", "Access-Control-Request-Method": "GET",
}

// try asks for a target as the exempt client would, and with junk besides, by several methods.
func (d *dressUp) try(serves backend, target string, page, exempt *config.Expect) (tried, served int) {
	a := see("GET", target)
	if a == nil {
		return 0, 0
	}
	all := maps.Clone(junk)
	maps.Copy(all, exempt.Header)
	if exempt.Agent != "" {
		all["User-Agent"] = exempt.Agent
	}
	for _, header := range []map[string]string{exempt.Header, all} {
		r := d.request("GET", target, header)
		if r == nil {
			return tried, served
		}
		// As what the exempt client is known to be, and as all kinds of crawlers in turn.
		d.dressed++
		as := []claimed{{r.Agent, exempt.Crawler}, everyClaim[d.dressed%len(everyClaim)], everyClaim[(7*d.dressed+3)%len(everyClaim)]}
		for i, method := range []string{"GET", "HEAD", "POST", "OPTIONS", exempt.Method} {
			if i == 4 && slices.Contains([]string{"GET", "HEAD", "POST", "OPTIONS"}, method) {
				continue
			}
			tried++
			if a.method = method; !serves(a) {
				continue
			}
			served++
			r.Method = method
			for _, c := range as {
				c.put(r)
				if found := d.policy.find(r).gated; found < 0 || !d.gates[found] {
					d.hole(r, target, page, exempt, header)
				}
			}
		}
	}
	return tried, served
}

// hole reports an expensive page that is not judged as one. One of each kind is enough to read.
func (d *dressUp) hole(r *Request, target string, page, exempt *config.Expect, header map[string]string) {
	verdict, rule := d.policy.Classify(r)
	if kind := rule + " for " + page.Target + " as " + exempt.Target; !d.holes[kind] && len(d.holes) < 40 {
		d.holes[kind] = true
		d.t.Errorf("%s %s (%s dressed up as %s, %v, %s %s): %q by rule %q", r.Method, target, page.Target, exempt.Target, header, r.Agent, r.Crawler, verdict, rule)
	}
}

// targets are the ways of writing a page's address so that it looks like another's.
func targets(page, exempt string) (ts []string) {
	pagePath, pageQuery, _ := strings.Cut(page, "?")
	exemptPath, exemptQuery, _ := strings.Cut(exempt, "?")
	depth := func(p string) int { return strings.Count(strings.TrimSuffix(p, "/"), "/") }
	paths := []string{pagePath}
	add := func(ps ...string) { paths = append(paths, ps...) }
	// By way of the exempt path, up, and down to the page; and the other way round.
	for _, up := range []string{"/..", "/%2e%2e", "/.%2E", "/..;", "/..;x=y", "%2f..", "%2F%2e%2e", "%5c..", `\..`, "/./..", "//..", "/%c0%ae%c0%ae", "%c0%af%e0%80%ae.", "/%ef%bc%8e%ef%bc%8e", "..%ef%bc%8f"} {
		add(exemptPath+strings.Repeat(up, depth(exemptPath))+pagePath, pagePath+strings.Repeat(up, depth(pagePath))+exemptPath)
	}
	for _, up := range []string{"/../", "/%2e%2e/", "/..;/", "/..%2f", `/..\`, "/..%5c"} {
		add("/x"+up+pagePath[1:], pagePath+"/x"+up+"y")
	}
	// The one before the other, and after.
	add(exemptPath+pagePath, pagePath+exemptPath, pagePath+"/"+strings.ReplaceAll(exemptPath[1:], "/", "%2f"), pagePath+";"+exemptPath[1:], pagePath+"%3b"+exemptPath[1:],
		pagePath+"#"+exemptPath, pagePath+"%23"+exemptPath, pagePath+"%3f"+exemptPath, pagePath+"."+exemptPath[strings.LastIndexByte(exemptPath, '/')+1:])
	// Suffixes.
	for _, s := range []string{
		"/", "//", "/.", "/./", "/x/..", ".", "%20", "+", "%0a", "%09", "~", ":", "/-", "/-/x",
		".css", ".js", ".png", ".rss", ".atom", ".json", ".git", ".deb", ".whl", "/x.css", "/x.png", "/x.deb", ";x.css", "%3bx.css", "%2fx.css",
		"/info/refs", ".git/info/refs", "/HEAD", "/objects/info/packs", "/objects/ab/0123456789abcdef0123456789abcdef012345", "/objects/pack/pack-0123.pack",
		"/git-upload-pack", "/info/lfs/objects/batch", "/manifests/latest", "/blobs/x", "/tags/list", "/robots.txt", "/favicon.ico", "/.well-known/x",
		"/feed/", "/inbox", "/atom/", "/uploads/x/y", "/load.php", "/repodata/repomd.xml", "/@v/list", "/InRelease",
	} {
		add(pagePath + s)
	}
	// Slashes and letters.
	add("/"+pagePath, strings.ReplaceAll(pagePath, "/", "//"), strings.ReplaceAll(pagePath, "/", "/./"), "/%2e"+pagePath, "/.;"+pagePath, strings.ToUpper(pagePath), escape(pagePath), escapeSlashes(pagePath))

	queries := []string{pageQuery, exemptQuery}
	if pageQuery != "" || exemptQuery != "" {
		for _, sep := range []string{"&", ";", "&&", "%26", "?", "#"} {
			queries = append(queries, pageQuery+sep+exemptQuery, exemptQuery+sep+pageQuery)
		}
	}
	for _, more := range []string{"service=git-upload-pack", "go-get=1", "v=1", "0a1b2c", "feed=rss2", "h=main"} {
		queries = append(queries, more+"&"+pageQuery, pageQuery+"&"+more, more)
	}
	queries = append(queries, escapeKeys(pageQuery))
	for i, p := range paths {
		for j, q := range queries {
			// The path as it is with all queries, and all paths with the page's and the exempt one's.
			if i > 0 && j > 3 && (i+j)%7 != 0 {
				continue
			}
			if q == "" || q == "&" {
				ts = append(ts, p)
			} else {
				ts = append(ts, p+"?"+q)
			}
		}
	}
	return ts
}

// escape encodes the first letter of each segment.
func escape(p string) string {
	var b strings.Builder
	for i := range len(p) {
		if i > 0 && p[i-1] == '/' && p[i] != '/' && p[i] != '%' {
			fmt.Fprintf(&b, "%%%02x", p[i])
		} else {
			b.WriteByte(p[i])
		}
	}
	return b.String()
}

func escapeSlashes(p string) string { return "/" + strings.ReplaceAll(p[1:], "/", "%2F") }

// escapeKeys encodes the first letter of each parameter.
func escapeKeys(q string) string {
	var b strings.Builder
	for i := range len(q) {
		if (i == 0 || q[i-1] == '&' || q[i-1] == ';') && q[i] != '%' {
			fmt.Fprintf(&b, "%%%02x", q[i])
		} else {
			b.WriteByte(q[i])
		}
	}
	return b.String()
}

// A preset's rule in observe mode counts what it would have refused, and its gate holds nobody.
func TestPresetRuleObserved(t *testing.T) {
	cfg, err := config.Parse("test.toml", []byte("include = ['preset:forge']\n[[rule]]\nname = 'forge/archive'\nmode = 'observe'\n"))
	if err != nil {
		t.Fatal(err)
	}
	if failed := Expectations(cfg); len(failed) > 0 {
		t.Errorf("the preset's own expects are no longer about it alone: %v", failed)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := &asks{t: t, e: e, now: start, addr: "192.0.2.1"}
	for i := range 30 { // three times what forge/archive allows
		if got := a.verdict("GET /o/r/archive/v1.zip"); got != "allow" {
			t.Fatalf("request %d: %s", i, got)
		}
	}
	e.Policy().Rules(func(name string, found, would uint64) {
		if name == "forge/archive" && would == 0 || name == "generic/pages" && found != 30 {
			t.Errorf("rule %s: found %d, would have refused %d", name, found, would)
		}
	})
}
