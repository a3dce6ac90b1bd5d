package lint

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// address is where something listens, or is asked: "127.0.0.1:80", "[::1]:80", "*:80", "unix:/path", "name:80".
type address struct {
	host string // of a socket "unix:/path"
	port int    // 0: a socket
}

func (a address) String() string {
	if a.port == 0 {
		return a.host
	}
	return a.host + ":" + strconv.Itoa(a.port)
}

// local: only this machine's programs can connect to it.
func (a address) local() bool {
	if a.port == 0 {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(a.host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// any: all addresses of the machine.
func (a address) any() bool { return a.host == "*" || a.host == "[::]" }

// parseAddress reads "host:port", "port", "host" or "unix:/path", as listen and upstream servers have it.
func parseAddress(s string, port int) (address, bool) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return address{host: "unix:" + path}, path != ""
	}
	if n, err := strconv.Atoi(s); err == nil {
		return address{"*", n}, n > 0 && n < 1<<16
	}
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i:], ']') < 0 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil || n <= 0 || n >= 1<<16 {
			return address{}, false // a range of ports, or a variable
		}
		host, port = s[:i], n
	}
	host = strings.ToLower(host)
	switch {
	case host == "" || strings.Contains(host, "$"):
		return address{}, false
	case host == "localhost":
		host = "127.0.0.1"
	case host == "0.0.0.0":
		host = "*"
	}
	return address{host, port}, true
}

// listens is where a server listens. One that does not say listens on port 80.
func (s *scope) listens() []address {
	if s.addresses != nil {
		return s.addresses
	}
	for _, d := range s.own["listen"] {
		if a, ok := parseAddress(d.arg(0), 80); ok {
			s.addresses = append(s.addresses, a)
		}
	}
	if len(s.own["listen"]) == 0 {
		s.addresses = []address{{"*", 80}}
	}
	return s.addresses
}

// private: nobody from outside can connect to the server.
func (s *scope) private() bool {
	list := s.listens()
	for _, a := range list {
		if !a.local() {
			return false
		}
	}
	return len(list) > 0
}

// listeners is who listens where. Hosts with thousands of servers exist, so nothing here is looked for twice.
type listeners struct {
	port     map[int][]*scope   // 0: sockets
	host     map[string]bool    // those of listens with a port
	fallback map[address]*scope // the server for names that none of that address has
	name     map[place]*scope   // the first of a name
}

// place is a name at an address.
type place struct {
	at   address
	name string
}

func (st *site) listeners() *listeners {
	if st.who != nil {
		return st.who
	}
	p := &listeners{make(map[int][]*scope), make(map[string]bool), make(map[address]*scope), make(map[place]*scope)}
	said := make(map[address]bool)
	for _, s := range st.servers {
		for _, a := range s.listens() {
			if !slices.Contains(p.port[a.port], s) {
				p.port[a.port] = append(p.port[a.port], s)
			}
			if a.port != 0 {
				p.host[a.host] = true
			}
			if p.fallback[a] == nil {
				p.fallback[a] = s
			}
		}
		for _, d := range s.own["listen"] {
			a, ok := parseAddress(d.arg(0), 80)
			if ok && !said[a] && (slices.Contains(d.args[1:], "default_server") || slices.Contains(d.args[1:], "default")) {
				p.fallback[a], said[a] = s, true
			}
		}
		for _, a := range s.listens() {
			for _, n := range s.names() {
				if p.name[place{a, n}] == nil {
					p.name[place{a, n}] = s
				}
			}
		}
	}
	st.who = p
	return p
}

// defaultFor: the server answers for names that no server of that address has.
func (st *site) defaultFor(srv *scope, a address) bool { return st.listeners().fallback[a] == srv }

// backends is the addresses that a scope's pass leads to, through upstreams and variables that are set to a text. What hangs
// on any other variable is not among them.
func (st *site) backends(s *scope) []address {
	list, ok := st.asked[s]
	if !ok {
		if st.asked == nil {
			st.asked = make(map[*scope][]address)
		}
		list = st.passedTo(s)
		st.asked[s] = list
	}
	return list
}

func (st *site) passedTo(s *scope) []address {
	pass := s.pass()
	if pass == nil {
		return nil
	}
	host, port := s.expand(pass.arg(0)), 0
	switch pass.name {
	case "proxy_pass", "grpc_pass":
		port = 80
		if scheme, rest, ok := strings.Cut(host, "://"); ok {
			if host = rest; scheme == "https" || scheme == "grpcs" {
				port = 443
			}
		}
		if rest, ok := strings.CutPrefix(host, "unix:"); ok {
			rest, _, _ = strings.Cut(rest, ":") // the URI comes behind a colon
			host = "unix:" + rest
		} else {
			host, _, _ = strings.Cut(host, "/")
		}
	case "fastcgi_pass", "uwsgi_pass", "scgi_pass":
		host = strings.TrimPrefix(strings.TrimPrefix(host, "uwsgi://"), "suwsgi://")
	default:
		return nil
	}
	var list []address
	if u := st.upstreams[host]; u != nil {
		if u.code {
			return nil
		}
		for _, d := range u.servers {
			if a, ok := parseAddress(d.arg(0), 80); ok {
				list = append(list, a)
			}
		}
		return list
	}
	if a, ok := parseAddress(host, port); ok && a.host != "" {
		list = append(list, a)
	}
	return list
}

var variableInText = regexp.MustCompile(`\$(\w+)|\$\{(\w+)\}`)

// expand puts the texts of set directives in place of their variables.
func (s *scope) expand(text string) string {
	return variableInText.ReplaceAllStringFunc(text, func(v string) string {
		name := "$" + strings.Trim(v, "${}")
		for at := s; at != nil; at = at.parent {
			for _, d := range at.own["set"] {
				if d.arg(0) == name && !strings.Contains(d.arg(1), "$") {
					return d.arg(1)
				}
			}
		}
		return v
	})
}

// serversAt is the servers of this nginx that answer at an address, for a server that asks there with its own name.
func (st *site) serversAt(a address, from *scope) []*scope {
	var all, same []*scope
	for _, s := range st.listeners().port[a.port] {
		for _, l := range s.listens() {
			if l == a || l.port == a.port && a.port != 0 && l.any() && (a.local() || a.any() || st.listensOn(a.host)) {
				all = append(all, s)
				if from != nil && shareName(s, from) {
					same = append(same, s)
				}
				break
			}
		}
	}
	if len(same) > 0 {
		return same
	}
	return all
}

// listensOn: some server listens on that host, so it is this machine's.
func (st *site) listensOn(host string) bool { return st.listeners().host[host] }

// shareName: two servers answer for the same name. Of wildcards and regular expressions only the same count.
func shareName(a, b *scope) bool {
	for _, x := range a.names() {
		for _, y := range b.names() {
			if x == y {
				return true
			}
		}
	}
	return false
}
