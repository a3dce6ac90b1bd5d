package lint

import "strings"

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
