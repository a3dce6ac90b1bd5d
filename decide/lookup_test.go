package decide

import (
	"net/netip"
	"strings"
	"testing"

	"stile/config"
	"stile/crawler"
	"stile/geo"
)

// known is Lookups that have an answer for each address, and count the questions.
type known struct {
	claims map[string]string // by address, as crawler.Parse reads them
	places map[string]geo.Place
	asked  map[string]int
}

func (k *known) Crawler(agent string, a netip.Addr, _ int64) crawler.Claim {
	k.asked["crawler"]++
	if crawler.Claimed(agent) == 0 {
		return crawler.Claim{}
	}
	c, ok := crawler.Parse(k.claims[a.String()])
	if !ok {
		return crawler.Claim{State: crawler.Pending, Crawler: crawler.Claimed(agent).First()}
	}
	return c
}

func (k *known) Place(a netip.Addr) geo.Place {
	k.asked["place"]++
	return k.places[a.String()]
}

const googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// ask is the verdict for a request from an address, with a reason where it is refused.
func (k *known) ask(t *testing.T, e *Engine, line, agent, addr string, c Caller) string {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	r, err := NewRequest(method, target, addr, map[string]string{"User-Agent": agent})
	if err != nil {
		t.Fatal(err)
	}
	r.Look, r.Caller = k, c
	v := e.Decide(r, start)
	return string(v.AppendToken(nil, e.Policy().RuleName(v)))
}

func newKnown() *known {
	c, _ := geo.ParseCountry("DE")
	return &known{
		claims: map[string]string{"192.0.2.1": "google", "192.0.2.2": "spoofed:google", "192.0.2.3": "unknown:google", "192.0.2.4": "google-user", "192.0.2.5": "bing"},
		places: map[string]geo.Place{"192.0.2.1": {ASN: 64496, Country: c}, "192.0.2.2": {ASN: 64497}},
		asked:  map[string]int{},
	}
}

func TestCrawlerRules(t *testing.T) {
	e := engine(t, `[[rule]]
name = "google"
crawler = "google"
path = "/search/**"
do = "allow"
[[rule]]
name = "forged"
crawler = "spoofed"
suspect = 20
[[rule]]
name = "robots"
path = "/robots.txt"
do = "allow"
[[rule]]
name = "admin"
path = "/admin/**"
do = "deny"
[[rule]]
name = "people"
path = "/search/**"
not = { crawler = "verified" }
do = "challenge"
`)
	k := newKnown()
	f := func(line, agent, addr, want string) {
		t.Helper()
		if got := k.ask(t, e, line, agent, addr, Caller{}); got != want {
			t.Errorf("%s from %s as %.20s: %s, want %s", line, addr, agent, got, want)
		}
	}
	f("GET /search/x", googlebot, "192.0.2.1", "allow;rule=google")
	f("GET /search/x", googlebot, "192.0.2.2", "challenge;level=2;reason=demand;rule=people")
	f("GET /search/x", googlebot, "192.0.2.3", "refuse;reason=demand;retry=600;rule=people")
	f("GET /search/x", googlebot, "192.0.2.4", "refuse;reason=demand;retry=600;rule=people") // "verified" does not mean it
	f("GET /search/x", googlebot, "192.0.2.5", "allow")                                      // verified, and no rule is about it
	f("GET /search/x", firefox, "192.0.2.1", "challenge;level=1;reason=demand;rule=people")
	// Being looked up: wherever a rule would have to know, and nowhere else.
	f("GET /search/x", googlebot, "192.0.2.9", "refuse;reason=crawler;retry=10;rule=google")
	f("GET /other", googlebot, "192.0.2.9", "refuse;reason=crawler;retry=10;rule=forged")
	f("GET /admin/x", googlebot, "192.0.2.9", "refuse;reason=crawler;retry=10;rule=forged") // not a 403: it may be genuine
	f("POST /search/x", googlebot, "192.0.2.9", "refuse;reason=crawler;retry=10;rule=google")
	f("GET /search/x", firefox, "192.0.2.9", "challenge;level=1;reason=demand;rule=people")
	f("GET /robots.txt", googlebot, "192.0.2.9", "allow;rule=robots")
	f("GET /robots.txt", googlebot, "192.0.2.2", "allow;rule=robots")
	// Who has proven something, or is a user, is no crawler that must come again.
	if got := k.ask(t, e, "GET /other", googlebot, "192.0.2.9", Caller{Kind: Holder, Level: 1, Key: 1}); got != "allow" {
		t.Errorf("a pass in hand: %s", got)
	}
}

// Whoever is a crawler, or may be one, is told to come again where anybody else would be
// asked for a proof, whatever asks for it; one that is refuted is asked as anybody (C126).
func TestCrawlersAreNeverChallenged(t *testing.T) {
	rules := `
[[meter]]
name = "one"
window = "1m"
stranger = 1
pass = 1
[[gate]]
name = "g"
budget = 1
[[rule]]
name = "demand"
path = "/demand"
do = "challenge"
[[rule]]
name = "suspect"
path = "/suspect/**"
suspect = 20
[[rule]]
name = "meter"
path = ["/meter", "/suspect/meter"]
do = "meter"
meter = "one"
gate = "g"
[[rule]]
name = "never"
path = "/never"
do = "meter"
meter = "one"
proof = "never"
`
	asks := `[[rule]]
name = "who"
crawler = "unknown"
path = "/nowhere"
do = "deny"
`
	type asker struct{ agent, addr string }
	people := map[string]asker{
		"a person": {firefox, "192.0.2.1"}, "spoofed": {googlebot, "192.0.2.2"}, "unknown": {googlebot, "192.0.2.3"},
		"verified": {googlebot, "192.0.2.1"}, "pending": {googlebot, "192.0.2.9"}, "AnyAgent": {googlebot, "192.0.2.4"},
	}
	f := func(rules, who, line string, c Caller, want string) {
		t.Helper()
		e, k := engine(t, rules), newKnown()
		got := ""
		for range 3 { // the meter allows one
			got = k.ask(t, e, line, people[who].agent, people[who].addr, c)
		}
		if got, _, _ = strings.Cut(got, ";rule="); got != want {
			t.Errorf("%s, %s: %s, want %s", who, line, got, want)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		for _, who := range []string{"verified", "unknown", "AnyAgent"} {
			f(asks+rules, who, method+" /demand", Caller{}, "refuse;reason=demand;retry=600")
			f(asks+rules, who, method+" /suspect/x", Caller{}, "refuse;reason=suspicion;retry=600")
			f(asks+rules, who, method+" /suspect/meter", Caller{}, "refuse;reason=suspicion;retry=600")
			f(asks+rules, who, method+" /meter", Caller{}, "refuse;reason=meter;retry=60")
		}
		for _, path := range []string{"/demand", "/suspect/x", "/suspect/meter", "/meter"} {
			f(asks+rules, "pending", method+" "+path, Caller{}, "refuse;reason=crawler;retry=10")
		}
		for _, who := range []string{"a person", "spoofed"} {
			f(asks+rules, who, method+" /demand", Caller{}, "challenge;level=1;reason=demand")
			f(asks+rules, who, method+" /suspect/x", Caller{}, "challenge;level=2;reason=suspicion")
			f(asks+rules, who, method+" /meter", Caller{}, "challenge;level=1;reason=meter")
		}
		// Where no rule asks who it is nobody is asked, and the agent is enough.
		for _, who := range []string{"verified", "unknown", "AnyAgent", "pending", "spoofed"} {
			f(rules, who, method+" /demand", Caller{}, "refuse;reason=demand;retry=600")
			f(rules, who, method+" /meter", Caller{}, "refuse;reason=meter;retry=60")
		}
		f(rules, "a person", method+" /demand", Caller{}, "challenge;level=1;reason=demand")
	}
	// In the place of a POST there is no challenge to begin with, but an offer of one.
	f(asks+rules, "spoofed", "POST /meter", Caller{}, "refuse;reason=meter;level=1;retry=60")
	f(asks+rules, "verified", "POST /meter", Caller{}, "refuse;reason=meter;retry=60")
	// Whoever has a pass has shown that he can.
	f(asks+rules, "unknown", "GET /suspect/x", Caller{Kind: Holder, Level: 1, Key: 1}, "challenge;level=2;reason=suspicion")
	f(asks+rules, "unknown", "GET /never", Caller{}, "refuse;reason=meter;retry=60")
	// The claim is looked at where a proof is due, and nowhere else.
	e, k := engine(t, asks+rules), newKnown()
	if k.ask(t, e, "GET /meter", googlebot, "192.0.2.3", Caller{}); len(k.asked) != 0 {
		t.Errorf("a request that is let through: asked %v", k.asked)
	}
	e, k = engine(t, rules), newKnown()
	for range 3 {
		k.ask(t, e, "GET /meter", googlebot, "192.0.2.3", Caller{})
	}
	if len(k.asked) != 0 {
		t.Errorf("no rule asks who it is, but %v is asked", k.asked)
	}
}

// At a gate a stranger is asked first where it costs much; a crawler is not (C126). What is
// known is known of the request at hand, also when the same memory held another before.
func TestCrawlersAtGates(t *testing.T) {
	e := engine(t, `[[meter]]
name = "m"
window = "1m"
stranger = 100
pass = 100
[[gate]]
name = "g"
budget = 2
[[rule]]
name = "who"
crawler = "spoofed"
suspect = 10
path = "/nowhere"
[[rule]]
name = "dear"
path = "/dear"
do = "meter"
meter = "m"
gate = "g"
`)
	r, err := NewRequest("GET", "/dear", "192.0.2.3", map[string]string{"User-Agent": googlebot})
	if err != nil {
		t.Fatal(err)
	}
	r.Look = newKnown()
	f := func(agent, addr, want string) {
		t.Helper()
		r.Agent, r.Addr = agent, netip.MustParseAddr(addr)
		for range 2 { // as a request, and as one that nginx asks about again
			r.ID[0] = byte(len(agent) + int(addr[len(addr)-1]))
			v := e.Decide(r, start)
			if c, ok := e.Policy().Claim(r, v); !ok || !c.MayProve {
				t.Fatalf("%v %v", c, ok)
			}
			v = e.Policy().AskAtGate(r, v)
			if got := string(v.AppendToken(nil, "")); got != want {
				t.Errorf("%.20s from %s: %s, want %s", agent, addr, got, want)
			}
		}
	}
	f(googlebot, "192.0.2.3", "refuse;reason=gate;retry=600")
	f(firefox, "192.0.2.3", "challenge;level=1;reason=gate")
	f(googlebot, "192.0.2.1", "refuse;reason=gate;retry=600")
	f(googlebot, "192.0.2.2", "challenge;level=1;reason=gate")
	f(googlebot, "192.0.2.9", "refuse;reason=crawler;retry=10")
	// A replay may know the rule from another request than the one that is in r.
	found := e.Find(r)
	for _, q := range []struct{ agent, want string }{{googlebot, "refuse"}, {firefox, "challenge"}} {
		r.Agent, r.Addr, r.ID = q.agent, netip.MustParseAddr("192.0.2.3"), [16]byte{}
		v := e.Policy().AskAtGate(r, e.DecideFound(r, found, start))
		if v.Action.String() != q.want {
			t.Errorf("%.20s after another: %s, want %s", q.agent, v.Action, q.want)
		}
	}
}

func TestOperatorDecidesOfTheUnknown(t *testing.T) {
	e := engine(t, `[[rule]]
name = "good"
crawler = "verified"
do = "allow"
[[rule]]
name = "unknown"
crawler = ["unknown", "spoofed"]
do = "deny"
`)
	k := newKnown()
	for addr, want := range map[string]string{"192.0.2.9": "refuse;reason=deny;rule=unknown", "192.0.2.3": "refuse;reason=deny;rule=unknown", "192.0.2.1": "allow;rule=good"} {
		if got := k.ask(t, e, "GET /x", googlebot, addr, Caller{}); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// Rules that only observe make nobody wait; policies that do not ask are never answered.
func TestNobodyWaitsForNothing(t *testing.T) {
	k := newKnown()
	e := engine(t, "[[rule]]\nname = 'a'\ncrawler = 'google'\nmode = 'observe'\ndo = 'deny'\n")
	if got := k.ask(t, e, "GET /x", googlebot, "192.0.2.9", Caller{}); got != "allow" {
		t.Errorf("observing: %s", got)
	}
	k = newKnown()
	e = engine(t, "[[rule]]\nname = 'a'\nagent = 'Googlebot'\ndo = 'allow'\n")
	if got := k.ask(t, e, "GET /x", googlebot, "192.0.2.9", Caller{}); got != "allow;rule=a" || len(k.asked) != 0 {
		t.Errorf("%s, and asked %v", got, k.asked)
	}
}

// Each fact is looked up when a rule that is otherwise right needs it, and once.
func TestLookupsAreLazy(t *testing.T) {
	e := engine(t, `[geo]
file = "/x"
[[rule]]
name = "a"
path = "/search/**"
asn = 1
do = "deny"
[[rule]]
name = "b"
path = "/search/**"
country = "FR"
not = { crawler = "google" }
do = "deny"
[[rule]]
name = "c"
path = "/search/**"
country = "DE"
asn = [64495, 64496, 64497]
not = { crawler = "google" }
do = "deny"
`)
	k := newKnown()
	f := func(line, addr, agent, want string, places, crawlers int) {
		t.Helper()
		k.asked = map[string]int{}
		if got := k.ask(t, e, line, agent, addr, Caller{}); got != want || k.asked["place"] != places || k.asked["crawler"] != crawlers {
			t.Errorf("%s from %s: %s, asked %v; want %s, %d, %d", line, addr, got, k.asked, want, places, crawlers)
		}
	}
	f("GET /other", "192.0.2.1", firefox, "allow", 0, 0)
	f("GET /search/x", "192.0.2.1", firefox, "refuse;reason=deny;rule=c", 1, 1)
	f("GET /search/x", "192.0.2.1", googlebot, "allow", 1, 1)
	f("GET /search/x", "192.0.2.2", googlebot, "allow", 1, 0) // not of that country, so nobody asks who it is
	f("GET /search/x", "198.51.100.1", firefox, "allow", 1, 0)
	f("GET /search/a%2Fb;c", "192.0.2.1", firefox, "refuse;reason=deny;rule=c", 1, 1) // several readings
}

func TestExpectationsNeedNoDNS(t *testing.T) {
	c, err := config.Parse("stile.toml", []byte(`include = []
[geo]
file = "/nowhere.mmdb"
[[rule]]
name = "google"
crawler = "google"
do = "allow"
[[rule]]
name = "forged"
crawler = "spoofed"
do = "deny"
[[rule]]
name = "unknown"
crawler = "unknown"
country = "DE"
asn = 64496
do = "challenge"
[[rule]]
name = "rest"
path = "/**"
do = "trap"
[[expect]]
request = "GET /x"
crawler = "google"
verdict = "allow"
[[expect]]
request = "GET /x"
crawler = "spoofed"
verdict = "deny"
[[expect]]
request = "GET /x"
crawler = "unknown"
country = "DE"
asn = 64496
verdict = "challenge"
[[expect]]
request = "GET /x"
agent = "bingbot"
country = "DE"
asn = 64496
verdict = "challenge"
[[expect]]
request = "GET /x"
country = "DE"
verdict = "trap"
`))
	if err != nil {
		t.Fatal(err)
	}
	if failed := Expectations(c); len(failed) > 0 {
		t.Error(failed)
	}
}

func TestExplainSaysWhoAndWhere(t *testing.T) {
	e := engine(t, "[geo]\nfile = '/x'\n[[rule]]\nname = 'a'\ncrawler = 'google'\nasn = 64496\ncountry = 'DE'\ndo = 'allow'\n[[rule]]\nname = 'b'\ncrawler = 'bing'\ndo = 'deny'\n")
	k := newKnown()
	f := func(agent, addr string, look Lookups, crawler crawler.Claim, want ...string) {
		t.Helper()
		r, err := NewRequest("GET", "/x", addr, map[string]string{"User-Agent": agent})
		if err != nil {
			t.Fatal(err)
		}
		r.Look, r.Crawler = look, crawler
		var b strings.Builder
		for _, s := range e.Policy().Explain(r, 503) {
			b.WriteString(s.What + ": " + s.Outcome + "\n")
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s from %s:\n%swant %q", agent, addr, b.String(), w)
			}
		}
	}
	bing := crawler.Claim{State: crawler.Verified, Crawler: crawler.Find("bing")}
	f(googlebot, "192.0.2.1", k, crawler.Claim{}, "2 crawler: verified: google", "2 asn: 64496", "2 country: DE", "verdict: allow")
	f(googlebot, "192.0.2.7", nil, crawler.Claim{}, "2 crawler: says it is google: unknown, not looked up: --crawler verified:google", "2 asn: not known: --asn NUMBER to assume", "2 country: not known", `rule "a": no: its asn does not hold`)
	f(firefox, "192.0.2.1", k, crawler.Claim{}, "names no crawler that is known", `rule "a": no: its crawler does not hold`)
	f(googlebot, "192.0.2.1", k, bing, "verified: bing", "verdict: deny")
	f("bingbot", "192.0.2.9", k, crawler.Claim{}, "2 crawler: pending", `rule "b" has to know who it is`, "verdict: refuse", "503 and a line of text")
	// Where it would be asked for a proof, it is said why it is not.
	e = engine(t, "[[rule]]\nname = 'a'\ncrawler = 'spoofed'\nsuspect = 20\npath = '/y'\n[[rule]]\nname = 'b'\npath = '/x'\ndo = 'challenge'\nlevel = 2\n")
	f(googlebot, "192.0.2.1", k, crawler.Claim{}, "a program cannot prove anything", "verdict: challenge 2", "answer: 429 and a line of text or JSON (a navigation would get a page) that says when to try again")
	f(googlebot, "192.0.2.2", k, crawler.Claim{}, "2 crawler: spoofed", "verdict: challenge 2", "answer: 503 and a line of text or JSON (a navigation would get a page) that asks for a proof of level 2")
	f(googlebot, "192.0.2.9", k, crawler.Claim{}, "2 crawler: pending", "answer: 503 and a line of text or JSON (a navigation would get a page) that says when to try again")
	e = engine(t, "[[rule]]\nname = 'b'\npath = '/x'\ndo = 'challenge'\n")
	f(googlebot, "192.0.2.2", k, crawler.Claim{}, "a program cannot prove anything", "answer: 429")
}
