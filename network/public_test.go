package network

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	f := func(want bool, addrs ...string) {
		t.Helper()
		for _, a := range addrs {
			if Public(netip.MustParseAddr(a)) != want {
				t.Errorf("%s: public = %v", a, !want)
			}
		}
	}
	f(true, "1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1", "2a00::1", "::ffff:1.1.1.1")
	f(false, "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "fd00::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "ff02::1", "2001:db8::1")
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
	if !HoldsPrivate(netip.MustParsePrefix("0.0.0.0/0")) || !HoldsPrivate(netip.MustParsePrefix("10.0.0.0/24")) || HoldsPrivate(netip.MustParsePrefix("1.1.1.0/24")) {
		t.Error("HoldsPrivate is wrong")
	}
}
