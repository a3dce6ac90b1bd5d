package config

import (
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
)

// HeaderCount is how many headers rules can look at.
const HeaderCount = 24

// Headers are the request headers that nginx passes on and rules can look at, by
// their canonical names. Facts about a request keep their values in this order.
var Headers = [HeaderCount]string{
	"Accept", "Accept-Language", "Accept-Encoding", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-Site",
	"Sec-Fetch-User", "Sec-Purpose", "Sec-CH-UA", "Upgrade", "Range", "Referer", "Origin", "Authorization",
	"Content-Type", "X-Requested-With", "HX-Request", "Turbo-Frame", "Access-Control-Request-Method",
	"Git-Protocol", "Signature", "Signature-Input", "Signature-Agent", "Upgrade-Insecure-Requests",
}

// HeaderIndex is the place of a header, in any case, in Headers. It panics for one
// that is not there: it is for names known when the program is written.
func HeaderIndex(name string) int {
	for i, h := range Headers {
		if strings.EqualFold(h, name) {
			return i
		}
	}
	panic(fmt.Sprintf("BUG: header %q is not in config.Headers", name))
}

// canonicalHeader is the spelling in Headers of a header's name, or why there is none.
func canonicalHeader(name string) (canonical, why string) {
	for _, h := range Headers {
		if strings.EqualFold(h, name) {
			return h, ""
		}
	}
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "User-Agent":
		return "", "use agent for the User-Agent"
	case "Host", "X-Forwarded-Host":
		return "", "use host for the host"
	case "Cookie":
		return "", "rules cannot look at cookies: a client sends what it likes in them; whether it has a valid pass, the limits of a meter tell apart"
	case "X-Real-Ip", "X-Forwarded-For", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip":
		return "", "use network for the client's address"
	case "X-Original-Uri":
		return "", "use path and query for what was asked"
	case "X-Original-Method":
		return "", "use method for the method"
	}
	if hint := didYouMean(name, Headers[:]); hint != "" {
		return "", hint
	}
	return "", "nginx does not pass it on to stile; there are " + strings.Join(Headers[:], ", ")
}

// headers reads the table of header matchers, in the order of Headers.
func (t *table) headers(key string) (hs []HeaderMatch) {
	h, ok := t.table(key, key, t.where+": header")
	if !ok {
		return nil
	}
	if len(h.keys) == 0 {
		t.wrong(key, `it names no header: write header = { Accept = "text/html" }, or leave it out`)
	}
	for _, name := range slices.Sorted(maps.Keys(h.keys)) {
		canonical, why := canonicalHeader(name)
		if why != "" {
			h.report(h.node.at(name), name, why)
			continue
		}
		if slices.ContainsFunc(hs, func(m HeaderMatch) bool { return m.Name == canonical }) {
			h.report(h.node.at(name), name, "named twice, in other letters: keep one")
			continue
		}
		hs = append(hs, HeaderMatch{canonical, h.patterns(name, checkText)})
	}
	slices.SortFunc(hs, func(a, b HeaderMatch) int { return HeaderIndex(a.Name) - HeaderIndex(b.Name) })
	return hs
}
