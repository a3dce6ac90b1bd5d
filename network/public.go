package network

import (
	"net/netip"
	"slices"
)

// special are the networks that no public server is in (RFC 6890 and after it).
var special = func() (ps []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
		"::/16", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "3fff::/20", "fc00::/7", "fe80::/10", "ff00::/8",
	} {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}()

// Public tells whether an address may be of a server on the Internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsValid() && a.Zone() == "" && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// HoldsPrivate tells whether a network contains any address that is not public.
func HoldsPrivate(p netip.Prefix) bool {
	return slices.ContainsFunc(special, func(s netip.Prefix) bool { return s.Overlaps(p) })
}
