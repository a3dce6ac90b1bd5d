package crawler

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// lookupTime bounds a whole lookup: whoever controls the reverse zone of an address
	// may make it slow.
	lookupTime = 3 * time.Second
	// maxNames is how many of an address's names are tried; crawlers' have one.
	maxNames = 4
)

// NewResolver is a resolver that asks server ("192.0.2.53:53"), or what the system is
// configured for when it is "".
func NewResolver(server string) *net.Resolver {
	r := &net.Resolver{PreferGo: true}
	if server != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, server)
		}
	}
	return r
}

// confirm asks DNS which of the crawlers in claimed is at an address: the address has a
// name in a domain of the crawler's, and that very name has the address. ok is false
// when DNS did not say.
func confirm(ctx context.Context, r *net.Resolver, claimed Set, a netip.Addr) (id ID, ok bool) {
	names, err := r.LookupAddr(ctx, a.String())
	if err != nil {
		return 0, isNo(err)
	}
	ok = true
	tried := 0
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		id := owner(claimed, name)
		if id == 0 {
			continue
		}
		if tried++; tried > maxNames {
			break
		}
		// The dot keeps the resolver from trying the system's search domains.
		addrs, err := r.LookupNetIP(ctx, "ip", name+".")
		if err != nil {
			ok = ok && isNo(err)
			continue
		}
		for _, found := range addrs {
			if found.Unmap() == a.Unmap() {
				return id, true
			}
		}
	}
	return 0, ok
}

// isNo tells an answer that there is nothing from the lack of an answer.
func isNo(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound && !e.IsTimeout && !e.IsTemporary
}

// owner is the crawler of a set that a name, in lower case, belongs to.
func owner(claimed Set, name string) ID {
	for i := range Known {
		if claimed&(1<<i) == 0 {
			continue
		}
		for _, d := range Known[i].Domains {
			if within(name, d) {
				return ID(i + 1)
			}
		}
	}
	return 0
}

// within tells whether a name is below a domain: evilgooglebot.com is not below
// googlebot.com. A name of the form "proxy-*.example.com" it is instead.
func within(name, domain string) bool {
	if before, after, form := strings.Cut(domain, "*"); form {
		rest, ok := strings.CutPrefix(name, before)
		label, found := strings.CutSuffix(rest, after)
		return ok && found && label != "" && !strings.Contains(label, ".")
	}
	rest, ok := strings.CutSuffix(name, domain)
	return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
}
