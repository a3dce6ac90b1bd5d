package e2e

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stile/config"
	"stile/decide"
	"stile/decide/path"
)

// A street is a site under the default policy and the people and programs who use it, in time that the test steps.
type street struct {
	t       *testing.T
	engine  *decide.Engine
	now     time.Duration
	due     events
	target  path.Readings
	random  *rand.Rand
	callers uint64
}

// newStreet opens one. The seed says how people happen to come and go.
func newStreet(t *testing.T, seed uint64) *street {
	t.Helper()
	cfg, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	e, err := decide.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &street{t: t, engine: e, random: rand.New(rand.NewPCG(seed, 1))}
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// morning is when a street opens, in unix nanoseconds.
var morning = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC).UnixNano()

// in does something so much later.
func (s *street) in(d time.Duration, do func()) { heap.Push(&s.due, event{s.now + d, do}) }

// about is a time that varies by half of itself in both directions.
func (s *street) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(s.random.Int64N(int64(d)))
}

// run lets so much time pass.
func (s *street) run(d time.Duration) {
	end := s.now + d
	for len(s.due) > 0 && s.due[0].at <= end {
		e := heap.Pop(&s.due).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

// person is somebody with a browser of today. Over https it says what each request is for (Sec-Fetch-…), over plain
// http it does not.
type person struct {
	s      *street
	name   string
	addr   string
	https  bool
	pass   decide.Caller
	proven time.Duration // when the solution that is being worked on will be there
	solves int           // challenges seen
	broken []string      // what was refused, or asked for a proof where none could be given
	cached map[string]bool
	count  int

	requests map[string]*decide.Request
}

func (s *street) person(name, addr string, https bool) *person {
	return &person{s: s, name: name, addr: addr, https: https, proven: -1, cached: map[string]bool{}, requests: map[string]*decide.Request{}}
}

// wish is one thing that a browser asks for.
type wish struct{ kind, target string }

// asks is what a browser says with each kind of request: Accept, Sec-Fetch-Dest, Sec-Fetch-Mode.
var asks = map[string][3]string{
	"page":    {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "document", "navigate"},
	"picture": {"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", "image", "no-cors"},
	"style":   {"text/css,*/*;q=0.1", "style", "no-cors"},
	"script":  {"*/*", "script", "no-cors"},
	"font":    {"application/font-woff2;q=1.0,application/font-woff;q=0.9,*/*;q=0.8", "font", "cors"},
	"call":    {"*/*", "empty", "cors"},
	"json":    {"application/json, text/plain, */*", "empty", "cors"},
	"stream":  {"text/event-stream", "empty", "cors"},
}

// request is what the browser sends for a kind of thing, without the target. It is made once for each.
func (p *person) request(kind string) *decide.Request {
	p.s.t.Helper()
	if p.count == 1 {
		kind += ", the first" // which comes from nowhere
	}
	if r := p.requests[kind]; r != nil {
		return r
	}
	kind, _, first := strings.Cut(kind, ", ")
	a := asks[kind]
	scheme := "http"
	header := map[string]string{
		"Host": "site.example", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Accept": a[0], "Accept-Language": "en-US,en;q=0.5", "Accept-Encoding": "gzip, deflate",
	}
	if p.https {
		scheme = "https"
		header["Sec-Fetch-Dest"], header["Sec-Fetch-Mode"], header["Sec-Fetch-Site"] = a[1], a[2], "same-origin"
	}
	if kind == "page" {
		header["Upgrade-Insecure-Requests"] = "1"
	}
	if !first {
		header["Referer"] = scheme + "://site.example/page"
	}
	r, err := decide.NewRequest("GET", "/", p.addr, header)
	if err != nil {
		p.s.t.Fatal(err)
	}
	if !first {
		p.requests[kind] = r
	}
	return r
}

func (p *person) ask(l wish, method string) decide.Verdict {
	p.s.t.Helper()
	p.count++
	r := p.request(l.kind)
	if err := p.s.target.Parse(l.target); err != nil {
		p.s.t.Fatal(err)
	}
	r.Method, r.Path, r.Query, r.Alt = method, p.s.target.Path, p.s.target.Query, p.s.target.Alt
	r.Caller = p.pass
	return p.s.engine.Decide(r, morning+int64(p.s.now))
}

// open navigates, solves what is asked, and loads what the page needs: its own pictures and calls each time, and what
// the browser keeps (scripts, styles, fonts) once.
func (p *person) open(target string, own, kept []wish) {
	switch v := p.ask(wish{"page", target}, "GET"); v.Action {
	case decide.Allow:
		for _, l := range kept {
			if !p.cached[l.target] {
				p.cached[l.target] = true
				p.s.in(p.s.about(300*time.Millisecond), func() { p.part(l, "GET") })
			}
		}
		for _, l := range own {
			p.s.in(p.s.about(800*time.Millisecond), func() { p.part(l, "GET") })
		}
	case decide.Challenge:
		if p.proven < p.s.now { // else another tab is at it already
			p.solves++
			p.proven = p.s.now + p.s.about(1500*time.Millisecond)
			p.s.callers++
			key := p.s.callers
			p.s.in(p.proven-p.s.now, func() { p.pass = decide.Caller{Kind: decide.Holder, Level: 2, Key: key} })
		}
		p.s.in(p.proven-p.s.now+100*time.Millisecond, func() { p.open(target, own, kept) })
	case decide.Refuse:
		p.lost("page "+target, v)
	}
}

// part loads a part of a page that is being shown.
func (p *person) part(l wish, method string) {
	if v := p.ask(l, method); v.Action != decide.Allow {
		p.lost(l.kind+" "+l.target, v)
	}
}

func (p *person) lost(what string, v decide.Verdict) {
	p.broken = append(p.broken, fmt.Sprintf("%s after %s: %s, %s", what, p.s.now.Round(time.Second), v.Action, v.Reason))
}

// content checks what became of somebody: nothing refused, at most one challenge.
func (p *person) content() {
	p.s.t.Helper()
	if len(p.broken) > 0 {
		p.s.t.Errorf("%s: %d of %d requests were not served, the first: %s", p.name, len(p.broken), p.count, p.broken[0])
	}
	if p.solves > 1 {
		p.s.t.Errorf("%s: saw %d challenges in a day", p.name, p.solves)
	}
}

// some makes so many wishes of a kind.
func some(n int, kind, format string) (all []wish) {
	for i := range n {
		all = append(all, wish{kind, fmt.Sprintf(format, i)})
	}
	return all
}

func together(all ...[]wish) (one []wish) {
	for _, l := range all {
		one = append(one, l...)
	}
	return one
}

// frame is what every page of a site needs, and a browser keeps.
var frame = together(some(3, "style", "/static/%d.css"), some(6, "script", "/static/%d.js"), some(3, "font", "/static/%d.woff2"), some(2, "picture", "/static/logo%d.svg"))

// both runs a simulation over https and over plain http, as many times each.
func both(t *testing.T, times int, f func(t *testing.T, s *street, https bool)) {
	t.Helper()
	for _, https := range []bool{true, false} {
		scheme := map[bool]string{true: "https", false: "http"}[https]
		for seed := range times {
			t.Run(fmt.Sprintf("%s %d", scheme, seed), func(t *testing.T) {
				t.Parallel()
				f(t, newStreet(t, uint64(seed)), https)
			})
		}
	}
}

// Somebody looks through a site whose pages have 60 pictures and 12 calls each, a page every 20 s for an hour.
func TestOrdinaryGallery(t *testing.T) {
	both(t, 3, func(t *testing.T, s *street, https bool) {
		p := s.person("the reader", "192.0.2.1", https)
		n := 0
		var next func()
		next = func() {
			n++
			p.open(fmt.Sprintf("/album/%d", n), together(some(60, "picture", fmt.Sprintf("/photos/%d-%%d.jpg", n)), some(12, "json", fmt.Sprintf("/api/album/%d/part/%%d", n))), frame)
			s.in(s.about(20*time.Second), next)
		}
		next()
		s.run(time.Hour)
		p.content()
	})
}

// The same where pictures have addresses without a suffix.
func TestOrdinaryGalleryWithoutSuffixes(t *testing.T) {
	both(t, 3, func(t *testing.T, s *street, https bool) {
		p := s.person("the reader", "192.0.2.1", https)
		n := 0
		var next func()
		next = func() {
			n++
			p.open(fmt.Sprintf("/album/%d", n), together(some(60, "picture", fmt.Sprintf("/media/%d-%%d?w=640", n)), some(12, "json", fmt.Sprintf("/api/album/%d/part/%%d", n))), frame)
			s.in(s.about(20*time.Second), next)
		}
		next()
		s.run(time.Hour)
		p.content()
	})
}

// Somebody works in a single-page application for eight hours: 40 calls at the start, then one every five seconds by
// itself and a burst of ten, four times a minute, by hand; an event stream that is opened anew every minute.
func TestOrdinarySinglePageApplication(t *testing.T) {
	both(t, 3, func(t *testing.T, s *street, https bool) {
		p := s.person("the worker", "192.0.2.1", https)
		p.open("/app", some(40, "json", "/api/v1/start/%d"), frame)
		var poll, stream, act func()
		poll = func() {
			p.part(wish{"json", "/api/v1/notifications"}, "GET")
			s.in(5*time.Second, poll)
		}
		stream = func() {
			p.part(wish{"stream", "/api/v1/stream"}, "GET")
			s.in(time.Minute, stream)
		}
		act = func() {
			for _, l := range some(9, "json", "/api/v1/items/%d") {
				s.in(s.about(time.Second), func() { p.part(l, "GET") })
			}
			p.part(wish{"json", "/api/v1/items"}, "POST")
			s.in(s.about(15*time.Second), act)
		}
		s.in(5*time.Second, poll)
		s.in(2*time.Second, stream)
		s.in(10*time.Second, act)
		s.run(8 * time.Hour)
		p.content()
	})
}

// A browser opens six tabs of the last evening at once, each with 20 calls and 30 pictures.
func TestOrdinarySixTabsAtOnce(t *testing.T) {
	both(t, 3, func(t *testing.T, s *street, https bool) {
		p := s.person("the evening's reader", "192.0.2.1", https)
		for i := range 6 {
			s.in(s.about(time.Second), func() {
				p.open(fmt.Sprintf("/thread/%d", i), together(some(20, "call", fmt.Sprintf("/api/thread/%d/%%d", i)), some(30, "picture", fmt.Sprintf("/avatars/%d-%%d.png", i))), frame)
			})
		}
		s.run(time.Minute)
		p.content()
	})
}

// Forty people share an address for an hour. Each opens a page of 20 pictures and five calls about every 45 s.
func TestOrdinaryOffice(t *testing.T) {
	both(t, 1, func(t *testing.T, s *street, https bool) { office(t, s, https, 20, 5) })
}

// The same with pages of 60 pictures and ten calls.
func TestOrdinaryOfficeInAGallery(t *testing.T) {
	both(t, 1, func(t *testing.T, s *street, https bool) { office(t, s, https, 60, 10) })
}

func office(t *testing.T, s *street, https bool, pictures, calls int) {
	var people []*person
	for i := range 40 {
		p := s.person(fmt.Sprintf("colleague %d", i), "192.0.2.1", https)
		people = append(people, p)
		n := 0
		var next func()
		next = func() {
			n++
			p.open(fmt.Sprintf("/page/%d-%d", i, n), together(some(pictures, "picture", fmt.Sprintf("/img/%d-%d-%%d.png", i, n)), some(calls, "call", fmt.Sprintf("/api/%d-%d/%%d", i, n))), frame)
			s.in(s.about(45*time.Second), next)
		}
		s.in(s.about(5*time.Minute), next)
	}
	s.run(time.Hour)
	for _, p := range people {
		p.content()
	}
}

// Somebody types into a box that searches at each pause: ten searches of six questions each, within five minutes.
func TestOrdinarySearchAsYouType(t *testing.T) {
	both(t, 3, func(t *testing.T, s *street, https bool) {
		p := s.person("the searcher", "192.0.2.1", https)
		p.open("/", nil, frame)
		for i := range 10 {
			s.in(time.Duration(i)*30*time.Second+s.about(5*time.Second), func() {
				for j := range 6 {
					s.in(time.Duration(j)*400*time.Millisecond, func() { p.part(wish{"json", fmt.Sprintf("/api/suggest?q=word%d", j)}, "GET") })
				}
				s.in(4*time.Second, func() { p.open(fmt.Sprintf("/search?q=word%d", i), nil, nil) })
			})
		}
		s.run(10 * time.Minute)
		p.content()
	})
}

// Programs are never asked: a feed reader every ten minutes and a monitor every 30 s, for a day.
func TestOrdinaryPrograms(t *testing.T) {
	s := newStreet(t, 1)
	program := func(name, addr, method, target string, every time.Duration, header map[string]string) {
		refused := 0
		var again func()
		again = func() {
			r, err := decide.NewRequest(method, target, addr, header)
			if err != nil {
				t.Fatal(err)
			}
			if v := s.engine.Decide(r, morning+int64(s.now)); v.Action != decide.Allow {
				refused++
			}
			s.in(every, again)
		}
		again()
		t.Cleanup(func() {
			if refused > 0 {
				t.Errorf("%s was not served %d times", name, refused)
			}
		})
	}
	reader := map[string]string{"User-Agent": "Miniflux/2.2", "Accept": "application/atom+xml, application/rss+xml, text/xml;q=0.9, */*;q=0.8"}
	program("a feed reader", "192.0.2.1", "GET", "/feed/", 10*time.Minute, reader)
	program("a feed reader of a page's feed", "192.0.2.1", "GET", "/blog/tag/x/index.atom", 10*time.Minute, reader)
	program("a feed reader for many", "192.0.2.2", "GET", "/feed.xml", 10*time.Second, reader)
	program("a monitor", "192.0.2.3", "GET", "/", 30*time.Second, map[string]string{"User-Agent": "Uptime-Kuma/1.23", "Accept": "text/html,application/xhtml+xml,*/*"})
	program("a monitor by HEAD", "192.0.2.4", "HEAD", "/status", 20*time.Second, map[string]string{"User-Agent": "UptimeRobot/2.0"})
	program("git in a build", "192.0.2.5", "GET", "/r.git/info/refs?service=git-upload-pack", 5*time.Second, map[string]string{"User-Agent": "git/2.39.5"})
	s.run(24 * time.Hour)
}
