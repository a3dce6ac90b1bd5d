package lint

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// decodedVariables hold what nginx has decoded from a path: %0d%0a is a line break in them.
var decodedVariables = []string{"uri", "document_uri", "request_filename", "fastcgi_script_name", "fastcgi_path_info"}

// decoded finds the variables that hold such text by way of set and map. Regular expressions count if a capture of theirs
// can hold a line feed: "(.*)" cannot, "([^/]+)" can.
func (l *linter) decoded() {
	l.tainted = make(map[string]bool)
	for _, v := range decodedVariables {
		l.tainted[v] = true
	}
	var sets []*directive
	for _, srv := range l.servers {
		for _, s := range allScopes(srv) {
			sets = append(sets, s.own["set"]...)
			for _, re := range s.regexes() {
				for _, n := range re.breaks {
					if _, err := strconv.Atoi(n); err != nil {
						l.tainted[n] = true
					}
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		mark := func(name string, bad bool) {
			if name = strings.TrimPrefix(name, "$"); bad && name != "" && !l.tainted[name] {
				l.tainted[name], changed = true, true
			}
		}
		for _, d := range sets {
			mark(d.arg(0), l.breaks(d.arg(1), nil)) // of $1 set makes its encoded form
		}
		for _, d := range l.maps {
			if d.name != "map" || len(d.args) != 2 {
				continue
			}
			source := l.breaks(d.arg(0), nil)
			for _, x := range d.block {
				for _, a := range x.args {
					mark(d.arg(1), l.breaks(a, nil))
				}
				if source && strings.HasPrefix(x.name, "~") {
					for _, n := range breaking(strings.TrimPrefix(strings.TrimPrefix(x.name, "~"), "*")) {
						if _, err := strconv.Atoi(n); err != nil {
							mark(n, true)
						}
					}
				}
			}
		}
	}
}

// allScopes is scopes, and a server's ifs.
func allScopes(srv *scope) []*scope {
	list := srv.scopes()
	for _, c := range srv.children {
		if c.kind == rewriteIf {
			list = append(list, c)
		}
	}
	return list
}

// variables is the names of the variables in a text: of "$a-${b}$1" a, b and 1.
func variables(text string) (names []string) {
	for i := 0; i < len(text); i++ {
		if text[i] != '$' {
			continue
		}
		rest := text[i+1:]
		if inner, ok := strings.CutPrefix(rest, "{"); ok {
			if name, _, ok := strings.Cut(inner, "}"); ok {
				names = append(names, name)
			}
			continue
		}
		if rest != "" && '1' <= rest[0] && rest[0] <= '9' {
			names = append(names, rest[:1])
			continue
		}
		n := 0
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		if n > 0 {
			names = append(names, rest[:n])
		}
	}
	return names
}

// breaks: a text may hold a line break of the client's making, in a scope.
func (l *linter) breaks(text string, at *scope) bool {
	for _, v := range variables(text) {
		if len(v) == 1 && '1' <= v[0] && v[0] <= '9' {
			if at != nil && at.captureBreaks(v) {
				return true
			}
			continue
		}
		if l.tainted[v] {
			return true
		}
	}
	return false
}

// regex is a regular expression that is held against the decoded path, and which of its captures can hold a line feed.
type regex struct{ breaks []string }

// regexes is those of a scope itself: of its location, its ifs' conditions and its rewrites.
func (s *scope) regexes() (list []regex) {
	if s.modifier == "~" || s.modifier == "~*" {
		list = append(list, regex{breaking(s.uri)})
	}
	if s.kind == ifScope || s.kind == rewriteIf {
		a := s.d.args
		if len(a) >= 3 && (a[1] == "~" || a[1] == "~*") {
			if v := strings.TrimPrefix(strings.TrimPrefix(a[0], "("), "$"); slices.Contains(decodedVariables, v) {
				list = append(list, regex{breaking(strings.TrimSuffix(strings.Join(a[2:], " "), ")"))})
			}
		}
	}
	for _, d := range s.own["rewrite"] {
		list = append(list, regex{breaking(d.arg(0))})
	}
	return list
}

// captureBreaks: $1 of the last regular expression in a scope, or around it, can hold a line feed.
func (s *scope) captureBreaks(n string) bool {
	for ; s != nil; s = s.parent {
		if list := s.regexes(); len(list) > 0 {
			return slices.Contains(list[len(list)-1].breaks, n)
		}
	}
	return false
}

// breaking is the numbers and names of the captures of a regular expression that can hold a line feed. One that Go cannot
// read has none.
func breaking(text string) (list []string) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil
	}
	var walk func(re *syntax.Regexp)
	walk = func(re *syntax.Regexp) {
		if re.Op == syntax.OpCapture && hasBreak(re) {
			list = append(list, strconv.Itoa(re.Cap))
			if re.Name != "" {
				list = append(list, re.Name)
			}
		}
		for _, sub := range re.Sub {
			walk(sub)
		}
	}
	walk(re)
	return list
}

func hasBreak(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar:
		return true
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if re.Rune[i] <= '\n' && '\n' <= re.Rune[i+1] {
				return true
			}
		}
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	}
	return slices.ContainsFunc(re.Sub, hasBreak)
}

// checkHeaders looks for line breaks of a client's making in what nginx sends to backends.
func (l *linter) checkHeaders() {
	for _, srv := range l.servers {
		asks := l.sides[srv].asks
		for _, s := range srv.scopes() {
			p := s.pass()
			if p == nil || p.name != "proxy_pass" {
				continue
			}
			daemon := l.toDaemon(s)
			if l.sides[srv].check[s] {
				continue // its $uri is its own path, and check-headers looks at what is told
			}
			for _, d := range s.nearest("proxy_set_header") {
				if !l.breaks(d.arg(1), s) {
					continue
				}
				safe := "proxy_set_header " + d.arg(0) + " $request_uri;    which nginx has not decoded"
				if daemon {
					l.add(Error, "decoded-header", d, s, "`"+d.String()+"` tells stile what nginx has decoded",
						"a path with %0d%0a in it begins a header of the client's making: an address or a user of his choice", safe)
				} else if asks {
					l.add(Warning, "decoded-header", d, s, "`"+d.String()+"` hands on what nginx has decoded",
						"a path with %0d%0a in it begins a header of the client's making, which the backend takes for nginx's", safe)
				}
			}
			if asks && !daemon && l.breaks(p.arg(0), s) {
				l.add(Error, "decoded-pass", p, s, "`"+p.String()+"` hands on a path that nginx has decoded, as it is",
					"a path with %0d%0a in it begins a second request: the backend works for both, and stile was asked about one",
					"without a variable for the path: nginx encodes it again (after a rewrite … break, too). Or $request_uri")
			}
		}
	}
}
