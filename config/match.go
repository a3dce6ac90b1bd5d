package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stile/network"
)

// match reads the matchers of a rule, or of its not.
func (t *table) match() Match {
	m := Match{
		Host:    t.patterns("host", checkHost),
		Path:    t.patterns("path", checkPath),
		Query:   t.patterns("query", checkQuery),
		Agent:   t.patterns("agent", checkText),
		Method:  t.methods("method"),
		Network: t.networks("network"),
		Crawler: t.crawlers("crawler"),
		ASN:     t.systems("asn"),
		Country: t.countries("country"),
	}
	if t.has("header") {
		m.Header = t.headers("header")
	}
	if t.kind != "rule" {
		return m
	}
	if not, ok := t.table("not", "not", t.where); ok {
		n := not.match()
		not.where += ": not"
		if len(not.keys) == 0 {
			t.wrong("not", `it excludes nothing: write not = { path = "/public/**" }, or leave it out`)
		}
		not.finish()
		m.Not = &n
		t.inner = not
	}
	return m
}

// patterns reads texts that check accepts.
func (t *table) patterns(key string, check func(string) error) (ps []string) {
	seen := map[string]bool{}
	for _, it := range t.texts(key) {
		if err := check(it.text); err != nil {
			// The error quotes the pattern and says the way out.
			t.report(it.node, key, err.Error())
			continue
		}
		if seen[it.text] {
			t.wrongItem(key, it, "named twice: keep one")
			continue
		}
		seen[it.text] = true
		ps = append(ps, it.text)
	}
	return ps
}

// commonMethods are those that a mistyped one is compared with; any other word of
// capital letters is a method too.
var commonMethods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "PROPPATCH", "REPORT",
	"SEARCH", "MKCOL", "MKCALENDAR", "COPY", "MOVE", "LOCK", "UNLOCK", "PURGE", "QUERY", "MERGE", "CHECKOUT", "ACL",
	"BIND", "REBIND", "UNBIND", "LINK", "UNLINK", "LABEL", "SUBSCRIBE", "UNSUBSCRIBE", "NOTIFY",
}

func (t *table) methods(key string) (ms []string) {
	for _, it := range t.texts(key) {
		upper := strings.ToUpper(it.text)
		hint := ""
		if !slices.Contains(commonMethods, upper) {
			hint = didYouMean(upper, commonMethods)
		}
		switch {
		case upper == "" || len(upper) > 32 || strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "":
			t.wrongItem(key, it, `want a method such as "GET"; for every method leave method out`)
		case it.text != upper:
			t.wrongItem(key, it, "methods are written in capital letters: %q", upper)
		case hint != "":
			t.wrongItem(key, it, "%s", hint)
		case !slices.Contains(ms, it.text):
			ms = append(ms, it.text)
		}
	}
	if slices.Contains(ms, "GET") && !slices.Contains(ms, "HEAD") {
		ms = append(ms, "HEAD")
	}
	return ms
}

func (t *table) networks(key string) (ps []netip.Prefix) {
	for _, it := range t.texts(key) {
		p, why := parsePrefix(it.text)
		if why != "" {
			t.wrongItem(key, it, "%s", why)
			continue
		}
		ps = append(ps, p)
	}
	return ps
}

// parsePrefix reads an address or a network in CIDR notation, or says what to write.
// IPv4-mapped IPv6 is IPv4.
func parsePrefix(s string) (p netip.Prefix, why string) {
	const want = `want an address or a network, such as "192.0.2.0/24" or "2001:db8::/32"`
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return p, want
		}
		a = network.Canonical(a)
		return netip.PrefixFrom(a, a.BitLen()), ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if address, mask, _ := strings.Cut(s, "/"); strings.Count(mask, ".") == 3 {
			if a, err := netip.ParseAddr(address); err == nil {
				if p, ok := maskPrefix(a, mask); ok {
					return netip.Prefix{}, fmt.Sprintf("want the mask as a number of bits: %q", p)
				}
			}
		}
		return p, want
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return p, want
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	if network.Translated(p.Addr()) && p.Bits() >= 48 { // 64:ff9b:1::/48 is another
		if p.Bits() <= 96 {
			return p, `addresses behind this prefix are read as the IPv4 addresses in them: want those, such as "192.0.2.0/24"`
		}
		a := network.Canonical(p.Addr())
		p = netip.PrefixFrom(a, p.Bits()-96)
	}
	if p.Masked() != p {
		return p, fmt.Sprintf("the address has bits outside the network: want %q for the network, or %q for the one address", p.Masked(), p.Addr())
	}
	return p, ""
}

// maskPrefix is the network of an IPv4 address and a mask such as 255.255.255.0.
func maskPrefix(a netip.Addr, mask string) (p netip.Prefix, ok bool) {
	m, err := netip.ParseAddr(mask)
	if err != nil || !m.Is4() || !a.Is4() {
		return p, false
	}
	bits := 0
	for _, b := range m.As4() {
		for i := 7; i >= 0; i-- {
			if b>>i&1 == 1 {
				bits++
			}
		}
	}
	return netip.PrefixFrom(a, bits).Masked(), true
}
