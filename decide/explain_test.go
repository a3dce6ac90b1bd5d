package decide

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"stile/config"
)

const explained = `
[[meter]]
name = "render"
window = "1m"
stranger = 3
pass = 8
user = 20
strangers = 40
[[rule]]
name = "closed"
path = "/closed/**"
do = "challenge"
level = 2
[[rule]]
name = "machines"
path = "/api/**"
do = "meter"
meter = "render"
proof = "never"
[[rule]]
name = "denied"
path = "/denied"
do = "deny"
[[rule]]
name = "trapped"
path = "/trapped"
do = "trap"
[[rule]]
name = "dear"
path = "/dear/**"
do = "meter"
meter = "render"
level = 2
[[rule]]
name = "pages"
path = "/pages/**"
do = "meter"
meter = "render"
`

var page = map[string]string{"Accept": "text/html"}

func explanation(t *testing.T, e *Engine, request, addr string, c Caller, header map[string]string) string {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r, err := NewRequest(method, target, addr, header)
	if err != nil {
		t.Fatal(err)
	}
	r.Caller = c
	var b strings.Builder
	for _, s := range e.Policy().Explain(r, 503) {
		fmt.Fprintf(&b, "%s: %s\n", s.What, s.Outcome)
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	e := engine(t, explained)
	f := func(request, addr string, c Caller, header map[string]string, want ...string) {
		t.Helper()
		got := explanation(t, e, request, addr, c, header)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s %s: want …%s…, got\n%s", request, addr, w, got)
			}
		}
		if strings.Contains(got, "jail") {
			t.Errorf("a step that is not there:\n%s", got)
		}
	}
	none := Caller{}
	level := func(n uint8) Caller { return Caller{Kind: Holder, Level: n} }
	f("GET /closed/x", "", none, page, "verdict: challenge 2\n", "answer: 503 and a page that asks for a proof of level 2\n")
	f("GET /closed/x", "", none, nil, "verdict: challenge 2\n", "answer: 503 and a line of text or JSON (a navigation would get a page) that asks for a proof of level 2\n")
	f("POST /closed/x", "", none, page, "verdict: challenge 2\n", "answer: 429 and a page that offers the proof in another tab: in the place of a POST")
	f("GET /closed/x", "", level(1), page, "holds a pass of level 1, earned by waiting", "verdict: challenge 2\n")
	f("GET /closed/x", "", level(2), page, "verdict: allow\n", "answer: the site's own\n")
	f("GET /closed/x", "", Caller{Kind: User}, page, "a user that nginx knows", "verdict: allow\n")
	f("GET /denied", "", none, page, "verdict: deny\n", "answer: 403 and a page that says no\n")
	f("GET /trapped", "", none, page, "verdict: trap\n", "answer: 429 and a page that says when to try again\n")
	f("GET /elsewhere", "", none, page, "verdict: allow\n", "answer: the site's own\n")
	f("GET /pages/x", "192.0.2.7", none, page, "render: 3 for a stranger, 24 for all of 192.0.2.0/24, 40 for all strangers together in 1m0s\n",
		"above that: 503 and a page that asks for a proof of level 1, which waiting is too\n", "verdict: meter render\n", "answer: the site's own\n")
	f("POST /pages/x", "", none, page, "above that: 429 and a page that offers the proof in another tab")
	f("GET /api/x", "", none, page, "above that: 429 and a page that says when to try again\n")
	f("GET /pages/x", "2001:db8:1:203::7", none, page, "one with all of 2001:db8:1:203::/64\n", "12 for all of 2001:db8:1:200::/56, 48 for all of 2001:db8:1::/48, 40 for")
	f("GET /pages/x.png", "", none, map[string]string{"Sec-Fetch-Dest": "image"}, "9 for a stranger (×3: a part of a page), 72 for all of 192.0.2.0/24, 120 for all strangers")
	f("GET /pages/x", "", level(1), page, "4 for a pass (of 8: it was earned by waiting), 24 for all of 192.0.2.0/24 in 1m0s\n", "above that: 429 and a page that says when")
	f("GET /pages/x", "", level(2), page, "render: 8 for a pass in 1m0s\n", "above that: 429")
	f("GET /dear/x", "", level(1), page, "a pass of level 1 counts for nothing where 2 is asked for: a stranger\n", "3 for a stranger", "asks for a proof of level 2\n")
	f("GET /pages/x", "", Caller{Kind: User}, page, "20 for a user in 1m0s\n")

	e = engine(t, `
[[meter]]
name = "repo"
window = "1m"
stranger = 3
pass = 8
per = "{1}/{2}"
[[rule]]
name = "repos"
path = "/*/*/**"
do = "meter"
meter = "repo"
`)
	f("GET /nix/store/x", "", none, page, `repo: 3 for all strangers together in 1m0s, at "nix", at "store"`)
}

// The number that an explanation names is the number of requests that are let through.
func TestExplainedLimits(t *testing.T) {
	for _, header := range []map[string]string{page, {"Sec-Fetch-Dest": "style"}} {
		for _, c := range []Caller{{}, {Kind: Holder, Level: 1, Key: 1}, {Kind: Holder, Level: 2, Key: 2}, {Kind: User, Key: 3}} {
			e := engine(t, explained)
			got := explanation(t, e, "GET /pages/x", "192.0.2.7", c, header)
			m := regexp.MustCompile(`render: (\d+) for`).FindStringSubmatch(got)
			if m == nil {
				t.Fatal(got)
			}
			n, _ := strconv.Atoi(m[1])
			a := &asks{t: t, e: e, now: start, addr: "192.0.2.7", caller: c, header: header}
			a.want(n, "GET /pages/x", "allow")
			if v := a.ask("GET /pages/x"); v.Action == Allow {
				t.Errorf("%v %v: more than the explained %d", c, header, n)
			}
		}
	}
}

func TestExplainSaysOnceWhatNginxAnswers(t *testing.T) {
	_, err := NewRequest("GET", "/%zz", "", nil)
	if err == nil || strings.Count(err.Error(), "nginx answers 400") != 1 {
		t.Error(err)
	}
}

// Step 11 is told from the configuration.
func TestExplainGate(t *testing.T) {
	f := func(gate, header string, want ...string) {
		t.Helper()
		cfg, err := config.Parse("x.toml", []byte("include = []\n[[gate]]\nname = \"g\"\n"+gate+"\n[[rule]]\nname = \"r\"\npath = \"/x/**\"\ndo = \"allow\"\ngate = \"g\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := compile(cfg, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRequest("GET", "/x/y", "", map[string]string{"Sec-Purpose": header})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, s := range p.Explain(r, 503) {
			if s.What == "11 gate" {
				said += s.Outcome
			}
		}
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("%s: no %q in: %s", gate, w, said)
			}
		}
	}
	f(`budget = 8`, "", `"g"`, "what is free of 8 requests", "waits its turn, up to 20s", "it costs 1 request", "a stranger needs a pass for more than 4 requests")
	f(`budget = "16MiB"`, "prefetch", "refused at once, for it is a prefetch", "what this path has cost before", "or 8MiB")
	f("budget = \"16MiB\"\ncost = \"file:/srv/{2}.json\"\nscale = 24", "", "the size of /srv/{2}.json times 24")
	f("budget = \"8s\"\ncost = \"header\"", "", "X-Stile-Cost", "4s")
}
