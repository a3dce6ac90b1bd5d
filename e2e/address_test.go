package e2e

import (
	"bufio"
	"net"
	"path/filepath"
	"testing"
)

// C053: to nginx each client of a unix socket is "unix:", and has no address. Behind a proxy on this machine that
// nginx was not told to look behind they are one caller, as they are over loopback: limited together, and not open.
func TestClientsOfAUnixSocketAreJudged(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, `
server {
    listen unix:/run/stile/site.sock;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
server {
    listen unix:/run/stile/behind.sock;
    set_real_ip_from unix:;
    real_ip_header X-Client;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`)
	f := func(what, socket, target string, status, hits int, header ...string) {
		t.Helper()
		v := s.visitor(header...)
		c, err := net.Dial("unix", filepath.Join(s.Dir(), socket))
		if err != nil {
			t.Fatal(err)
		}
		v.conn, v.r = c, bufio.NewReader(c)
		s.expect(what, v.get(target), status, hits)
	}
	f("a page that is challenged", "site.sock", "/heavy/x", 503, 0, firefox...)
	f("one that is denied", "site.sock", "/denied/x", 403, 0, firefox...)
	for range 3 {
		f("within the limit", "site.sock", "/machines/x", 200, 1, program...)
	}
	f("over the limit", "site.sock", "/machines/x", 429, 0, program...)
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		behind := append([]string{"X-Client: " + client}, program...)
		for range 3 {
			f(client+", whom the proxy names", "behind.sock", "/machines/x", 200, 1, behind...)
		}
		f(client+", over the limit", "behind.sock", "/machines/x", 429, 0, behind...)
	}
	if out := s.daemon.output(); s.daemon.metric("stile_misconfigured_total", "") != 0 {
		t.Errorf("a header is missing, it is said:\n%s", out)
	}
}

// C054, C056: visitors over IPv4 of a server that has IPv6 only come from the well-known prefix of their translator
// (RFC 6052), each in its last 32 bits. They are the visitors that they were before: not one, and known to the rules.
func TestTranslatedAddresses(t *testing.T) {
	t.Parallel()
	s := open(t, `include = []
[[meter]]
name = "few"
window = "1h"
stranger = 3
pass = 3
[[rule]]
name = "our office"
network = "198.51.100.0/24"
path = "/office/**"
do = "allow"
[[rule]]
name = "office only"
path = "/office/**"
do = "deny"
[[rule]]
name = "machines"
path = "/machines/**"
do = "meter"
meter = "few"
proof = "never"
`, "")
	f := func(target string, allowed int, addrs ...string) {
		t.Helper()
		var all []string
		for _, a := range addrs {
			all = append(all, checkRequest(a, target, ""))
		}
		if got := s.pipeline(all); got[200] != allowed {
			t.Errorf("%s from %v: %v, want %d allowed", target, addrs, got, allowed)
		}
	}
	f("/machines/x", 3, "64:ff9b::192.0.2.1", "64:ff9b::c000:201", "192.0.2.1", "::ffff:192.0.2.1")
	f("/machines/x", 5, "64:ff9b::203.0.113.1", "64:ff9b::203.0.114.1", "64:ff9b::203.0.115.1", "64:ff9b::203.0.116.1", "64:ff9b::203.0.117.1")
	f("/office/x", 2, "64:ff9b::198.51.100.7", "64:FF9B:0::c633:6407")
	f("/office/x", 0, "64:ff9b::198.51.101.7", "64:ff9b:0:1::198.51.100.7", "64:ff9b:1::198.51.100.7", "2001:db8::198.51.100.7")
}
