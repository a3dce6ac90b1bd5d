package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// anyAddress is a site behind a balancer that it trusts: X-Client says who asks.
const anyAddress = `
server {
    listen 80;
    set_real_ip_from 127.0.0.0/8;
    real_ip_header X-Client;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`

// C051: whatever a client says about addresses, it is known by the one that it comes from.
func TestC051RotatedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	v := s.visitor(program...)
	served := 0
	for i := range 50 {
		ip := fmt.Sprintf("192.0.2.%d", i)
		r := v.get("/machines/x", "X-Forwarded-For: "+ip+", "+ip, "X-Real-IP: "+ip, "Forwarded: for="+ip, "X-Client-IP: "+ip, "CF-Connecting-IP: "+ip, "True-Client-IP: "+ip)
		if r.Status == 200 {
			served++
		}
	}
	if served != 3 {
		t.Errorf("%d of 50 requests were served, want 3", served)
	}
}

// C054: an IPv6 visitor is its /64, however many addresses it has.
// C056: and an IPv4 address is the same in either way of writing it, for counters and for rules.
func TestC054OneVisitorManyAddresses(t *testing.T) {
	t.Parallel()
	s := open(t, strings.Replace(houseRules, "[[rule]]", `[[rule]]
name = "our office"
network = ["198.51.100.0/24", "2001:db8:ffff::/48"]
path = "/office/**"
do = "allow"
[[rule]]
name = "office only"
path = "/office/**"
do = "deny"
[[rule]]`, 1), "")
	var all []string
	for i := range 1000 {
		all = append(all, checkRequest(fmt.Sprintf("2001:db8:1:2:%x:%x::%x", i*7, i, i+1), "/machines/x", ""))
	}
	if got := s.pipeline(all); got[200] != 3 || got[429] != 997 {
		t.Errorf("1000 addresses of one /64: %v", got)
	}
	all = nil
	for i := range 12 {
		all = append(all, checkRequest(fmt.Sprintf("2001:db8:1:%x::1", 0x100*(i+1)), "/machines/x", ""))
	}
	if got := s.pipeline(all); got[200] != 12 {
		t.Errorf("addresses of twelve /64 that are far apart: %v", got)
	}
	f := func(path string, want int, addrs ...string) {
		t.Helper()
		all := make([]string, 0, len(addrs))
		for _, a := range addrs {
			all = append(all, checkRequest(a, path, ""))
		}
		if got := s.pipeline(all); got[200] != want {
			t.Errorf("%s from %v: %v, want %d allowed", path, addrs, got, want)
		}
	}
	f("/machines/x", 3, "192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "::FFFF:192.0.2.1", "0:0:0:0:0:ffff:192.0.2.1")
	f("/office/x", 4, "198.51.100.7", "::ffff:198.51.100.7", "2001:db8:ffff::1", "2001:DB8:FFFF:1::1")
	f("/office/x", 0, "198.51.101.7", "::ffff:198.51.101.7", "2001:db8:fffe::1", "::1", "::198.51.100.7")
}

// C058, C059: the address changes between the challenge, its solution and the page, between IPv4 and IPv6 and with
// every request: the pass holds, and what it may have goes with it.
func TestC059PassSurvivesAChangeOfAddress(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, anyAddress)
	f := func(what, asks, solves string, then ...string) {
		t.Helper()
		v := s.visitor()
		p := v.puzzle(v.get("/heavy/x", "X-Client: "+asks))
		r := v.ask("POST", "/.stile/proof", proofText(p.Token, p.solve(0, p.Parts)), append(v.fetchHeaders(), "X-Client: "+solves)...)
		if r.Status != 200 {
			t.Fatalf("%s: %d %s", what, r.Status, r.Body)
		}
		for _, addr := range then {
			if r := v.get("/.stile/pass", "X-Client: "+addr); r.Status != 204 {
				t.Errorf("%s: no pass from %s: %d", what, addr, r.Status)
			}
			s.expect(what+": a page for "+addr, v.get("/heavy/x", "X-Client: "+addr), 200, 1)
		}
		for i, addr := range []string{asks, solves, "203.0.113.1", "203.0.113.2", "2001:db8:9::1", "203.0.113.3"} {
			s.expect(fmt.Sprintf("%s: metered page %d", what, i), v.get("/metered/x", "X-Client: "+addr), 200, 1)
		}
		s.expect(what+": one more", v.get("/metered/x", "X-Client: 203.0.113.4"), 429, 0)
	}
	f("IPv4 to IPv6", "192.0.2.10", "2001:db8::10", "192.0.2.10", "2001:db8::10", "192.0.2.10")
	f("IPv6 to IPv4", "2001:db8:0:1::10", "192.0.2.11", "2001:db8:0:1::10", "192.0.2.11")
	f("another for each", "192.0.2.20", "192.0.2.21", "192.0.2.22", "192.0.2.23", "2001:db8:0:2::10", "198.51.100.200")

	// With passes bound to their networks, the two that were proven count and no other.
	bound := open(t, "include = []\n[pass]\nbind = \"network\"\n"+strings.TrimPrefix(houseRules, "include = []\n"), anyAddress)
	v := bound.visitor()
	p := v.puzzle(v.get("/heavy/x", "X-Client: 192.0.2.30"))
	v.ask("POST", "/.stile/proof", proofText(p.Token, p.solve(0, p.Parts)), append(v.fetchHeaders(), "X-Client: 192.0.2.30")...)
	bound.expect("where it was proven", v.get("/heavy/x", "X-Client: 192.0.2.30"), 200, 1)
	r := v.get("/heavy/x", "X-Client: 2001:db8:7::1")
	bound.expect("elsewhere", r, 503, 0)
	id := v.pass().ID
	p = v.puzzle(r)
	v.ask("POST", "/.stile/proof", proofText(p.Token, p.solve(0, p.Parts)), append(v.fetchHeaders(), "X-Client: 2001:db8:7::1")...)
	bound.expect("elsewhere, proven", v.get("/heavy/x", "X-Client: 2001:db8:7::1"), 200, 1)
	bound.expect("where it was proven first", v.get("/heavy/x", "X-Client: 192.0.2.30"), 200, 1)
	if v.pass().ID != id {
		t.Error("a proof from another network made another pass, with another meter")
	}
	bound.expect("a third place", v.get("/heavy/x", "X-Client: 192.0.2.31"), 503, 0)
}

// C060, C053: three hundred people with passes behind one address are all served, twice a minute each, while whoever
// has none there is limited.
func TestC060ThreeHundredBehindOneAddress(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	const people = 300
	stranger := s.visitor(program...)
	stranger.kept = true
	for range 200 {
		stranger.get("/page")
	}
	if r := stranger.get("/page"); r.Status != 503 {
		t.Errorf("a stranger from there: %d", r.Status)
	}
	crowd := s.visitorFrom(stranger.from, firefox...)
	crowd.kept = true
	var passes []string
	for range people {
		passes = append(passes, s.daemon.makePass(2, time.Hour))
	}
	s.app.Reset()
	for range 2 {
		for i, pass := range passes {
			crowd.jar["stile"] = pass
			if r := crowd.get("/page"); r.Status != 200 {
				t.Fatalf("person %d: %d", i, r.Status)
			}
		}
	}
	s.hits("the crowd", 2*people)
	s.expect("a stranger after that", stranger.get("/page"), 503, 0)
}
