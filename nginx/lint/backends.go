package lint

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// sameBackend: two scopes hand their requests to the same program. For FastCGI that is also a question of the folder: one
// PHP serves many sites.
func (l *linter) sameBackend(a, b *scope) bool {
	p, q := a.pass(), b.pass()
	if p == nil || q == nil || p.name != q.name {
		return false
	}
	if p.name == "fastcgi_pass" && a.value("root") != b.value("root") {
		return false
	}
	if to := a.expand(p.arg(0)); p.name == "proxy_pass" && to == b.expand(q.arg(0)) {
		return !strings.Contains(to, "$") || a.server() == b.server()
	}
	other := l.backends(b)
	for _, x := range l.backends(a) {
		if slices.Contains(other, x) {
			return true
		}
	}
	return false
}

// leads: all that a scope hands on comes to servers in which stile is asked.
func (l *linter) leads(s *scope) bool {
	list := l.backends(s)
	for _, a := range list {
		servers := l.serversAt(a, s.server())
		for _, srv := range servers {
			if sd := l.sides[srv]; !sd.asks && !sd.outer {
				return false
			}
		}
		if len(servers) == 0 {
			return false
		}
	}
	return len(list) > 0
}

// outerHops finds the servers that stand before protected ones.
func (l *linter) outerHops() {
	for changed := true; changed; {
		changed = false
		for _, srv := range l.servers {
			sd := l.sides[srv]
			if sd.asks || sd.outer {
				continue
			}
			hands, all := false, true
			for _, s := range srv.scopes() {
				if s.pass() != nil && !s.harmless() {
					hands = true
					all = all && l.leads(s)
				}
			}
			if hands && all {
				sd.outer, changed = true, true
			}
		}
	}
}

// harmless: a scope whose pass strangers do not come to, or where it costs nothing to let them.
func (s *scope) harmless() bool {
	if s.guarded() || wellKnown.MatchString(s.uri) || len(s.own["return"]) > 0 {
		return true
	}
	for p := s.parent; p != nil; p = p.parent {
		if wellKnown.MatchString(p.uri) {
			return true
		}
	}
	return len(s.server().own["return"]) > 0
}

// checkUnprotected looks at servers in which nobody is asked, and which have a backend.
func (l *linter) checkUnprotected() {
	for _, srv := range l.servers {
		sd := l.sides[srv]
		if sd.asks || sd.outer || srv.private() || l.before(srv) != nil {
			continue
		}
		var open *scope
		var twin, around *scope
		for _, s := range sd.scopes {
			if s.pass() == nil || s.harmless() || l.leads(s) {
				continue
			}
			if open == nil {
				open = s
			}
			if t := l.twin(srv, s); t != nil && twin == nil {
				twin, around = t, s
			}
		}
		if twin != nil {
			p := around.pass()
			sev := Error
			if len(srv.names()) > 0 && !shareName(srv, twin.server()) {
				sev = Warning // the backend may go by the name
			}
			l.add(sev, "bypass", p, around, "nobody is asked here, and the backend is that of "+l.where(twin)+" ("+twin.pass().pos()+"), where stile is",
				"all that is protected there, without being asked, through this server", "include snippets/stile.conf;    in this server ("+srv.d.pos()+")")
		} else if open != nil {
			l.add(Warning, "unprotected", srv.d, srv, "stile is not asked in this server, which has a backend (`"+open.pass().String()+"`)",
				"everything, as if stile were not there", "include snippets/stile.conf;    in this server. Or, if it is meant: # stile: meant")
		}
	}
}

// twin is a protected scope with the same backend, for whose visitors a server answers as well: by the same name, or by any.
func (l *linter) twin(srv, s *scope) *scope {
	anyName := len(srv.names()) == 0
	for _, a := range srv.listens() {
		anyName = anyName || l.defaultFor(srv, a)
	}
	for _, other := range l.servers {
		if !l.sides[other].asks || !anyName && !shareName(srv, other) {
			continue
		}
		for _, t := range l.sides[other].scopes {
			if l.sides[other].verdict[t] == stile && l.sameBackend(t, s) {
				return t
			}
		}
	}
	return nil
}

// checkOuterHops looks at what stands before protected servers.
func (l *linter) checkOuterHops() {
	for _, srv := range l.servers {
		for _, s := range srv.scopes() {
			p := s.pass()
			if p == nil || p.name != "proxy_pass" || l.ours(s) || !l.leads(s) {
				continue
			}
			if d := s.last("proxy_next_upstream"); d != nil && len(l.backends(s)) > 1 {
				for _, a := range d.args {
					if a == "http_503" || a == "http_429" || a == "http_403" {
						l.add(Warning, "retry", d, s, "`"+d.String()+"`, and behind it stile says 503 to whom it asks for a proof: nginx asks the next server then",
							"each question is asked of all servers in turn, counts in the meters of each, and the visitor waits for the last one's answer",
							"proxy_next_upstream error timeout;")
						break
					}
				}
			}
			l.checkOuterCache(s)
			l.checkOuterPages(s)
		}
	}
}

// checkOuterCache: stile's answers carry Cache-Control: no-store, unless nobody listens.
func (l *linter) checkOuterCache(s *scope) {
	if c := s.value("proxy_cache"); c == "" || c == "off" {
		return
	}
	ignored := false
	for _, d := range s.nearest("proxy_ignore_headers") {
		ignored = ignored || slices.ContainsFunc(d.args, func(a string) bool { return strings.EqualFold(a, "Cache-Control") })
	}
	if !ignored {
		return
	}
	for _, d := range s.nearest("proxy_cache_valid") {
		for _, a := range d.args[:max(0, len(d.args)-1)] {
			if a == "any" || a == "503" || a == "429" || a == "403" {
				l.add(Error, "cached-refusal", d, s, "`"+d.String()+"` and proxy_ignore_headers Cache-Control: what stile says to one visitor is kept for all",
					"the challenge page of somebody else, for everybody who asks for that URL", "proxy_cache_valid 200 "+d.arg(len(d.args)-1)+";")
				return
			}
		}
	}
}

// checkOuterPages: the outer hop's error pages cover stile's.
func (l *linter) checkOuterPages(s *scope) {
	d := s.last("proxy_intercept_errors")
	if d.arg(0) != "on" {
		return
	}
	status := "503"
	if l.o.Stile != nil {
		status = fmt.Sprint(l.o.Stile.Challenge.Status)
	}
	for _, code := range []string{status, "429"} {
		if p, _ := l.errorPageFor(s.nearest("error_page"), code); p != nil {
			l.add(Error, "outer-pages", p, s, "`"+p.String()+"` with proxy_intercept_errors covers stile's own pages, which come with "+code,
				"the site's error page in place of the one on which a browser proves itself", "take "+code+" out of this line")
			return
		}
	}
}

// checkReach looks for ways to a protected backend that do not lead through nginx.
func (l *linter) checkReach() {
	for _, srv := range l.servers {
		sd := l.sides[srv]
		for _, s := range sd.scopes {
			p := s.pass()
			if p == nil || sd.verdict[s] != stile {
				continue
			}
			for _, a := range l.backends(s) {
				l.checkAddress(p, s, a)
			}
		}
	}
}

func (l *linter) checkAddress(p *directive, s *scope, a address) {
	around := "whoever asks the backend at its own port, around nginx: he gets everything, and stile does not learn of it"
	closed := "let the backend listen on 127.0.0.1 or a socket, and write that here; where it has to listen further, close the port in the firewall"
	for _, inner := range l.serversAt(a, s.server()) {
		if sd := l.sides[inner]; inner != s.server() && !sd.asks && !sd.outer && !inner.private() && !shareName(inner, s.server()) {
			l.add(Error, "reach", p, s, fmt.Sprintf("the backend %s is a server of this nginx (%s) that listens beyond loopback, and stile is not asked there", a, inner.d.pos()),
				around, "listen 127.0.0.1:"+fmt.Sprint(a.port)+";    in that server")
			return
		}
	}
	ip, err := netip.ParseAddr(strings.Trim(a.host, "[]"))
	switch {
	case a.any() && a.port != 0:
		l.add(Warning, "reach", p, s, fmt.Sprintf("the backend is asked at %s, which is any address of this machine: it may listen on all of them", p.arg(0)), around, closed)
	case err == nil && !a.local() && (l.listensOn(a.host) || slices.Contains(l.o.Addresses, ip)):
		l.add(Warning, "reach", p, s, fmt.Sprintf("the backend listens on %s, an address of this machine that others can reach", a), around, closed)
	case a.local() && a.port != 0:
		for _, b := range l.o.Listening {
			if int(b.Port()) == a.port && !b.Addr().Unmap().IsLoopback() && !l.nginxListens(a.port) {
				l.add(Warning, "reach", p, s, fmt.Sprintf("something listens on %s, and the backend is asked at port %d", b, a.port), around, closed)
				return
			}
		}
	}
}

// nginxListens: the port is one of nginx's own, about which the configuration has said all.
func (l *linter) nginxListens(port int) bool {
	for _, srv := range l.servers {
		for _, a := range srv.listens() {
			if a.port == port {
				return true
			}
		}
	}
	return false
}
