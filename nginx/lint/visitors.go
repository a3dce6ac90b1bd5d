package lint

import (
	"strings"
)

// signs are variables that only make sense behind a CDN or another proxy.
var signs = []string{"$http_cf_connecting_ip", "$http_cf_ray", "$http_cf_ipcountry", "$http_cf_visitor", "$http_true_client_ip",
	"$http_fastly_client_ip", "$http_fly_client_ip", "$http_x_real_ip", "$http_x_forwarded_for", "$http_x_forwarded_proto",
	"$http_x_forwarded_host", "$http_x_client_ip", "$http_cloudfront_", "$http_forwarded", "$proxy_protocol_addr"}

// checkVisitors: stile counts visitors by $remote_addr, which behind a proxy is the proxy's address.
func (l *linter) checkVisitors(srv *scope) {
	trusted := srv.nearest("set_real_ip_from")
	for _, d := range trusted {
		if a := d.arg(0); (a == "0.0.0.0/0" || a == "::/0") && !srv.private() {
			l.add(Warning, "real-ip-anybody", d, srv, "`"+d.String()+"`: whoever connects is believed what it says its address is",
				"a scraper that reaches nginx directly is a new visitor with each request, by a header", "set_real_ip_from ADDRESS;    of the proxy in front, and of nothing else")
		}
	}
	const allOne = "all visitors are one stranger, with the proxy's address: a few fast readers, and everybody is asked for a proof or refused"
	fix := "set_real_ip_from ADDRESS-OF-THE-PROXY; real_ip_header X-Forwarded-For;    above the include (CF-Connecting-IP for Cloudflare, with its published ranges)"
	for _, d := range srv.own["listen"] {
		for _, word := range d.args[min(1, len(d.args)):] {
			if word == "proxy_protocol" && (len(trusted) == 0 || srv.value("real_ip_header") != "proxy_protocol") {
				l.add(Error, "real-ip", d, srv, "`"+d.String()+"` without real_ip: the visitor's address comes by the PROXY protocol, and is not taken",
					allOne, "set_real_ip_from ADDRESS-OF-THE-PROXY; real_ip_header proxy_protocol;    above the include")
				return
			}
		}
	}
	if len(trusted) > 0 {
		return
	}
	if d := srv.last("real_ip_header"); d != nil {
		l.add(Error, "real-ip", d, srv, "`"+d.String()+"` without set_real_ip_from does nothing", allOne, fix)
		return
	}
	at := srv.d
	if list := srv.own["listen"]; len(list) > 0 {
		at = list[0]
	}
	if !srv.private() {
		if d, sign := l.sign(srv); d != nil {
			l.add(Warning, "real-ip", d, srv, "`"+d.String()+"` looks as if a CDN or a proxy were in front ("+sign+"), and set_real_ip_from is missing", allOne, fix)
		}
		return
	}
	if p := l.handedBy(srv); p != nil {
		l.add(Error, "real-ip", at, srv, "this server gets its requests from another one of this nginx ("+p.pos()+"), and does not take the visitor's address from it",
			allOne, "set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;    above the include, and in the other server: proxy_set_header X-Real-IP $remote_addr;")
		return
	}
	l.add(Warning, "real-ip", at, srv, "this server listens for programs of this machine only, so some proxy is in front, and set_real_ip_from is missing", allOne, fix)
}

// handedBy is the pass by which another server of this nginx hands requests to one, or nil.
func (l *linter) handedBy(srv *scope) *directive {
	if l.handed == nil {
		l.handed = make(map[*scope]*directive)
		for _, from := range l.servers {
			for _, s := range from.scopes() {
				for _, a := range l.backends(s) {
					for _, to := range l.serversAt(a, from) {
						if to != from && l.handed[to] == nil {
							l.handed[to] = s.pass()
						}
					}
				}
			}
		}
	}
	return l.handed[srv]
}

// sign is a directive of a server that speaks of a proxy in front.
func (l *linter) sign(srv *scope) (*directive, string) {
	scopes := srv.scopes()
	for _, c := range srv.children {
		if c.kind == rewriteIf {
			scopes = append(scopes, c)
		}
	}
	for _, s := range scopes {
		if l.ours(s) {
			continue
		}
		for _, d := range append([]*directive{s.d}, s.order...) {
			if strings.Contains(d.file, "/snippets/stile") || strings.HasPrefix(d.name, "access_log") || d.name == "more_set_input_headers" {
				continue
			}
			for _, a := range d.args {
				for _, sign := range signs {
					if containsVariable(a, sign) {
						return d, strings.TrimRight(sign, "_")
					}
				}
				if strings.HasPrefix(d.name, "ssl_") && strings.Contains(strings.ToLower(a), "cloudflare") {
					return d, a
				}
			}
		}
	}
	return nil, ""
}

// containsVariable tells whether a text holds a variable: "$name" or "${name}". One that ends in "_" is a beginning.
func containsVariable(text, variable string) bool {
	text = strings.NewReplacer("${", "$", "}", " ").Replace(strings.ToLower(text))
	for {
		i := strings.Index(text, variable)
		if i < 0 {
			return false
		}
		text = text[i+len(variable):]
		if strings.HasSuffix(variable, "_") || text == "" || !isWord(text[0]) {
			return true
		}
	}
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
