package lint

// before is the server that gets all requests that a server was written for: nginx takes the first of a name at an
// address, and ignores later ones. nil: there is none.
func (l *linter) before(srv *scope) (first *scope) {
	if srv.own["server_name"] == nil {
		return nil
	}
	for _, a := range srv.listens() {
		if l.defaultFor(srv, a) {
			return nil
		}
		for _, n := range srv.names() {
			if first = l.listeners().name[place{a, n}]; first == srv {
				return nil
			}
		}
	}
	return first
}

// checkNames: a protected server that nginx ignores protects nothing.
func (l *linter) checkNames() {
	for _, srv := range l.servers {
		first := l.before(srv)
		if first == nil || !l.sides[srv].asks || l.sides[first].asks {
			continue
		}
		l.add(Error, "name-taken", srv.own["server_name"][0], srv, "nginx ignores this server: that of "+first.d.pos()+" has the same name and address, and comes first (nginx -t warns of it)",
			"what the other one has, and stile is not asked there", "one of the two, and in it include snippets/stile.conf;")
	}
}
