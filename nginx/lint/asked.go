package lint

import (
	"regexp"
	"strings"
)

// checkScope looks at one of the site's own scopes of a server in which stile is asked.
func (l *linter) checkScope(s *scope) {
	switch v, _ := l.asks(s); v {
	case somebodyElse:
		l.checkOther(s)
	case stile:
		l.checkReturn(s)
		l.checkSatisfy(s)
		l.checkErrorPages(s)
		l.checkIntercept(s)
		l.checkVerdictVariables(s)
		l.checkHost(s)
	case nobody:
		l.checkOpenRegex(s)
	}
}

// checkReturn: return and redirects come before the access phase, in which stile is asked.
func (l *linter) checkReturn(s *scope) {
	scopes := []*scope{s}
	if s.kind == serverScope {
		for _, c := range s.children {
			if c.kind == rewriteIf {
				scopes = append(scopes, c)
			}
		}
	}
	for _, at := range scopes {
		for _, d := range at.own["return"] {
			if p, _ := l.errorPageFor(s.nearest("error_page"), d.arg(0)); p != nil && len(d.args) == 1 {
				continue // it goes on where error_page leads, and is asked about there
			}
			if strings.HasPrefix(d.arg(0), "2") && len(d.args) > 1 && !wellKnown.MatchString(s.uri) {
				l.add(Note, "return", d, s, "`"+d.String()+"` answers before anybody is asked",
					"the text, whoever asks and however often; stile does not learn of it",
					"try_files /ANSWER.txt =404;    in its place, with the text in a file: files are asked about. Or, if it is meant: auth_request off;")
				continue
			}
			l.redirect(d, s)
		}
		for _, d := range at.own["rewrite"] {
			if redirects(d) {
				l.redirect(d, s)
			}
		}
	}
}

// redirect is one note for all of a server: such lines are in every configuration, and rarely matter.
func (l *linter) redirect(d *directive, s *scope) {
	srv := s.server()
	key := "return-server\x00" + srv.d.pos()
	if i := l.seen[key]; i > 0 {
		if !d.meant {
			l.findings[i-1].More++
		}
		return
	}
	before := len(l.findings)
	l.add(Note, "redirect", d, s, "`"+d.String()+"` answers before anybody is asked, as every return and every redirecting rewrite does",
		"a redirect or an error page of nginx's, which costs nothing; the page that a redirect leads to is asked about",
		"nothing, if it is meant")
	if len(l.findings) > before {
		l.seen[key] = len(l.findings)
	}
}

// checkSatisfy: with "any" one yes is enough, and stile says yes to nearly everybody.
func (l *linter) checkSatisfy(s *scope) {
	d := s.last("satisfy")
	if d.arg(0) != "any" {
		return
	}
	access := s.nearest("allow", "deny")
	basic := s.value("auth_basic")
	jwt := s.value("auth_jwt")
	var beside []string
	if len(access) > 0 {
		beside = append(beside, "allow and deny")
	}
	if basic != "" && basic != "off" {
		beside = append(beside, "auth_basic")
	}
	if jwt != "" && jwt != "off" {
		beside = append(beside, "auth_jwt")
	}
	if len(beside) == 0 {
		return // stile alone: any is all
	}
	l.add(Error, "satisfy", d, s, "`satisfy any` with stile: one of stile and "+strings.Join(beside, " and ")+" is enough",
		"everybody whom stile lets pass is let in past "+strings.Join(beside, " and ")+"; and whom those let in stile is not asked about",
		`satisfy all;    For addresses that need no password: geo $members { default "Members"; 10.0.0.0/8 off; } in http, and auth_basic $members; here. For addresses that stile shall let pass: a rule with network = […], do = "allow"`)
}

// checkOther: a location has one auth_request.
func (l *linter) checkOther(s *scope) {
	d := s.last("auth_request")
	l.add(Warning, "other-auth", d, s, "`"+d.String()+"` asks somebody else, and therefore not stile",
		"whatever "+d.arg(0)+" lets in, at any rate; who is not let in costs it as much as he likes",
		"two hops: this auth_request in a server of its own that listens on 127.0.0.1, and before it one with snippets/stile.conf that passes to it. Or, if the other one is enough: # stile: meant")
}

// checkOpenRegex: the end of a path is for the client to choose.
func (l *linter) checkOpenRegex(s *scope) {
	if s.kind != locationScope || s.re == nil || strings.HasPrefix(s.uri, "^/") || s.pass() == nil || s.value("auth_request") != "off" {
		return
	}
	if s.guarded() {
		return
	}
	for _, other := range l.sides[s.server()].scopes {
		if v, _ := l.asks(other); v == stile && other.pass() != nil && l.sameBackend(other, s) {
			l.add(Warning, "open-regex", s.d, s, "nobody is asked where a path only looks like "+s.uri+", and the backend is the one of "+other.path(),
				"any page of the backend to whose path it takes no offence that it ends so (/expensive/page/x.css)",
				"location ^~ /FOLDER/ { … }    for the folders in which these files really are. Or leave `auth_request off` out: the rules of stile know what parts of a page are")
			return
		}
	}
}

// checkErrorPages: without error_pages of stile's own a refusal has no page.
func (l *linter) checkErrorPages(s *scope) {
	if len(s.own["return"]) > 0 {
		return // nobody is asked
	}
	list, from := s.nearestScope("error_page")
	if len(list) == 0 {
		l.add(Error, "error-page", s.last("auth_request"), s, "there is no error_page for what stile says",
			"nginx's bare \"401 Authorization Required\"; nobody can solve anything",
			"include snippets/stile.conf;    in the server, in place of this auth_request")
		return
	}
	var missing []string
	var first *directive
	for _, code := range []string{"401", "403"} {
		d, to := l.errorPageFor(list, code)
		if d == nil {
			missing = append(missing, code)
			continue
		}
		if target := s.server().target(to); target != nil && l.ours(target) {
			continue
		}
		if first == nil {
			first = d
		}
	}
	bare := "who is asked for a proof gets nginx's bare \"401 Authorization Required\" and cannot get in; who is refused gets \"403 Forbidden\" without a reason"
	switch {
	case first != nil && from.kind == serverScope:
		l.add(Error, "error-page-first", first, s, "`"+first.String()+"` comes before stile's: of two lines for a status the first one counts",
			"the site's own error page in place of stile's, with status 401 or 403 and nothing to solve",
			"include snippets/stile.conf;    above this line, or take 401 and 403 out of it")
	case first != nil:
		l.add(Error, "error-page-first", first, s, "`"+first.String()+"` takes the place of stile's pages",
			"the site's own error page in place of stile's, with status 401 or 403 and nothing to solve",
			"include snippets/stile-guard.conf;    above this line, or take 401 and 403 out of it")
	case len(missing) > 0 && from.kind == httpScope:
		l.add(Error, "error-page", s.last("auth_request"), s, "there is no error_page for what stile says",
			bare, "include snippets/stile.conf;    in the server, in place of this auth_request")
	case len(missing) > 0 && s.server().named("@stile_challenge") == nil:
		l.add(Error, "error-page", list[0], s, "there is no error_page for what stile says",
			bare, "include snippets/stile.conf;    in the server, in place of this auth_request")
	case len(missing) > 0:
		l.add(Error, "error-page", list[0], s, "an error_page of its own, without stile's: nginx inherits all of them or none",
			bare, "include snippets/stile-guard.conf;    beside it")
	}
}

// errorPageFor is the first error_page of a list for a status, which is the one that counts.
func (l *linter) errorPageFor(list []*directive, code string) (d *directive, to string) {
	for _, d := range list {
		if codes, to := errorPage(d); codes[code] {
			return d, to
		}
	}
	return nil, ""
}

// checkIntercept: the backend's own 401 and 403 arrive in stile's locations, which know no better than nginx.
func (l *linter) checkIntercept(s *scope) {
	p := s.pass()
	if p == nil {
		return
	}
	d := s.last(protocol(p) + "_intercept_errors")
	if d.arg(0) != "on" {
		return
	}
	l.add(Note, "intercept", d, s, "`"+d.String()+"`: stile's error_page for 401 and 403 takes the application's own, too",
		"nginx's plain page where the application says 401 or 403 itself; the status stays, and so does WWW-Authenticate",
		d.name+" off;    if the application's own pages matter here")
}

// checkVerdictVariables: auth_request_set is inherited all or nothing.
func (l *linter) checkVerdictVariables(s *scope) {
	list, from := s.nearestScope("auth_request_set")
	have := make(map[string]bool)
	for _, d := range list {
		have[d.arg(0)] = true
	}
	if have["$stile_verdict"] && have["$stile_status"] {
		return
	}
	at, says := s.last("auth_request"), "stile's verdict is not kept: auth_request_set is missing"
	if len(list) > 0 {
		at, says = list[0], "stile's verdict is not kept here: nginx inherits auth_request_set all or nothing"
	}
	fix := "include snippets/stile.conf;    in the server, in place of this auth_request"
	if len(list) > 0 && from.kind != serverScope {
		fix = "beside it: auth_request_set $stile_verdict $upstream_http_x_stile_verdict; auth_request_set $stile_status $upstream_status; auth_request_set $stile_lease $stile_lease_said;"
	}
	l.add(Error, "auth-request-set", at, s, says,
		"nginx's bare 401 or 403 in place of stile's pages, which are not ours without a verdict", fix)
}

// checkHost: rules see $host.
func (l *linter) checkHost(s *scope) {
	p := s.pass()
	if p == nil || p.name != "proxy_pass" || !l.rulesChooseBy(s.server()) {
		return
	}
	for _, d := range s.nearest("proxy_set_header") {
		if strings.EqualFold(d.arg(0), "Host") && strings.Contains(d.arg(1), "$http_host") {
			l.add(Error, "http-host", d, s, "the backend gets $http_host, and the rules that name a host get $host",
				"a request with an absolute URL (GET http://a/ … Host: b) is judged by the rules of a, and answered by b",
				"proxy_set_header Host $host;")
		}
	}
}

// rulesChooseBy: there are rules that name a host, and the server answers for more than one.
func (l *linter) rulesChooseBy(srv *scope) bool {
	names := srv.names()
	anything := len(names) == 0
	for _, a := range srv.listens() {
		anything = anything || l.defaultFor(srv, a)
	}
	several := anything || len(names) > 1 || strings.ContainsAny(names[0], "*~") || strings.HasPrefix(names[0], ".")
	if l.o.Stile == nil || !several {
		return false
	}
	for i := range l.o.Stile.Rules {
		r := &l.o.Stile.Rules[i]
		if r.Match.Not != nil && len(r.Match.Not.Host) > 0 || len(r.Match.Host) > 0 && (anything || answersFor(srv, r)) {
			return true
		}
	}
	return false
}

// checkServer looks at what holds for a whole server in which stile is asked.
func (l *linter) checkServer(srv *scope) {
	sd := l.sides[srv]
	if d := srv.last("merge_slashes"); d.arg(0) == "off" {
		l.add(Warning, "merge-slashes", d, srv, "`merge_slashes off`: nginx routes //a//b by its slashes, and stile's rules see /a/b",
			"by doubled slashes a path can come to another location than the one whose rules are asked",
			"take this line out")
	}
	for _, s := range sd.scopes {
		v, check := l.asks(s)
		if v != stile {
			continue
		}
		if check == nil || !sd.check[check] || !l.toDaemon(check) {
			l.add(Error, "no-check", s.last("auth_request"), s, "there is no location = "+s.value("auth_request")+" that passes to stile",
				"500 Internal Server Error, everywhere",
				"include snippets/stile.conf;    in the server, in place of snippets/stile.d/server.conf")
		}
		break
	}
	// What the server's own error_pages (stile brings two) keep from being inherited.
	if len(srv.own["error_page"]) == 0 {
		return
	}
	for _, d := range l.http.own["error_page"] {
		lost := false
		codes, _ := errorPage(d)
		for c := range codes {
			own, _ := l.errorPageFor(srv.own["error_page"], c)
			lost = lost || own == nil && c != "401" && c != "403"
		}
		if lost && onlyStile(srv.own["error_page"]) {
			l.add(Warning, "error-page-lost", d, srv, "this error_page of the http level does not hold in servers that include stile, which bring error_pages of their own",
				"nginx's plain pages in place of the site's",
				d.String()+";    in the server, below the include")
		}
	}
}

// onlyStile: before stile's snippet the server had no error_page.
func onlyStile(list []*directive) bool {
	for _, d := range list {
		if _, to := errorPage(d); !strings.HasPrefix(to, "@stile_") {
			return false
		}
	}
	return true
}

// guarded: somebody else keeps strangers out of a scope: a password, or a list of addresses.
func (s *scope) guarded() bool {
	if b := s.value("auth_basic"); b != "" && b != "off" {
		return true
	}
	if u := s.value("auth_request"); u != "" && u != "off" {
		return true
	}
	for _, d := range s.nearest("allow", "deny") {
		if d.name == "deny" && d.arg(0) == "all" {
			return true
		}
	}
	if v := s.value("ssl_verify_client"); v == "on" {
		return true
	}
	return len(s.own["internal"]) > 0
}

// wellKnown: a path that has to be open, and is cheap.
var wellKnown = regexp.MustCompile(`^\^?/\\?\.well-known/`)
