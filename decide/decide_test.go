package decide

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stile/config"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	second  = int64(time.Second)
	start   = int64(1_800_000_000) * second
)

// engine compiles a configuration that has no preset in it.
func engine(t testing.TB, toml string) *Engine {
	t.Helper()
	cfg, err := config.Parse("test.toml", []byte("include = []\n"+toml))
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// asks is one client that sends requests.
type asks struct {
	t      testing.TB
	e      *Engine
	now    int64
	addr   string
	caller Caller
	header map[string]string
}

// asked numbers the requests of all clients: each has a request id of its own.
var asked atomic.Uint64

// verdict sends "METHOD /target", and says what became of it: "allow", "challenge 2", "refuse meter".
func (a *asks) verdict(request string) string {
	a.t.Helper()
	v := a.ask(request)
	switch v.Action {
	case Challenge:
		return fmt.Sprintf("challenge %d", v.Level)
	case Refuse:
		return "refuse " + v.Reason.String()
	}
	return "allow"
}

func (a *asks) ask(request string) Verdict {
	a.t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r, err := NewRequest(method, target, a.addr, a.header)
	if err != nil {
		a.t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(r.ID[:], asked.Add(1))
	r.Caller = a.caller
	return a.e.Decide(r, a.now)
}

// want sends a request n times and expects each time the same.
func (a *asks) want(n int, request, want string) {
	a.t.Helper()
	for i := 1; i <= n; i++ {
		if got := a.verdict(request); got != want {
			a.t.Fatalf("%s, time %d from %s: %s, want %s", request, i, a.addr, got, want)
		}
	}
}

func client(t testing.TB, e *Engine) *asks { return &asks{t: t, e: e, now: start, addr: "192.0.2.1"} }

const meterTOML = `
[[meter]]
name = "render"
window = "1m"
stranger = 3
pass = 6
user = 9
[[rule]]
name = "render"
path = "/r/**"
do = "meter"
meter = ["render"]
`

func TestMeterByCaller(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	a.want(3, "GET /r/x", "allow")
	a.want(3, "GET /r/x", "challenge 1")
	a.want(1, "POST /r/x", "refuse meter")
	a.want(5, "GET /free", "allow")

	other := client(t, e)
	other.addr = "192.0.2.2"
	other.want(3, "GET /r/x", "allow")

	pass := client(t, e)
	pass.caller = Caller{Kind: Holder, Level: 2, Key: 7}
	pass.want(6, "GET /r/x", "allow")
	pass.want(1, "GET /r/x", "refuse meter") // never a challenge
	roaming := *pass
	roaming.addr = "198.51.100.9"
	roaming.want(1, "GET /r/x", "refuse meter") // the meter follows the pass

	waited := client(t, e)
	waited.caller = Caller{Kind: Holder, Level: 1, Key: 8}
	waited.want(3, "GET /r/x", "allow") // half of a pass's budget, and no less than a stranger's
	waited.want(1, "GET /r/x", "refuse meter")

	user := client(t, e)
	user.caller = Caller{Kind: User, Key: 9}
	user.want(9, "GET /r/x", "allow")
	user.want(1, "GET /r/x", "refuse meter")

	a.now += 60 * second
	a.want(3, "GET /r/x", "allow")
}

func TestRefusedCostsNothing(t *testing.T) {
	e := engine(t, `
[[meter]]
name = "minute"
window = "1m"
stranger = 2
pass = 20
[[meter]]
name = "day"
window = "24h"
stranger = 5
pass = 50
[[rule]]
name = "both"
path = "/**"
do = "meter"
meter = ["day", "minute"]
`)
	a := client(t, e)
	for range 2 {
		a.want(2, "GET /", "allow")
		a.want(10, "GET /", "challenge 1")
		a.now += 60 * second
	}
	a.want(1, "GET /", "allow") // the fifth of the day, although 20 were turned away
	a.want(1, "GET /", "challenge 1")
}

// C006: nginx asks again for internal redirects of one request.
func TestOneChargePerRequestID(t *testing.T) {
	e := engine(t, meterTOML)
	for i := range 3 {
		r, _ := NewRequest("GET", "/r/x", "192.0.2.1", nil)
		r.ID[0] = byte(i + 1)
		for n := range 4 {
			if v := e.Decide(r, start+int64(i)*second); v.Action != Allow || v.Again != (n > 0) {
				t.Fatalf("request %d: %v", i, v)
			}
		}
	}
	r, _ := NewRequest("GET", "/r/x", "192.0.2.1", nil)
	r.ID[0] = 9
	for range 3 {
		if v := e.Decide(r, start+4*second); v.Action != Challenge {
			t.Fatal("the fourth request is not limited")
		}
	}
	// Without an id each call is a request.
	r.ID = [16]byte{}
	r.From, r.Addr = 77, r.Addr.Next()
	for i := range 4 {
		if v := e.Decide(r, start); (v.Action == Allow) != (i < 3) {
			t.Errorf("without an id, call %d: %v", i, v)
		}
	}
}

func TestIPv6IsCountedBySixtyFour(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	for i := range 3 {
		a.addr = fmt.Sprintf("2001:db8::%x", i+1)
		a.want(1, "GET /r/x", "allow")
	}
	a.addr = "2001:db8::ffff"
	a.want(1, "GET /r/x", "challenge 1")
	a.addr = "2001:db8:0:1::1"
	a.want(1, "GET /r/x", "allow")
	a.addr = "::ffff:203.0.113.5"
	a.want(2, "GET /r/x", "allow")
	a.addr = "203.0.113.5"
	a.want(1, "GET /r/x", "allow")
	a.want(1, "GET /r/x", "challenge 1")
}

func TestNetworksAround(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	allowed := 0
	for i := range 60 {
		a.addr = fmt.Sprintf("198.51.100.%d", i+1)
		if a.verdict("GET /r/x") == "allow" {
			allowed++
		}
	}
	if allowed != 3*int(wideFactor.v4) {
		t.Errorf("a /24 had %d requests, want %d", allowed, 3*wideFactor.v4)
	}
	if v := a.ask("GET /r/x"); v.Reason != Wide || v.Action != Challenge {
		t.Errorf("beyond it: %v", v)
	}
	allowed = 0
	for i := range 200 {
		a.addr = fmt.Sprintf("2001:db8:1:%x::1", i*256) // one /56 each
		if a.verdict("GET /r/x") == "allow" {
			allowed++
		}
	}
	if allowed != 3*int(wideFactor.v48) {
		t.Errorf("a /48 had %d requests, want %d", allowed, 3*wideFactor.v48)
	}
}

func TestAllStrangersTogether(t *testing.T) {
	e := engine(t, strings.Replace(meterTOML, "stranger = 3", "stranger = 3\nstrangers = 10", 1))
	a := client(t, e)
	// One host alone cannot use up what all have together.
	for range 100 {
		a.verdict("GET /r/x")
	}
	for i := range 7 {
		a.addr = fmt.Sprintf("10.0.%d.1", i)
		a.want(1, "GET /r/x", "allow")
	}
	a.addr = "10.1.0.1"
	if v := a.ask("GET /r/x"); v.Action != Challenge || v.Reason != Collective {
		t.Errorf("above the ceiling: %v", v)
	}
	pass := client(t, e)
	pass.caller = Caller{Kind: Holder, Level: 2, Key: 5}
	pass.want(6, "GET /r/x", "allow")
	a.now += 60 * second
	a.want(1, "GET /r/x", "allow")
}

func TestProofNever(t *testing.T) {
	e := engine(t, meterTOML+"proof = \"never\"\n")
	a := client(t, e)
	a.want(3, "GET /r/x", "allow")
	v := a.ask("GET /r/x")
	if v.Action != Refuse || v.Unsafe || v.Retry == 0 || v.Retry > 60 {
		t.Errorf("a machine client over its limit: %+v", v)
	}
}

func TestPartsHaveSlack(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	a.want(3, "GET /r/x", "allow")
	a.header = map[string]string{"Sec-Fetch-Dest": "image"}
	a.want(6, "GET /r/x", "allow")
	a.want(1, "GET /r/x", "challenge 1")
	a.header = map[string]string{"Sec-Fetch-Dest": "document"}
	a.want(1, "GET /r/x", "challenge 1") // the next navigation is asked
}

func TestPart(t *testing.T) {
	f := func(want bool, host string, header ...string) {
		t.Helper()
		h := map[string]string{"Host": host}
		for i := 0; i < len(header); i += 2 {
			h[header[i]] = header[i+1]
		}
		r, err := NewRequest("GET", "/x", "", h)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.part(); got != want {
			t.Errorf("%s %q: part is %v", host, header, got)
		}
	}
	const html = "text/html,application/xhtml+xml,*/*;q=0.8"
	f(true, "site.example", "Sec-Fetch-Dest", "image")
	f(true, "site.example", "Sec-Fetch-Dest", "empty", "Accept", "*/*")
	f(false, "site.example", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "navigate", "Accept", html) // through a service worker
	f(false, "site.example", "Sec-Fetch-Dest", "document", "Accept", "*/*", "Referer", "https://site.example/")
	f(true, "site.example", "Accept", "image/webp,*/*")
	// Over plain http browsers do not say what a request is for.
	f(true, "site.example", "Accept", "*/*", "Referer", "http://site.example/page?x")
	f(true, "site.example", "Accept", "application/json", "Referer", "http://SITE.example:8080")
	f(true, "[::1]", "Accept", "*/*", "Referer", "http://[::1]:8080/")
	f(true, "site.example:80", "Accept", "*/*", "Referer", "https://site.example?x")
	f(false, "site.example", "Accept", html, "Referer", "http://site.example/page") // a link
	f(false, "site.example", "Accept", "*/*")                                       // a program
	f(false, "site.example", "Accept", "*/*", "Referer", "http://other.example/site.example")
	f(false, "site.example", "Accept", "*/*", "Referer", "http://site.example.org/")
	f(false, "site.example", "Accept", "*/*", "Referer", "http://site.example@other.example/")
	f(false, "site.example", "Accept", "*/*", "Referer", "/page")
	f(false, "", "Accept", "*/*", "Referer", "http:///")
	f(false, "[::1]", "Accept", "*/*", "Referer", "http://[::2]/")
}

func TestPer(t *testing.T) {
	e := engine(t, strings.Replace(meterTOML, "stranger = 3", "stranger = 3\nper = \"caller {2}\"", 1))
	a := client(t, e)
	a.want(3, "GET /r/one/x", "allow")
	a.want(1, "GET /r/one/y", "challenge 1")
	a.want(3, "GET /r/two/x", "allow")

	e = engine(t, strings.Replace(meterTOML, "stranger = 3", "stranger = 3\nper = \"{2}\"", 1))
	a = client(t, e)
	for i := range 3 {
		a.addr = fmt.Sprintf("10.0.%d.1", i)
		a.want(1, "GET /r/one/x", "allow")
	}
	a.addr = "10.0.9.1"
	a.want(1, "GET /r/one/x", "challenge 1") // a pool of strangers
	a.want(1, "GET /r/two/x", "allow")
	for i := range 6 {
		a.caller = Caller{Kind: Holder, Level: 2, Key: uint64(i + 1)}
		a.want(1, "GET /r/one/x", "allow") // a pool of the proven
	}
	a.caller.Key = 99
	a.want(1, "GET /r/one/x", "refuse meter")
}

func TestSegment(t *testing.T) {
	f := func(path string, n int, want string) {
		t.Helper()
		if got := segment(path, n); got != want {
			t.Errorf("segment(%q, %d) = %q, want %q", path, n, got, want)
		}
	}
	f("/a/bc/d", 1, "a")
	f("/a/bc/d", 2, "bc")
	f("/a/bc/d", 3, "d")
	f("/a/bc/d", 4, "")
	f("/a/", 2, "")
	f("/", 1, "")
	f("", 1, "")
}

const rulesTOML = `
[[rule]]
name = "bad"
agent = "EvilBot"
do = "deny"
[[rule]]
name = "pot"
path = "/pot"
do = "trap"
[[rule]]
name = "odd"
header = { "Accept-Language" = "~^$" }
suspect = 10
[[rule]]
name = "static"
path = "/static/**"
do = "allow"
[[rule]]
name = "locked"
path = "/locked/**"
do = "challenge"
level = 2
[[rule]]
name = "heavy"
path = ["/heavy", "/heavy/**"]
method = ["GET"]
do = "deny"
`

func TestOrder(t *testing.T) {
	e := engine(t, rulesTOML)
	a := client(t, e)
	a.header = map[string]string{"Accept-Language": "en", "User-Agent": firefox}
	a.want(1, "GET /", "allow")
	a.want(1, "GET /pot", "refuse trap")
	a.want(1, "GET /static/x", "allow")
	a.want(1, "GET /locked/x", "challenge 2")
	a.want(1, "HEAD /locked/x", "challenge 2")
	a.want(1, "POST /locked/x", "refuse demand")
	a.want(1, "HEAD /heavy", "refuse deny") // GET implies HEAD
	a.want(1, "POST /heavy", "allow")
	a.caller = Caller{Kind: Holder, Level: 1, Key: 1}
	a.want(1, "GET /locked/x", "challenge 2")
	a.caller.Level = 3
	a.want(1, "GET /locked/x", "allow") // a higher level satisfies a lower demand
	a.caller = Caller{Kind: User, Key: 1}
	a.want(1, "GET /locked/x", "allow")

	a = client(t, e) // without Accept-Language: suspect
	a.want(1, "GET /", "challenge 1")
	a.want(1, "GET /static/x", "allow") // allow skips suspicion
	a.want(1, "POST /", "refuse suspicion")
	a.header = map[string]string{"User-Agent": "x evilbot/1.0"}
	a.want(1, "GET /static/x", "refuse deny")
}

// C026, C027: where decoding changes the segments an exemption must hold for every
// reading, a restriction for any.
func TestReadings(t *testing.T) {
	e := engine(t, rulesTOML)
	a := client(t, e)
	a.header = map[string]string{"Accept-Language": "en"}
	for _, target := range []string{
		"/heavy", "/%68eavy", "//heavy", "/./heavy", "/static/../heavy", "/static/%2e%2e/heavy", "/heavy/x", "/heavy%2Fx",
		"/static%2f..%2fheavy/x", "/static/..;/heavy", "/static/..%5cheavy", `/static/..\heavy`, "/heavy;x=1", "/heavy;x=1/y", "/heavy?/static/x",
		"/heavy#/static/", "/static/..%252fheavy",
	} {
		a.want(1, "GET "+target, "refuse deny")
	}
	for _, target := range []string{"/static/x", "/static/a;b", "/static/a%2fb", "//static//x"} {
		if got := a.verdict("GET " + target); got != "allow" {
			t.Errorf("%s: %s", target, got)
		}
	}
}

func TestObserve(t *testing.T) {
	e := engine(t, `
[[rule]]
name = "trial"
path = "/x/**"
do = "deny"
mode = "observe"
[[rule]]
name = "real"
path = "/x/closed"
do = "deny"
`)
	a := client(t, e)
	a.want(4, "GET /x/open", "allow")
	a.want(1, "GET /x/closed", "refuse deny")
	found := map[string][2]uint64{}
	e.Policy().Rules(func(name string, hits, would uint64) { found[name] = [2]uint64{hits, would} })
	if found["trial"] != [2]uint64{5, 5} || found["real"] != [2]uint64{1, 0} {
		t.Error(found)
	}
}

func TestReloadKeepsCounts(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	a.want(3, "GET /r/x", "allow")
	cfg, err := config.Parse("test.toml", []byte("include = []\n"+meterTOML+"\n[[rule]]\nname = \"new\"\npath = \"/n\"\ndo = \"deny\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	a.want(1, "GET /r/x", "challenge 1")
	a.want(1, "GET /n", "refuse deny")
	hits := uint64(0)
	e.Policy().Rules(func(name string, found, _ uint64) {
		if name == "render" {
			hits = found
		}
	})
	if hits != 4 {
		t.Errorf("the rule's count after a reload is %d, want 4", hits)
	}
}

func TestClockStepsBack(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	a.want(3, "GET /r/x", "allow")
	a.now -= 3600 * second
	for range 10 {
		a.verdict("GET /r/x")
	}
	a.now += 120 * second
	a.want(1, "GET /r/x", "allow") // nobody is locked out for the hour
}

func TestVerdictToken(t *testing.T) {
	for _, v := range []Verdict{
		{Action: Allow, Reason: Metered},
		{Action: Challenge, Reason: Demand, Level: 2},
		{Action: Refuse, Reason: Meter, Retry: 17},
		{Action: Refuse, Reason: Demand, Retry: 1, Level: 1, Unsafe: true},
		{Action: Refuse, Reason: Gate, Retry: 3},
		{Action: Refuse, Reason: Deny},
	} {
		text := string(v.AppendToken(nil, "a; rule=x"))
		got, rule, ok := ParseToken(text)
		if v.Action == Allow {
			v.Reason = 0
		}
		if !ok || got != v || rule != "a; rule=x" {
			t.Errorf("%s: %+v %q %v", text, got, rule, ok)
		}
	}
	for _, bad := range []string{"", "x", "allowed", "challenge;level=4", "challenge;level=", "refuse;reason=x", "refuse;retry=-1", "challenge;x=1"} {
		if v, _, ok := ParseToken(bad); ok {
			t.Errorf("%q is taken for %+v", bad, v)
		}
	}
}

func TestNavigation(t *testing.T) {
	f := func(want bool, header ...string) {
		t.Helper()
		m := map[string]string{}
		for _, h := range header {
			k, v, _ := strings.Cut(h, ": ")
			m[k] = v
		}
		r, err := NewRequest("GET", "/", "", m)
		if err != nil {
			t.Fatal(err)
		}
		if got := Navigation(&r.Header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
	f(true, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
	f(true, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe")
	f(true, "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
	f(true, "Accept: application/xhtml+xml")
	f(true, "Accept: image/webp, TEXT/HTML ;q=0.5")
	f(false, "Sec-Fetch-Mode: cors", "Accept: text/html")
	f(false, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: object")
	f(false, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch")
	f(false, "Accept: */*")
	f(false)
	f(false, "Accept: text/html;q=0")
	f(false, "Accept: text/html", "X-Requested-With: XMLHttpRequest")
	f(false, "Accept: text/html", "HX-Request: true")
	f(false, "Accept: text/html", "Turbo-Frame: x")
	f(false, "Accept: text/html", "Range: bytes=500-")
	f(false, "Accept: text/html", "Upgrade: websocket")
	f(true, "Accept: text/html", "Upgrade: h2c")
	f(false, "Accept: text/event-stream")

	// A service worker of the site's hands the navigation on: as it is, made anew, or as a request like any other.
	const html = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	f(true, html, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: empty", "Upgrade-Insecure-Requests: 1")
	f(true, html, "Sec-Fetch-Mode: same-origin", "Sec-Fetch-Dest: empty", "Upgrade-Insecure-Requests: 1")
	f(false, html, "Sec-Fetch-Mode: same-origin", "Sec-Fetch-Dest: empty")
	f(false, "Accept: */*", "Sec-Fetch-Mode: same-origin", "Sec-Fetch-Dest: empty", "Upgrade-Insecure-Requests: 1")
	f(false, html, "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Upgrade-Insecure-Requests: 1")
	f(false, html, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: empty", "Sec-Purpose: prefetch")
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := Reason(0); r < Reasons; r++ {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d: name %q", r, r)
		}
		seen[r.String()] = true
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("challenge;level=2;rule=x")
	f.Add("refuse;reason=meter;retry=17")
	f.Fuzz(func(t *testing.T, s string) {
		v, rule, ok := ParseToken(s)
		if ok && (v.Level > 3 || v.Reason >= Reasons || v.Action >= actions) {
			t.Errorf("%q: %+v %q", s, v, rule)
		}
	})
}

// Whoever says that he only loads parts of pages keeps nobody from pages.
func TestPartsUseUpOnlyParts(t *testing.T) {
	e := engine(t, strings.Replace(meterTOML, "stranger = 3", "stranger = 3\nstrangers = 10", 1))
	a := client(t, e)
	a.header = map[string]string{"Sec-Fetch-Dest": "image"}
	for i := range 40 {
		a.addr = fmt.Sprintf("10.0.%d.1", i)
		for range 9 {
			a.verdict("GET /r/x")
		}
	}
	if v := a.ask("GET /r/x"); v.Reason != Meter && v.Reason != Collective {
		t.Errorf("parts are not limited: %v", v)
	}
	reader := client(t, e)
	reader.addr = "203.0.113.1"
	reader.want(3, "GET /r/x", "allow")
}

// The owner of many addresses who waits in each has no more than its network as strangers.
func TestWaitedPassesCountInTheNetworkAround(t *testing.T) {
	e := engine(t, meterTOML)
	a := client(t, e)
	allowed := 0
	for i := range 100 {
		a.addr = fmt.Sprintf("2001:db8:1:%x::1", i) // of one /56
		a.caller = Caller{Kind: Holder, Level: 1, Key: uint64(i) + 1}
		for range 3 {
			if a.verdict("GET /r/x") == "allow" {
				allowed++
			}
		}
	}
	if allowed != 3*int(wideFactor.v56) {
		t.Errorf("%d requests, want %d", allowed, 3*wideFactor.v56)
	}
	a.caller = Caller{Kind: Holder, Level: 2, Key: 9999}
	a.want(6, "GET /r/x", "allow")
}
