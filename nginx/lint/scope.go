package lint

import (
	"errors"
	"fmt"
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
	phase    []step                  // of a server or an if in it: what runs in the rewrite phase
	children []*scope

	// Of a server, worked out when asked for:
	addresses []address
	hosts     []string

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
	who       *listeners              // worked out when asked for
	asked     map[*scope][]address    // by a scope's pass: see backends
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
		if (at.kind == serverScope || at.kind == rewriteIf) && rewriting(d.name) {
			at.phase = append(at.phase, step{d, child})
		}
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
