package lint

import "strings"

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
func (s *scope) names() []string {
	if s.hosts != nil {
		return s.hosts
	}
	s.hosts = []string{}
	for _, d := range s.own["server_name"] {
		for _, n := range d.args {
			if n != "" && n != "_" && n != `""` {
				s.hosts = append(s.hosts, strings.ToLower(n))
			}
		}
	}
	return s.hosts
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
