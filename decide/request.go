package decide

import (
	"net/netip"
	"strings"

	"stile/config"
	"stile/crawler"
	"stile/geo"
	"stile/network"
)

// Request is what is known about one client request. Its strings may be borrowed:
// nothing in this package keeps them after Decide returns.
type Request struct {
	ID     [16]byte // nginx's request id; all zero: none was given
	Method string
	Host   string
	Path   string   // as nginx routes by it: decoded, merged, without dot segments
	Alt    []string // other ways in which a backend may read the same target
	Query  string   // raw, without '?'
	Agent  string
	Header Header
	Addr   netip.Addr
	From   network.Network
	Caller Caller
	HasXOU bool // the client sent a header of nginx's own: evidence of a forger

	// Look is asked for what is not known yet of Crawler and Place, when a rule needs it.
	Look    Lookups    // nil: nobody
	Signed  Signatures // nil: nobody
	Crawler crawler.Claim
	Bot     string // the bot that has signed it, when that is known already
	Place   geo.Place
	looked  looked
}

// Header is the client's headers by their place in config.Headers; "" when absent.
type Header [config.HeaderCount]string

// CallerKind says by what a caller is known.
type CallerKind uint8

const (
	Stranger CallerKind = iota // by its network
	Holder                     // by a valid pass
	User                       // by the name that the site's nginx gives it
	callerKinds
)

var callerNames = [callerKinds]string{"stranger", "pass", "user"}

func (k CallerKind) String() string { return callerNames[k] }

// Caller is who asks.
type Caller struct {
	Kind  CallerKind
	Level uint8  // of the pass
	Key   uint64 // of the pass or the user; strangers are keyed by Request.From
}

// Navigation tells whether a person is about to see the answer as a page: only then
// is an answer in HTML any use. Browsers say so (Sec-Fetch-*), though not over plain
// http to other names; older ones are known by asking for text/html.
func Navigation(h *Header) bool {
	if h[config.HeaderSecPurpose] != "" || h[config.HeaderRange] != "" || h[config.HeaderXRequestedWith] != "" ||
		h[config.HeaderHXRequest] != "" || h[config.HeaderTurboFrame] != "" || strings.EqualFold(h[config.HeaderUpgrade], "websocket") {
		return false
	}
	switch h[config.HeaderSecFetchMode] {
	case "":
		return acceptsHTML(h[config.HeaderAccept])
	case "navigate":
		switch h[config.HeaderSecFetchDest] {
		case "", "document", "iframe", "frame", "fencedframe":
			return true
		}
	}
	return throughWorker(h)
}

// throughWorker tells whether a service worker of the site's asks for a page in the name
// of a navigation. A request that it hands on stays in the mode "navigate", which no
// other script can ask in; one that it has made anew keeps the headers of a navigation.
func throughWorker(h *Header) bool {
	mode := h[config.HeaderSecFetchMode]
	return h[config.HeaderSecFetchDest] == "empty" && (mode == "navigate" ||
		mode == "same-origin" && h[config.HeaderUpgradeInsecureRequests] != "" && acceptsHTML(h[config.HeaderAccept]))
}

// acceptsHTML looks for text/html or application/xhtml+xml as whole media types. Behind one
// of programs' own (package managers, federation and feed readers say so) it is not asked for.
func acceptsHTML(accept string) bool {
	for accept != "" {
		var item string
		item, accept, _ = strings.Cut(accept, ",")
		item, params, _ := strings.Cut(item, ";")
		item = strings.TrimSpace(item)
		if strings.EqualFold(item, "text/html") || strings.EqualFold(item, "application/xhtml+xml") {
			// ";q=0" is a refusal.
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000"
		}
		for _, own := range [...]string{"json", "atom+xml", "rss+xml", "rdf+xml"} {
			if n := len(item) - len(own); n >= 0 && strings.EqualFold(item[n:], own) {
				return false
			}
		}
	}
	return false
}

// part tells whether the request is for a part of a page that is being shown
// already: it gets slack, so that a page does not half-load. Browsers say so, though
// not over plain http to other names, and older ones never: there a script's call is
// known by not asking for a page, and by the page of this site that it comes from.
func (r *Request) part() bool {
	h := &r.Header
	switch h[config.HeaderSecFetchDest] {
	case "":
	case "document", "iframe", "frame", "fencedframe", "object", "embed":
		return false
	default:
		return !throughWorker(h)
	}
	for _, p := range [...]string{"image/", "text/css", "video/", "audio/", "font/"} {
		if strings.HasPrefix(h[config.HeaderAccept], p) {
			return true
		}
	}
	return sameHost(h[config.HeaderReferer], r.Host) && !acceptsHTML(h[config.HeaderAccept])
}

// sameHost tells whether a URL is on a host, whatever the ports.
func sameHost(url, host string) bool {
	rest, ok := strings.CutPrefix(url, "http://")
	if !ok {
		if rest, ok = strings.CutPrefix(url, "https://"); !ok {
			return false
		}
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return host != "" && strings.EqualFold(withoutPort(rest), withoutPort(host))
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// safe tells whether a method only reads (RFC 9110 §9.2.1), so that it can be
// answered with a challenge in its place.
func safe(method string) bool { return method == "GET" || method == "HEAD" }
