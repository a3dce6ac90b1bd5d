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
			way += ", and `" + d.String() + ";` before it"
		}
	}
	for _, c := range l.checks(srv) {
		p := srv.rerun(c.uri)
		for _, m := range p.moved {
			if at := srv.route(m.uri); at != c {
				l.add(Error, "rewritten", m.d, srv, "`"+m.d.String()+"` holds for the question to stile, too: nginx asks "+m.uri+" in its place",
					"everything, as if stile were not there, if the site says 200 to "+m.uri+" (it works twice for each page, then); else 500 Internal Server Error for every page",
					way)
			}
		}
		for _, d := range p.answers {
			l.add(Error, "rewritten", d, srv, "`"+d.String()+"` answers the question to stile, which has the path "+c.uri+" and no arguments", l.answerSeen(d), way)
		}
		l.checkSets(srv, c, p, way)
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
func (l *linter) checkSets(srv, c *scope, p *phase, way string) {
	for _, name := range slices.Sorted(maps.Keys(p.ran)) {
		list := p.ran[name]
		at, why, value := list[0].d, "", "the value for that path"
		for _, x := range list {
			if x.varies {
				at, why = x.d, "where the path is "+c.uri+" and there are no arguments"
			}
		}
		if why == "" && p.missed[name] {
			why = "where the if about the path or the arguments that has changed " + name + " does not hold"
		}
		use := l.used(srv, name)
		if why == "" {
			var in *directive
			if in, use = l.overridden(srv, at); in == nil {
				continue
			}
			why, value = "after the location has set it ("+in.pos()+")", "the server's value"
		}
		if use == nil {
			continue
		}
		sev, seen := Warning, "`"+use.String()+"` ("+use.pos()+") works with "+value+", not with the page's"
		switch n := use.name; {
		case strings.HasSuffix(n, "_cache_key"):
			sev, seen = Error, "`"+use.String()+"` ("+use.pos()+") makes one key for many pages: who comes later gets the page of who came first"
		case strings.HasSuffix(n, "_pass"), strings.HasSuffix(n, "_cache_bypass"), strings.HasSuffix(n, "_no_cache"), n == "root", n == "alias":
			sev = Error
		}
		l.add(sev, "set-again", at, srv, "`"+at.String()+"` runs once more with the question to stile, "+why, seen, way+". Or a map in http in place of the set")
	}
}

// overridden is the set in a location that gives a variable another value than the server's, and what uses it there.
func (l *linter) overridden(srv *scope, server *directive) (in, use *directive) {
	for _, s := range srv.scopes() {
		if s.kind == serverScope || l.ours(s) {
			continue
		}
		for _, d := range s.own["set"] {
			if d.arg(0) != server.arg(0) || d.arg(1) == server.arg(1) {
				continue
			}
			if use := l.used(s, d.arg(0)); use != nil {
				return d, use
			}
		}
	}
	return nil, nil
}

// used is the directive in a scope that a variable's value matters most to after stile has been asked, or nil.
func (l *linter) used(at *scope, name string) (use *directive) {
	for _, s := range at.scopes() {
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
