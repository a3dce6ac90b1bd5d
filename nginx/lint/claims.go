package lint

import (
	"slices"
	"strings"
)

// ofClient: what a variable holds the client has written, whoever he is.
func ofClient(name string) bool {
	return strings.HasPrefix(name, "http_") || strings.HasPrefix(name, "cookie_") || strings.HasPrefix(name, "arg_")
}

// checkUsers: $stile_user is a user whom nginx has verified, and not one who says so.
func (l *linter) checkUsers(srv *scope) {
	var sets []*scope
	for _, s := range allScopes(srv) {
		if len(s.own["set"]) > 0 && !l.ours(s) {
			sets = append(sets, s)
		}
	}
	const (
		seen = "whoever writes that name is that user: his limits, no proofs, and as many names as he likes"
		fix  = "beside the auth_basic that verifies it, and nowhere else: set $stile_user $remote_user;"
	)
	for _, at := range sets {
		for _, d := range at.own["set"] {
			if d.arg(0) != "$stile_user" {
				continue
			}
			names := variables(d.arg(1))
			if i := slices.IndexFunc(names, ofClient); i >= 0 && !srv.private() {
				l.add(Error, "claimed-user", d, at, "$"+names[i]+" is what the client writes, and is taken for a user", seen, fix)
			} else if i >= 0 {
				l.add(Warning, "claimed-user", d, at, "$"+names[i]+" is taken for a user: it is what the client writes, unless the proxy in front takes that away", seen, fix)
			}
			if !slices.Contains(names, "remote_user") {
				continue
			}
			for _, s := range l.sides[srv].scopes {
				if v, _ := l.asks(s); v != stile || !s.within(at) || len(s.own["return"]) > 0 {
					continue
				}
				if b := s.value("auth_basic"); b == "" || b == "off" {
					l.add(Error, "claimed-user", d, s, "$remote_user is taken for a user where no auth_basic has verified it", seen, fix)
					break
				}
			}
		}
	}
}

// within: what is set in another scope holds in this one. That of an if in a server is the server.
func (s *scope) within(at *scope) bool {
	if at.kind == rewriteIf {
		at = at.parent
	}
	for ; s != nil; s = s.parent {
		if s == at {
			return true
		}
	}
	return false
}

// checkCopies: mirror and post_action work for whatever a location answers, and stile's locations inherit them.
func (l *linter) checkCopies(srv *scope) {
	for _, name := range []string{"mirror", "post_action"} {
		d := srv.last(name)
		if d == nil || d.arg(0) == "off" {
			continue
		}
		if to := srv.target(d.arg(0)); to == nil || to.pass() == nil {
			continue
		}
		l.add(Error, "mirror", d, srv, "`"+d.String()+"` holds in stile's own locations, too, which answer whom stile does not let in",
			"the backend behind "+d.arg(0)+" works for every request that is refused or asked for a proof",
			d.String()+";    in the locations that it is for, in place of here")
	}
}

// headRoom is the longest head of a request that the daemon reads: server's readBuffer.
const headRoom = 48 << 10

// checkHead: what nginx hands on the daemon should be able to read.
func (l *linter) checkHead(srv *scope) {
	d := srv.last("large_client_header_buffers")
	if n, ok := parseSize(d.arg(1)); ok && n >= headRoom {
		l.add(Note, "large-head", d, srv, "`"+d.String()+"`: a single header may be longer than the 48 KB that stile reads of all of them",
			"a plain 403 Forbidden, for whom sends that much", "large_client_header_buffers 4 32k;    unless a program of yours needs more: that goes into a location with auth_request off")
	}
}
