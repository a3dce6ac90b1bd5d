package config

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"
)

// Places of the request headers that nginx passes on and rules can look at.
const (
	HeaderAccept = iota
	HeaderAcceptLanguage
	HeaderAcceptEncoding
	HeaderSecFetchMode
	HeaderSecFetchDest
	HeaderSecFetchSite
	HeaderSecFetchUser
	HeaderSecPurpose
	HeaderSecCHUA
	HeaderUpgrade
	HeaderRange
	HeaderReferer
	HeaderOrigin
	HeaderAuthorization
	HeaderContentType
	HeaderXRequestedWith
	HeaderHXRequest
	HeaderTurboFrame
	HeaderAccessControlRequestMethod
	HeaderGitProtocol
	HeaderSignature
	HeaderSignatureInput
	HeaderSignatureAgent
	HeaderUpgradeInsecureRequests
	HeaderCount
)

// Headers are their canonical names. Facts about a request keep their values in this
// order.
var Headers = [HeaderCount]string{
	HeaderAccept:                     "Accept",
	HeaderAcceptLanguage:             "Accept-Language",
	HeaderAcceptEncoding:             "Accept-Encoding",
	HeaderSecFetchMode:               "Sec-Fetch-Mode",
	HeaderSecFetchDest:               "Sec-Fetch-Dest",
	HeaderSecFetchSite:               "Sec-Fetch-Site",
	HeaderSecFetchUser:               "Sec-Fetch-User",
	HeaderSecPurpose:                 "Sec-Purpose",
	HeaderSecCHUA:                    "Sec-CH-UA",
	HeaderUpgrade:                    "Upgrade",
	HeaderRange:                      "Range",
	HeaderReferer:                    "Referer",
	HeaderOrigin:                     "Origin",
	HeaderAuthorization:              "Authorization",
	HeaderContentType:                "Content-Type",
	HeaderXRequestedWith:             "X-Requested-With",
	HeaderHXRequest:                  "HX-Request",
	HeaderTurboFrame:                 "Turbo-Frame",
	HeaderAccessControlRequestMethod: "Access-Control-Request-Method",
	HeaderGitProtocol:                "Git-Protocol",
	HeaderSignature:                  "Signature",
	HeaderSignatureInput:             "Signature-Input",
	HeaderSignatureAgent:             "Signature-Agent",
	HeaderUpgradeInsecureRequests:    "Upgrade-Insecure-Requests",
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
	slices.SortFunc(hs, func(a, b HeaderMatch) int { return slices.Index(Headers[:], a.Name) - slices.Index(Headers[:], b.Name) })
	return hs
}
