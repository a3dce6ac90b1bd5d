package lint

import (
	"maps"
	"slices"
	"strings"
)

// checkRewrites looks at what a server's rewrite phase does to the question to stile, and to stile's own files.
func (l *linter) checkRewrites(srv *scope) {
	if len(srv.phase) == 0 {
		return
	}
	way := "if ($uri ~ ^/\\.stile/) { break; }    above this line"
	for _, d := range srv.own["set"] {
		if d.arg(0) == "$stile_scheme" {
			way += ", and below `" + d.String() + "`"
		}
	}
	for _, c := range l.checks(srv) {
		p := srv.rerun(c.uri)
		for _, m := range p.moved {
			if at := srv.route(m.uri); at != c {
				l.add(Error, "rewritten", m.d, srv, "`"+m.d.String()+"` holds for the question to stile, too: nginx asks "+m.uri+" in its place",
					"everything, and without stile, wherever the site says 200 to "+m.uri+" (and works twice for it); where it says something else, 500 Internal Server Error",
					way)
			}
		}
		for _, d := range p.answers {
			l.add(Error, "rewritten", d, srv, "`"+d.String()+"` answers the question to stile, which has the path "+c.uri+" and no arguments", l.answerSeen(d), way)
		}
		l.checkSets(srv, p, way)
	}
	p := srv.rerun("/.stile/solve.js")
	broken := "a page that asks for a proof, and whose script does not come: nobody can solve anything"
	for _, m := range p.moved {
		if at := srv.route(m.uri); at == nil || !l.ours(at) {
			l.add(Error, "rewritten", m.d, srv, "`"+m.d.String()+"` takes stile's own files to "+m.uri+", too", broken, way)
		}
	}
	for _, d := range p.answers {
		l.add(Error, "rewritten", d, srv, "`"+d.String()+"` answers for stile's own files, too", broken, way)
	}
}

// checks is the locations of a server that put the question to stile.
func (l *linter) checks(srv *scope) (list []*scope) {
	for _, s := range srv.scopes() {
		if l.sides[srv].check[s] {
			list = append(list, s)
		}
	}
	return list
}

// answerSeen is what a visitor sees when the question is answered by a return or a redirect.
func (l *linter) answerSeen(d *directive) string {
	switch code := d.arg(0); {
	case d.name == "return" && strings.HasPrefix(code, "2"):
		return "everything, as if stile were not there"
	case d.name == "return" && (code == "403" || code == "401"):
		return "nginx's bare " + code + ", for every page"
	case d.name == "return" && code == "444":
		return "a connection that nginx closes, for every page"
	}
	return "500 Internal Server Error, for every page that is not answered so itself"
}

// checkSets looks at variables that have another value after the second run than before it.
func (l *linter) checkSets(srv *scope, p *phase, way string) {
	inside := make(map[string]*directive) // by variable: a set in a location
	for _, s := range srv.scopes() {
		if s.kind == serverScope || l.ours(s) {
			continue
		}
		for _, d := range s.own["set"] {
			inside[d.arg(0)] = d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.ran)) {
		list := p.ran[name]
		at, why := list[0].d, ""
		in := inside[name]
		for _, x := range list {
			if x.varies {
				at, why = x.d, "where the path is /.stile/check and there are no arguments"
			}
		}
		switch {
		case why != "":
		case p.missed[name]:
			why = "where what an if about the path or the arguments has set is not set again"
		case in != nil && in.arg(1) != at.arg(1):
			why = "after the location has set it (" + in.pos() + ")"
		default:
			continue
		}
		use := l.used(srv, name)
		if use == nil {
			continue
		}
		sev := Warning
		switch n := use.name; {
		case strings.HasSuffix(n, "_pass"), strings.HasSuffix(n, "_cache_key"), strings.HasSuffix(n, "_cache_bypass"), strings.HasSuffix(n, "_no_cache"), n == "root", n == "alias":
			sev = Error
		}
		l.add(sev, "set-again", at, srv, "`"+at.String()+"` runs once more with the question to stile, "+why,
			"what `"+use.String()+"` ("+use.pos()+") makes of that value, which is not the page's", way+". Or a map in place of the set")
	}
}

// used is the directive that a variable's value matters most to after stile has been asked, or nil.
func (l *linter) used(srv *scope, name string) (use *directive) {
	for _, s := range srv.scopes() {
		if l.ours(s) && !strings.HasPrefix(name, "$stile_") {
			continue
		}
		for _, d := range s.order {
			if rewriting(d.name) || strings.HasPrefix(d.name, "limit_") {
				continue
			}
			for _, a := range d.args {
				if containsVariable(a, strings.ToLower(name)) && (use == nil || strings.HasSuffix(d.name, "_pass") || strings.HasSuffix(d.name, "_cache_key")) {
					use = d
				}
			}
		}
	}
	return use
}
