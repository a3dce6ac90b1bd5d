package lint

import (
	"slices"
	"strings"
)

// stream is a server of the stream { } block: it hands connections on, and knows nothing of requests.
type stream struct {
	d             *directive
	listens       []address
	to            []address
	pass          *directive
	proxyProtocol bool
}

// streams is the stream servers that others than this machine's programs can reach.
func (l *linter) streams() (list []*stream) {
	servers := make(map[string][]address) // by upstream
	choices := make(map[string][]string)  // by variable: what a map may make of it
	walk := func(of []*directive, f func(*directive)) { _ = l.each(of, 0, f) }
	for _, top := range l.top {
		if top.name != "stream" {
			continue
		}
		var blocks []*directive
		protocol := false
		walk(top.block, func(d *directive) {
			switch d.name {
			case "upstream":
				walk(d.block, func(x *directive) {
					if a, ok := parseAddress(x.arg(0), 0); ok && x.name == "server" && x.arg(0) != "" {
						servers[d.arg(0)] = append(servers[d.arg(0)], a)
					}
				})
			case "map":
				walk(d.block, func(x *directive) { choices[d.arg(1)] = append(choices[d.arg(1)], x.arg(0)) })
			case "proxy_protocol":
				protocol = d.arg(0) == "on"
			case "server":
				blocks = append(blocks, d)
			}
		})
		for _, d := range blocks {
			st := &stream{d: d, proxyProtocol: protocol}
			open := false
			walk(d.block, func(x *directive) {
				switch x.name {
				case "listen":
					a, ok := parseAddress(x.arg(0), 0)
					open = open || ok && !a.local()
					st.listens = append(st.listens, a)
				case "proxy_pass":
					st.pass = x
				case "proxy_protocol":
					st.proxyProtocol = x.arg(0) == "on"
				}
			})
			if !open || st.pass == nil {
				continue
			}
			names := []string{st.pass.arg(0)}
			if strings.HasPrefix(names[0], "$") {
				names = choices[names[0]]
			}
			for _, n := range names {
				if list, ok := servers[n]; ok {
					st.to = append(st.to, list...)
				} else if a, ok := parseAddress(n, 0); ok {
					st.to = append(st.to, a)
				}
			}
			list = append(list, st)
		}
	}
	return list
}

// checkStreams looks for ways through stream { } to what is protected in http { }.
func (l *linter) checkStreams() {
	for _, st := range l.streams() {
		for _, srv := range l.servers {
			sd := l.sides[srv]
			if !sd.asks {
				continue
			}
			for _, s := range sd.scopes {
				if sd.verdict[s] == stile && s.pass() != nil && slices.ContainsFunc(l.backends(s), func(a address) bool { return slices.Contains(st.to, a) }) {
					l.add(Error, "stream", st.pass, nil, "`"+st.pass.String()+"` of a stream server leads to the backend of "+l.where(s)+", past the http part and stile",
						"whoever connects there: everything, and stile does not learn of it", "proxy_pass ADDRESS;    of an http server with snippets/stile.conf that listens on 127.0.0.1, or nothing: close that port")
					break
				}
			}
			if at := l.meets(st, srv); at != nil && (!st.proxyProtocol || srv.value("real_ip_header") != "proxy_protocol" || srv.last("set_real_ip_from") == nil) {
				l.add(Error, "real-ip", st.pass, nil, "`"+st.pass.String()+"` of a stream server hands visitors to a protected server ("+at.pos()+"), and their addresses get lost on the way",
					"all visitors are one stranger, with this machine's address: a few fast readers, and everybody is asked for a proof or refused",
					"proxy_protocol on;    in the stream server; and in the other one: "+listenLine(at)+" set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;")
			}
		}
	}
}

// meets is the listen of a server to which a stream leads, or nil.
func (l *linter) meets(st *stream, srv *scope) *directive {
	for _, d := range srv.own["listen"] {
		a, ok := parseAddress(d.arg(0), 80)
		if ok && slices.ContainsFunc(st.to, func(b address) bool { return a == b || a.any() && b.local() && b.port == a.port && b.port != 0 }) {
			return d
		}
	}
	return nil
}

// listenLine is a listen with proxy_protocol.
func listenLine(d *directive) string {
	if slices.Contains(d.args, "proxy_protocol") {
		return d.String() + ";"
	}
	return d.String() + " proxy_protocol;"
}
