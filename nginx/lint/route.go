package lint

import (
	"path"
	"regexp"
	"strings"
)

// place reads the words of a location: "= /x", but also "=/x".
func (s *scope) place(args []string) {
	if len(args) == 0 {
		return
	}
	s.uri = args[0]
	if len(args) > 1 {
		s.modifier, s.uri = args[0], args[1]
	} else {
		for _, m := range []string{"=", "^~", "~*", "~", "@"} {
			if rest, ok := strings.CutPrefix(args[0], m); ok {
				s.modifier, s.uri = m, rest
				break
			}
		}
	}
	switch s.modifier {
	case "~":
		s.re, _ = regexp.Compile(s.uri) // one that Go does not know matches nothing here
	case "~*":
		s.re, _ = regexp.Compile("(?i)" + s.uri)
	}
}

// route is the location to which nginx takes a normalised path (ngx_http_core_find_location): an exact one, else the
// longest prefix, unless a regular expression comes first. nil: none, the server itself answers.
func (s *scope) route(p string) *scope {
	found, _ := s.find(p)
	return found
}

func (s *scope) find(p string) (found *scope, exact bool) {
	for _, c := range s.children {
		if c.kind != locationScope {
			continue
		}
		switch c.modifier {
		case "=":
			if c.uri == p {
				return c, true
			}
		case "", "^~":
			if strings.HasPrefix(p, c.uri) && (found == nil || len(c.uri) > len(found.uri)) {
				found = c
			}
		}
	}
	noRegex := found != nil && found.modifier == "^~"
	if found != nil {
		if inner, exact := found.find(p); inner != nil {
			if exact || inner.re != nil {
				return inner, exact
			}
			found = inner // its "^~" is about the expressions beside it
		}
	}
	if noRegex {
		return found, false
	}
	for _, c := range s.children {
		if c.kind == locationScope && c.re != nil && c.re.MatchString(p) {
			if inner, _ := c.find(p); inner != nil {
				return inner, false
			}
			return c, false
		}
	}
	return found, false
}

// named is a server's named location.
func (s *scope) named(name string) *scope {
	for _, c := range s.children {
		if c.kind == locationScope && c.modifier == "@" && c.uri == strings.TrimPrefix(name, "@") {
			return c
		}
	}
	return nil
}

// target is the location that a name or a URI of error_page, try_files or rewrite leads to. nil: none that is known.
func (s *scope) target(uri string) *scope {
	if strings.HasPrefix(uri, "@") {
		return s.named(uri)
	}
	if i := strings.IndexAny(uri, "$?"); i >= 0 {
		uri = uri[:i]
	}
	if !strings.HasPrefix(uri, "/") {
		return nil
	}
	clean := path.Clean(uri)
	if strings.HasSuffix(uri, "/") && clean != "/" {
		clean += "/"
	}
	return s.route(clean)
}

// ends is where the requests end that come to a location: there, or where try_files, rewrite or error_page 404 takes them.
func (s *scope) ends() []*scope {
	seen := make(map[*scope]bool)
	var list []*scope
	var walk func(at *scope)
	walk = func(at *scope) {
		if at == nil || seen[at] {
			return
		}
		seen[at] = true
		list = append(list, at)
		srv := at.server()
		for _, d := range at.own["try_files"] {
			walk(srv.target(d.arg(len(d.args) - 1)))
		}
		for _, d := range at.own["rewrite"] {
			if flag := d.arg(2); flag == "last" || flag == "" {
				walk(srv.target(d.arg(1)))
			}
		}
		if at.pass() == nil {
			for _, d := range at.own["error_page"] {
				codes, to := errorPage(d)
				for _, r := range at.own["return"] {
					if codes[r.arg(0)] { // error_page 418 = @other; return 418;
						walk(srv.target(to))
					}
				}
				if codes["404"] || codes["405"] {
					walk(srv.target(to))
				}
			}
		}
		for _, c := range at.children {
			if c.kind == ifScope || c.kind == exceptScope {
				walk(c)
			}
		}
	}
	walk(s)
	return list
}

// errorPage reads an error_page: its codes, and where it leads.
func errorPage(d *directive) (codes map[string]bool, to string) {
	codes = make(map[string]bool)
	if len(d.args) < 2 {
		return codes, ""
	}
	for _, a := range d.args[:len(d.args)-1] {
		codes[a] = true
	}
	return codes, d.args[len(d.args)-1]
}
