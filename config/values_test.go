package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	good := func(s string, want time.Duration) {
		t.Helper()
		if d, err := parseDuration(s); err != nil || d != want {
			t.Errorf("%q: %v %v, want %v", s, d, err, want)
		}
	}
	bad := func(s string) {
		t.Helper()
		if d, err := parseDuration(s); err == nil {
			t.Errorf("%q: %v", s, d)
		}
	}
	good("60s", time.Minute)
	good("100ms", 100*time.Millisecond)
	good("1h30m", 90*time.Minute)
	good("0.5s", 500*time.Millisecond)
	good("30d", 720*time.Hour)
	good("1d12h", 36*time.Hour)
	if d, err := parseDuration("99999999999999999999d"); err != nil || d < 1<<60 {
		t.Errorf("%v %v: an absurd one is long, not negative", d, err)
	}
	bad("")
	bad("60")
	bad("s")
	bad("-5s")
	bad("+5s")
	bad("1 m")
	bad("1m ")
	bad("60sec")
	bad("5us")
	bad("1..5s")
	bad("nan")
	bad("1e3s")
	bad("1w")
	for d, want := range map[time.Duration]string{time.Minute: "1m", 90 * time.Second: "90s", 720 * time.Hour: "30d", 100 * time.Millisecond: "100ms", 7 * 24 * time.Hour: "7d", 0: "0s"} {
		if got := short(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestPrefix(t *testing.T) {
	good := func(s, want string) {
		t.Helper()
		if p, why := parsePrefix(s); why != "" || p != netip.MustParsePrefix(want) {
			t.Errorf("%q: %v %s, want %s", s, p, why, want)
		}
	}
	bad := func(s, want string) {
		t.Helper()
		if _, why := parsePrefix(s); !strings.Contains(why, want) || why == "" {
			t.Errorf("%q: %q, want …%s…", s, why, want)
		}
	}
	good("192.0.2.0/24", "192.0.2.0/24")
	good("192.0.2.7", "192.0.2.7/32")
	good("0.0.0.0/0", "0.0.0.0/0")
	good("2001:db8::/32", "2001:db8::/32")
	good("2001:DB8::1", "2001:db8::1/128")
	good("::ffff:192.0.2.7", "192.0.2.7/32")
	good("::ffff:192.0.2.0/120", "192.0.2.0/24")
	good("::ffff:0.0.0.0/96", "0.0.0.0/0")
	good("64:ff9b::192.0.2.7", "192.0.2.7/32")
	good("64:ff9b::192.0.2.0/120", "192.0.2.0/24")
	good("64:ff9b:1::/48", "64:ff9b:1::/48")
	good("64:ff9b::/32", "64:ff9b::/32")
	good("::/0", "::/0")
	bad("192.0.2.7/24", `want "192.0.2.0/24" for the network, or "192.0.2.7" for the one address`)
	bad("::ffff:192.0.2.7/120", `want "192.0.2.0/24"`)
	bad("::ffff:0.0.0.0/80", "want an address or a network")
	bad("64:ff9b::192.0.2.7/120", `want "192.0.2.0/24"`)
	bad("64:ff9b::/96", `want those, such as "192.0.2.0/24"`)
	bad("64:ff9b::/64", `want those, such as "192.0.2.0/24"`)
	bad("192.0.2.0/255.255.255.0", `"192.0.2.0/24"`)
	bad("fe80::1%eth0", "want an address")
	bad("192.0.2", "want an address")
	bad("192.0.2.0/", "want an address")
	bad("192.0.2.0/024", "want an address")
	bad("/24", "want an address")
	bad("", "want an address")
}

func TestNearest(t *testing.T) {
	f := func(typed, want string) {
		t.Helper()
		if got := nearest(typed, known["rule"]); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	f("pth", "path")
	f("paht", "path")
	f("Path", "path")
	f("methods", "method")
	f("headers", "header")
	f("netwrok", "network")
	f("user-agent", "")
	f("x", "")
	f("", "")
	f(strings.Repeat("path", 1000), "")
}

// Every value that a file can set, once.
func TestValues(t *testing.T) {
	c, err := Parse("stile.toml", []byte(`
mode = "observe"
include = []
[listen]
check = "127.0.0.1:9405"
admin = "unix:/run/stile/admin.sock"
group = "web-1"
[key]
file = "/etc/stile/key"
[pass]
cookie = "p"
lifetime = "30d"
bind = "network"
per_network_day = 5
[state]
dir = "/srv/stile/"
keys = 1024
[challenge]
kind = "pow"
status = 429
target = "100ms"
title = "Ein Garten"
logo = "data:image/svg+xml;base64,PHN2Zy8+"
contact = "garten@example.org"
[[meter]]
name = "a"
window = "1s"
stranger = 1
pass = 2
user = 3
strangers = 4
per = "caller {2}"
[[meter]]
name = "b"
window = "7d"
stranger = 10
pass = 10_000_000
per = "{1}/{2}"
[[rule]]
name = "first"
host = "example.org"
path = ["/a", "~^/b$"]
query = "q=*"
method = ["GET", "POST"]
agent = "bot"
network = ["192.0.2.0/24", "::ffff:198.51.100.0/120"]
do = "meter"
meter = ["b", "a"]
level = 3
mode = "observe"
[rule.header]
referer = "example.com"
Accept = ["text/html", "~^$"]
[rule.not]
method = "HEAD"
header.Origin = "~."
[[rule]]
name = "second"
path = "/c"
do = "challenge"
[[rule]]
name = "third"
suspect = 100
[[rule]]
name = "fourth"
path = "/trap"
do = "trap"
[[expect]]
request = "GET /c?x=1"
host = "example.org"
agent = "x"
addr = "::ffff:192.0.2.1"
header = { ACCEPT = "*/*" }
verdict = "challenge"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Mode = Observe
	want.Listen.Check, want.Listen.Admin = "127.0.0.1:9405", "unix:/run/stile/admin.sock"
	want.Listen.Group = "web-1"
	want.Key.File = "/etc/stile/key"
	want.Pass.Cookie, want.Pass.Lifetime, want.Pass.Bind, want.Pass.PerNetworkDay = "p", 720*time.Hour, BindNetwork, 5
	want.State.Dir, want.State.Keys = "/srv/stile", 1024
	want.Challenge.Status, want.Challenge.Target, want.Challenge.Title = 429, 100*time.Millisecond, "Ein Garten"
	want.Challenge.Logo, want.Challenge.Contact = "data:image/svg+xml;base64,PHN2Zy8+", "garten@example.org"
	want.Files = []string{"stile.toml"}
	want.Meters = []Meter{
		{"a", time.Second, 1, 2, 3, 4, Per{true, []int{2}}, Pos{"stile.toml", 25}},
		{"b", 7 * 24 * time.Hour, 10, 10_000_000, 0, 0, Per{false, []int{1, 2}}, Pos{"stile.toml", 33}},
	}
	want.Rules = []Rule{
		{Name: "first", Do: MeterAction, Meters: []int{1, 0}, Level: 3, Mode: Observe, Pos: Pos{"stile.toml", 39}, Match: Match{
			Host: []string{"example.org"}, Path: []string{"/a", "~^/b$"}, Query: []string{"q=*"}, Agent: []string{"bot"},
			Method:  []string{"GET", "POST", "HEAD"},
			Header:  []HeaderMatch{{"Accept", []string{"text/html", "~^$"}}, {"Referer", []string{"example.com"}}},
			Network: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")},
			Not:     &Match{Method: []string{"HEAD"}, Header: []HeaderMatch{{"Origin", []string{"~."}}}},
		}},
		{Name: "second", Do: Challenge, Level: 1, Pos: Pos{"stile.toml", 57}, Match: Match{Path: []string{"/c"}}},
		{Name: "third", Do: Suspect, Suspect: 100, Level: 1, Pos: Pos{"stile.toml", 61}},
		{Name: "fourth", Do: Trap, Level: 1, Pos: Pos{"stile.toml", 64}, Match: Match{Path: []string{"/trap"}}},
	}
	want.Expects = []Expect{{Method: "GET", Target: "/c?x=1", Agent: "x", Addr: "192.0.2.1", Header: map[string]string{"Host": "example.org", "Accept": "*/*"}, Verdict: "challenge", Pos: Pos{"stile.toml", 68}}}
	if diff := difference(c, want); diff != "" {
		t.Error(diff)
	}
}

func TestHeaders(t *testing.T) {
	if slices.Contains(Headers[:], "") {
		t.Error("a place has no name")
	}
}

// What a rule above takes, and what it leaves.
func TestCovers(t *testing.T) {
	m := func(text string) *Match {
		t.Helper()
		c, err := Parse("x", []byte("include = []\n[[rule]]\nname = \"x\"\ndo = \"deny\"\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return &c.Rules[0].Match
	}
	f := func(above, below string, want bool) {
		t.Helper()
		if got := m(above).covers(m(below)); got != want {
			t.Errorf("%q above %q: %v, want %v", above, below, got, want)
		}
	}
	f(``, ``, true)
	f(``, `path = "/a"`, true)
	f(`path = "/**"`, ``, true)
	f(`path = "/**"`, `agent = "x"`, true)
	f(`path = "/a"`, ``, false)
	f(`path = ["/a", "/b"]`, `path = "/b"`, true)
	f(`path = "/a"`, `path = ["/a", "/b"]`, false)
	f(`path = "/a/**"`, `path = "/a/b"`, true)
	f(`path = "/a/**"`, `path = "/a/*/c"`, true)
	f(`path = "/a/**"`, `path = "/a/"`, true)
	f(`path = "/a/**"`, `path = "/a"`, false)
	f(`path = "/a/**"`, `path = "/a*/x"`, false)
	f(`path = "/a/**"`, `path = "/ab/c"`, false)
	f(`path = "/a/**"`, `path = "~^/a/b"`, false)
	f(`path = "/*/**"`, `path = "/a/b"`, false)
	f(`path = "/a"`, `path = "/a"`+"\n"+`method = "GET"`, true)
	f(`method = "GET"`, `method = "HEAD"`, true)
	f(`method = "HEAD"`, `method = "GET"`, false)
	f(`network = "192.0.2.0/24"`, `network = "192.0.2.7"`, true)
	f(`network = "192.0.2.7"`, `network = "192.0.2.0/24"`, false)
	f(`network = "0.0.0.0/0"`, `network = "2001:db8::/32"`, false)
	f(`agent = "bot"`, `agent = "bot"`, true)
	f(`agent = "bot"`, `agent = "spider"`, false)
	f(`host = "a.example"`, `path = "/a"`, false)
	f(`header = { Accept = ["a", "b"] }`, `header = { Accept = "a", Origin = "c" }`, true)
	f(`header = { Accept = "a", Origin = "c" }`, `header = { Accept = "a" }`, false)
	f(`not = { path = "/a/b" }`, `path = "/a/**"`, false)
	f(`not = { path = "/a/b" }`, `not = { path = "/a/**" }`, true)
	f(`not = { path = "/a/**" }`, `not = { path = "/a/b" }`, false)
	f(`not = { path = "/a" }`, `not = { path = "/a", agent = "x" }`, true)
	f(`not = { path = "/a", agent = "x" }`, `not = { path = "/a" }`, false)
	f(`query = "q"`, `query = ["q", "s"]`, false)
}

// Rules of the operator's may take everything from a preset; observing and suspecting
// rules end no search.
func TestNotShadowed(t *testing.T) {
	const pages = "\n[[meter]]\nname = \"m\"\nwindow = \"1m\"\nstranger = 1\npass = 1\n"
	for _, text := range []string{
		pages + "[[rule]]\nname = \"all\"\ndo = \"meter\"\nmeter = \"m\"\n",
		"[[rule]]\nname = \"all\"\ndo = \"deny\"\nmode = \"observe\"\n" + ruleA,
		"[[rule]]\nname = \"all\"\nsuspect = 1\n" + ruleA,
	} {
		if _, err := Parse("stile.toml", []byte(text)); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// A rule with a mistyped matcher is not taken for one that matches everything.
func TestBrokenRuleShadowsNothing(t *testing.T) {
	_, err := Parse("stile.toml", []byte("[[rule]]\nname = \"z\"\npahts = \"/z\"\ndo = \"deny\"\n"+ruleA))
	if err == nil || strings.Contains(err.Error(), "never") || !strings.Contains(err.Error(), `did you mean "path"?`) {
		t.Error(err)
	}
}

func TestWords(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(Enforce.String()+Observe.String(), "enforceobserve")
	f(Roam.String()+BindNetwork.String()+BindNone.String(), "roamnetworknone")
	f(Allow.String()+MeterAction.String()+Challenge.String()+Deny.String()+Trap.String()+Suspect.String(), "allowmeterchallengedenytrapsuspect")
	f(Auto.String()+Never.String()+Action(0).String(), "autonevernone")
	for kind, words := range otherWordsOf {
		for word, other := range words {
			if !slices.Contains(known[kind], other) || slices.Contains(known[kind], word) {
				t.Errorf("in %s %q is said to mean %q", bracketed(kind), word, other)
			}
		}
	}
	for word, other := range otherWords {
		if !(homes(other) != "" || slices.ContainsFunc(actions, func(c choice[Action]) bool { return c.word == other }) ||
			slices.ContainsFunc(modes, func(c choice[Mode]) bool { return c.word == other }) || slices.ContainsFunc(proofs, func(c choice[Proof]) bool { return c.word == other })) {
			t.Errorf("%q is said to mean %q, which is no word of the format", word, other)
		}
	}
}
