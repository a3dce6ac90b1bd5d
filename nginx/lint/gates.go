package lint

import (
	"fmt"
	"strings"

	"stile/config"
	"stile/decide/pattern"
)

// gatesUsed: some rule has a gate, or some location is prepared for one.
func (l *linter) gatesUsed() bool {
	if l.o.Stile != nil {
		for i := range l.o.Stile.Rules {
			if l.o.Stile.Rules[i].Gate != 0 {
				return true
			}
		}
	}
	for _, srv := range l.servers {
		for _, s := range srv.scopes() {
			if s.includes("stile-gate.conf") {
				return true
			}
		}
	}
	return false
}

// checkGates looks at the locations in which a gate lets requests in.
func (l *linter) checkGates() {
	for _, srv := range l.servers {
		sd := l.sides[srv]
		if !sd.asks {
			continue
		}
		for _, s := range sd.scopes {
			if sd.verdict[s] == stile && s.pass() != nil && l.preparedIn(s) != nil {
				l.checkLease(s, Error)
				l.checkSlow(s, false)
			}
		}
		if l.o.Stile == nil {
			continue
		}
		for i := range l.o.Stile.Rules {
			if r := &l.o.Stile.Rules[i]; r.Gate != 0 && answersFor(srv, r) {
				for _, s := range l.reached(srv, r) {
					l.checkGated(s, r)
				}
			}
		}
	}
}

// preparedIn is the nearest scope that includes snippets/stile-gate.conf, or nil.
func (l *linter) preparedIn(s *scope) *scope {
	for ; s != nil; s = s.parent {
		if s.includes("stile-gate.conf") {
			return s
		}
	}
	return nil
}

// checkGated looks at a scope to which a gate's rule leads.
func (l *linter) checkGated(s *scope, r *config.Rule) {
	p := s.pass()
	if p == nil || protocol(p) == "" {
		return
	}
	if strings.HasPrefix(r.Pos.File, "preset:") {
		l.checkPresetGated(s, r)
		return
	}
	rule := fmt.Sprintf("the rule %q (%s:%d) has a gate", r.Name, r.Pos.File, r.Pos.Line)
	v := l.sides[s.server()].verdict[s]
	if v != stile {
		if v == nobody {
			l.add(Warning, "gate-unasked", p, s, rule+" and leads here, where stile is not asked",
				"the backend, however much is at work in it already", "take `auth_request off` out of this location, or narrow the rule's path")
		}
		return
	}
	if protocol(p) == "grpc" {
		l.add(Note, "gate-grpc", p, s, rule+"; nginx has no grpc_ignore_client_abort",
			"when clients leave, their work goes on beside what the gate lets in", "nothing; keep the gate's budget lower")
	} else if s.value(protocol(p)+"_ignore_client_abort") != "on" {
		l.add(Error, "gate-snippet", p, s, rule+" and leads here, and snippets/stile-gate.conf is missing",
			"a client that leaves seems to end the backend's work, so those who leave let ever more of it in",
			"include snippets/stile-gate.conf;    beside it")
	}
	l.checkLease(s, Error)
	l.checkSlow(s, true)
}

// checkPresetGated is checkGated for a preset's rule. Nobody has chosen a location for that, and it may be about any page:
// one word for a server is enough, and none where the site has said which locations are expensive.
func (l *linter) checkPresetGated(s *scope, r *config.Rule) {
	srv := s.server()
	if l.sides[srv].verdict[s] != stile || len(r.Match.Path) == 0 && s.modifier == "=" {
		return // a rule for any page is not about a status page
	}
	l.checkLease(s, Warning)
	p := s.pass()
	key := "gate-preset\x00" + srv.d.pos()
	if protocol(p) == "grpc" || s.value(protocol(p)+"_ignore_client_abort") == "on" || l.seen[key] > 0 {
		return
	}
	for _, x := range srv.scopes() {
		if x.includes("stile-gate.conf") {
			return
		}
	}
	l.add(Note, "gate-preset", p, s, fmt.Sprintf("the rule %q (%s) has a gate, and nothing in this server includes snippets/stile-gate.conf", r.Name, r.Pos.File),
		"a client that leaves seems to end the backend's work; where the work goes on, more is let in than the gate's budget",
		"include snippets/stile-gate.conf;    beside the proxy_pass of what is expensive, or in the server")
	l.seen[key] = 1
}

// checkLease: the end of a request in this scope is told to stile. sev is how bad it is if not.
func (l *linter) checkLease(s *scope, sev Severity) {
	list, from := s.nearestScope("access_log")
	if leaseLog(list) == nil && len(list) > 0 {
		at, off := list[0], false
		for _, d := range list {
			if d.arg(0) == "off" {
				at, off = d, true
			}
		}
		says, fix := "an access_log of its own, without stile's: nginx inherits all of them or none", "include snippets/stile-lease.conf;    beside it"
		switch {
		case off && from.kind == httpScope:
			says, fix = "`access_log off` silences stile's lease log beside it", "nothing in its place: take this line out. Stile's log at this level keeps nginx's built-in one off as well"
		case off:
			says, fix = "`access_log off` silences the lease log, too", "include snippets/stile-lease.conf;    in its place"
		}
		l.add(sev, "access-log", at, s, says,
			"a page that takes longer than 2 s gives its place in the gate back before it has ended, and more is at work than the budget", fix)
	}
	if d := s.last("log_subrequest"); d.arg(0) == "on" {
		l.add(Warning, "log-subrequest", d, s, "`log_subrequest on`: the parts of a page (SSI, mirror) write lines of their own into the lease log",
			"a page with parts gives its place in the gate back when its first part has ended", "log_subrequest off;    in this location")
	}
	for _, d := range s.nearest("error_page") {
		_, to := errorPage(d)
		target := s.server().target(to)
		if target == nil || target == s || l.ours(target) || len(target.own["access_log"]) == 0 || leaseLog(target.own["access_log"]) != nil {
			continue
		}
		l.add(Warning, "access-log", target.own["access_log"][0], target, "requests of a gate ("+s.path()+", "+s.d.pos()+") may end here, by "+d.String()+", and their end is not told",
			"the place of a request that fails comes back by time alone", "include snippets/stile-lease.conf;    beside it, or in place of `access_log off`")
	}
}

// checkSlow: with these settings a backend waits for the client to read its answer. A location that has them of its own in
// a server that is prepared as a whole is not looked at, unless a gate's rule leads there: it has a reason.
func (l *linter) checkSlow(s *scope, ruled bool) {
	p := protocol(s.pass())
	for _, x := range []struct{ name, value, fix string }{{"_buffering", "off", "on"}, {"_max_temp_file_size", "0", "1024m"}} {
		list, from := s.nearestScope(p + x.name)
		if len(list) == 0 || list[0].arg(0) != x.value || !ruled && !l.preparedIn(s).within(from) {
			continue
		}
		l.add(Warning, "gate-slow", list[0], s, "`"+list[0].String()+"` in a location of a gate: the backend waits until the client has read its answer",
			"slow readers keep their places in the gate for as long as they like, and others wait for those", p+x.name+" "+x.fix+";    in this location")
	}
}

// answersFor: the rule's hosts are not all of other servers.
func answersFor(srv *scope, r *config.Rule) bool {
	names := srv.names()
	if len(r.Match.Host) == 0 || len(names) == 0 {
		return true
	}
	for _, h := range r.Match.Host {
		host, err := pattern.CompileHost(h)
		for _, n := range names {
			if err != nil || strings.ContainsAny(n, "*~") || strings.HasPrefix(n, ".") || host.Match(n) {
				return true
			}
		}
	}
	return false
}

// reached is where requests end that a rule may match: those of paths made from its patterns, and of paths made from the
// locations. A pattern that begins with anything is not followed.
func (l *linter) reached(srv *scope, r *config.Rule) []*scope {
	var list []*scope
	seen := make(map[*scope]bool)
	take := func(p string) {
		at := srv.route(p)
		if at == nil {
			at = srv
		}
		for _, end := range at.ends() {
			if !seen[end] && !l.ours(end) {
				seen[end] = true
				list = append(list, end)
			}
		}
	}
	var compiled []pattern.Path
	for _, text := range r.Match.Path {
		if p, err := pattern.CompilePath(text); err == nil {
			compiled = append(compiled, p)
		}
		for _, s := range samples(text) {
			take(s)
		}
	}
	matches := func(p string) bool {
		for i := range compiled {
			if compiled[i].Match(p) {
				return true
			}
		}
		return len(r.Match.Path) == 0
	}
	for _, s := range srv.scopes() {
		if s.kind != locationScope || s.modifier == "@" || s.re != nil || l.ours(s) {
			continue
		}
		paths := []string{s.uri}
		if s.modifier != "=" {
			paths = append(paths, s.uri+"x", s.uri+"x/y")
		}
		for _, p := range paths {
			if strings.HasPrefix(p, "/") && matches(p) {
				take(p)
			}
		}
	}
	return list
}

// samples is a few paths that a pattern matches.
func samples(text string) []string {
	if rest, ok := strings.CutPrefix(text, "~"); ok {
		rest, ok = strings.CutPrefix(strings.TrimPrefix(rest, "*"), "^")
		if !ok || !strings.HasPrefix(rest, "/") {
			return nil
		}
		if i := strings.IndexAny(rest, `\.[({*+?|$`); i >= 0 {
			rest = rest[:strings.LastIndexByte(rest[:i], '/')+1]
			return []string{rest, rest + "x"}
		}
		return []string{rest}
	}
	if strings.HasPrefix(text, "/**") && text != "/**" {
		return nil // anywhere: the locations tell
	}
	one := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "/**/", "/x/"), "**", "x"), "*", "x")
	two := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "/**/", "/x/y/"), "**", "x/y"), "*", "x")
	return []string{one, two}
}
