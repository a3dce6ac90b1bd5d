package network

import (
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	same := func(a, b string, want bool) {
		t.Helper()
		if got := Of(netip.MustParseAddr(a)) == Of(netip.MustParseAddr(b)); got != want {
			t.Errorf("%s and %s: same network = %v, want %v", a, b, got, want)
		}
	}
	same("192.0.2.1", "192.0.2.1", true)
	same("192.0.2.1", "192.0.2.2", false)
	same("::ffff:192.0.2.1", "192.0.2.1", true)
	same("2001:db8::1", "2001:db8::ffff:1", true)
	same("2001:db8:0:1::1", "2001:db8::1", false)
	same("::1", "2001:db8::1", false)
	same("0.0.0.0", "::1", false)
	same("64:ff9b::192.0.2.1", "192.0.2.1", true)
	same("64:ff9b::192.0.2.1", "64:ff9b::192.0.2.2", false)
	same("64:ff9b::192.0.2.1", "64:ff9b:0:1::192.0.2.1", false)
	same("64:ff9b:0:1::192.0.2.1", "64:ff9b:0:1::192.0.2.2", true) // RFC 8215 leaves it to each network what these are
	if Of(netip.Addr{}) != 0 {
		t.Error("an invalid address has a network")
	}
	for _, a := range []string{"0.0.0.0", "::", "::1", "255.255.255.255"} {
		if Of(netip.MustParseAddr(a)) == 0 {
			t.Errorf("%s has no network", a)
		}
	}
}

func TestWider(t *testing.T) {
	wide := func(a string, i int) Network { return Of(netip.MustParseAddr(a)).Wider()[i] }
	if wide("192.0.2.1", 0) != wide("192.0.2.254", 0) || wide("192.0.2.1", 0) == wide("192.0.3.1", 0) {
		t.Error("the /24 around an IPv4 address is wrong")
	}
	if wide("192.0.2.1", 1) != 0 {
		t.Error("an IPv4 address has a second larger network")
	}
	if wide("2001:db8:0:1::", 0) != wide("2001:db8:0:ff::", 0) || wide("2001:db8:0:1::", 0) == wide("2001:db8:0:100::", 0) {
		t.Error("the /56 is wrong")
	}
	if wide("2001:db8:0:1::", 1) != wide("2001:db8:0:ff00::", 1) || wide("2001:db8:0:1::", 1) == wide("2001:db8:1:1::", 1) {
		t.Error("the /48 is wrong")
	}
	all := map[Network]bool{}
	for _, a := range []string{"192.0.2.0", "2001:db8::"} {
		n := Of(netip.MustParseAddr(a))
		all[n] = true
		for _, w := range n.Wider() {
			all[w] = true
		}
	}
	if len(all) != 6 { // two networks, three larger ones, and the unused 0
		t.Errorf("sizes collide: %d distinct, want 6", len(all))
	}
}
