package lint

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// kind is what a scope is.
type kind uint8

const (
	httpScope kind = iota
	serverScope
	locationScope
	ifScope     // in a location: nginx makes a location of it
	rewriteIf   // in a server: only return, rewrite, set and break
	exceptScope // limit_except
)

// scope is a block in which directives hold, with its includes resolved. What it does not say itself it inherits.
type scope struct {
	kind     kind
	d        *directive // of the block
	parent   *scope
	own      map[string][]*directive // by name, in nginx's order
	order    []*directive            // the same
	children []*scope

	// Of a location:
	modifier, uri string // "", "=", "^~", "~", "~*" or "@"
	re            *regexp.Regexp
}

// upstream is an upstream block's servers.
type upstream struct {
	d       *directive
	servers []*directive
	code    bool // a program chooses, and the servers mean nothing
}

// site is the http part of a configuration.
type site struct {
	*dump
	http      *scope
	top       []*directive // outside of http
	servers   []*scope
	upstreams map[string]*upstream
	maps      []*directive // map, geo and the like
	visited   int
	found     map[*directive][]string // by include
}

// resolve follows the includes and makes scopes of the blocks.
func resolve(d *dump) (*site, error) {
	s := &site{dump: d, upstreams: make(map[string]*upstream), found: make(map[*directive][]string)}
	main := &scope{kind: httpScope, own: make(map[string][]*directive)}
	if err := s.fill(main, d.files[d.main], 0, true); err != nil {
		return nil, err
	}
	if s.http == nil {
		return nil, fmt.Errorf("%s: there is no http { } block", d.main)
	}
	s.top = main.order
	return s, nil
}

func (s *site) fill(at *scope, list []*directive, depth int, main bool) error {
	if depth > maxDepth {
		return errors.New("includes in includes, more than 100 deep: does a file include itself?")
	}
	for _, d := range list {
		if s.visited++; s.visited > maxDirectives {
			return fmt.Errorf("more than %d directives with all includes, which no configuration has", maxDirectives)
		}
		if d.name == "include" && !d.open && len(d.args) == 1 {
			names, err := s.includedBy(d)
			if err != nil {
				return err
			}
			for _, n := range names {
				if err := s.fill(at, s.files[n], depth+1, main); err != nil {
					return err
				}
			}
			// What is included is kept, so that it can be seen which snippets a scope has.
			at.own["include"] = append(at.own["include"], d)
			continue
		}
		child := s.child(at, d, main)
		if child == nil {
			at.own[d.name] = append(at.own[d.name], d)
			at.order = append(at.order, d)
			continue
		}
		if err := s.fill(child, d.block, depth+1, false); err != nil {
			return err
		}
	}
	return nil
}

// includedBy is included, remembered: a snippet may be included by hundreds of servers.
func (s *site) includedBy(d *directive) ([]string, error) {
	if names, ok := s.found[d]; ok {
		return names, nil
	}
	names, err := s.included(d)
	if err == nil {
		s.found[d] = names
	}
	return names, err
}

// child is the scope that a block opens, or nil if it is none that nginx keeps settings in.
func (s *site) child(at *scope, d *directive, main bool) *scope {
	if !d.open {
		return nil
	}
	c := &scope{d: d, parent: at, own: make(map[string][]*directive)}
	switch {
	case main:
		if d.name != "http" {
			return nil
		}
		if s.http != nil {
			return s.http
		}
		c.parent = nil
		s.http = c
		return c
	case at.kind == httpScope && d.name == "server":
		c.kind = serverScope
		s.servers = append(s.servers, c)
	case at.kind == httpScope && d.name == "upstream":
		u := &upstream{d: d}
		_ = s.each(d.block, 0, func(x *directive) { // its includes were read by nginx
			if x.name == "server" {
				u.servers = append(u.servers, x)
			}
			u.code = u.code || strings.HasPrefix(x.name, "balancer_by_lua")
		})
		s.upstreams[d.arg(0)] = u
		return nil
	case at.kind == httpScope:
		s.maps = append(s.maps, d)
		return nil
	case (at.kind == serverScope || at.kind == locationScope) && d.name == "location":
		c.kind = locationScope
		c.place(d.args)
	case at.kind == serverScope && d.name == "if":
		c.kind = rewriteIf
	case at.kind == locationScope && d.name == "if":
		c.kind = ifScope
	case at.kind == locationScope && d.name == "limit_except":
		c.kind = exceptScope
	default:
		return nil
	}
	at.children = append(at.children, c)
	return c
}

// each calls f for every directive of a list and of what it includes.
func (s *site) each(list []*directive, depth int, f func(*directive)) error {
	for _, d := range list {
		if s.visited++; depth > maxDepth || s.visited > maxDirectives {
			return errors.New("too many includes")
		}
		if d.name != "include" || d.open || len(d.args) != 1 {
			f(d)
			continue
		}
		names, err := s.includedBy(d)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := s.each(s.files[n], depth+1, f); err != nil {
				return err
			}
		}
	}
	return nil
}

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

// last is the directive that holds for a setting with one value: the scope's own, or that of the nearest scope around it.
func (s *scope) last(name string) *directive {
	list := s.nearest(name)
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// value is the first argument of last, or "".
func (s *scope) value(name string) string { return s.last(name).arg(0) }

// nearest is the directives that hold for a setting that is a list (error_page, access_log, …): all of the nearest scope
// that has any, and none of those further out.
func (s *scope) nearest(names ...string) []*directive {
	list, _ := s.nearestScope(names...)
	return list
}

func (s *scope) nearestScope(names ...string) ([]*directive, *scope) {
	for ; s != nil; s = s.parent {
		var list []*directive
		for _, n := range names {
			list = append(list, s.own[n]...)
		}
		if len(list) > 0 {
			return list, s
		}
	}
	return nil, nil
}

// server is the server that a scope is in, or nil.
func (s *scope) server() *scope {
	for s != nil && s.kind != serverScope {
		s = s.parent
	}
	return s
}

// scopes is a scope and those in it that can answer a request: locations, and ifs and limit_excepts in them.
func (s *scope) scopes() []*scope {
	list := []*scope{s}
	for _, c := range s.children {
		if c.kind != rewriteIf {
			list = append(list, c.scopes()...)
		}
	}
	return list
}

// path is how an operator would name a scope: "location /x".
func (s *scope) path() string {
	if s.kind == serverScope {
		return "server"
	}
	return s.d.String()
}

// includes tells whether a scope has itself included a file with that name.
func (s *scope) includes(name string) bool {
	for _, d := range s.own["include"] {
		if a := d.arg(0); a == name || strings.HasSuffix(a, "/"+name) {
			return true
		}
	}
	return false
}

// names is a server's names; a server without any has none.
func (s *scope) names() (names []string) {
	for _, d := range s.own["server_name"] {
		for _, n := range d.args {
			if n != "" && n != "_" && n != `""` {
				names = append(names, strings.ToLower(n))
			}
		}
	}
	return names
}

// title is how an operator would name a server.
func (s *scope) title() string {
	if names := s.names(); len(names) > 0 {
		return names[0]
	}
	if l := s.own["listen"]; len(l) > 0 {
		return "of " + l[0].arg(0)
	}
	return "without a name"
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

// passes is the directives that hand a request to something that works for it.
var passes = []string{"proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "passenger_enabled",
	"content_by_lua", "content_by_lua_block", "content_by_lua_file", "js_content", "perl"}

// pass is the directive that hands a scope's requests to a backend, or nil. It is not inherited, but by if and limit_except.
func (s *scope) pass() *directive {
	for _, n := range passes {
		if list := s.own[n]; len(list) > 0 && list[len(list)-1].arg(0) != "off" {
			return list[len(list)-1]
		}
	}
	if s.kind == ifScope || s.kind == exceptScope {
		return s.parent.pass()
	}
	return nil
}

// protocol is "proxy" of proxy_pass.
func protocol(pass *directive) string {
	p, _, ok := strings.Cut(pass.name, "_pass")
	if !ok {
		return ""
	}
	return p
}
