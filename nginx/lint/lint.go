// Package lint reads the output of `nginx -T` and names what keeps stile from protecting a site: places where nobody
// is asked, where a visitor sees a bare error page, where a gate is not told that work has ended.
//
// It parses the whole language and follows nginx's inheritance, so a finding is about what holds at a place, not about a
// line that looks wrong. What cannot be known from a configuration (a firewall, another machine's proxy, what a variable
// holds) it does not guess: it looks for signs, and says that they are signs.
package lint

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stile/config"
)

// Severity says how bad a finding is.
type Severity uint8

const (
	Note    Severity = iota // to know
	Warning                 // a hole or a break if something is so that cannot be seen from here
	Error                   // a hole, or a break
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// Finding is one thing that is not as it should be. A warning or a note does not appear when the line that it names ends in
// the comment "# stile: meant"; an error always does.
type Finding struct {
	Severity Severity
	Code     string // a short name, the same for all findings of a kind
	File     string
	Line     int
	Where    string // the server and the location
	More     int    // other servers and locations where the same line does the same
	Says     string // what is wrong
	Seen     string // what a visitor, or a scraper, gets to see
	Write    string // what to write, and where
}

// Options is what is known beside the configuration. The zero value is usable.
type Options struct {
	Stile     *config.Config   // stile's own; nil: none, and what hangs on its rules is not looked at
	Version   string           // of this stile, for messages
	CPUs      int              // of the machine, for "worker_processes auto"; 0: one
	Backlog   int              // net.core.somaxconn of the machine; 0: 4096
	Listening []netip.AddrPort // what listens on the machine, if it is known
	Addresses []netip.Addr     // the machine's own addresses, if they are known
}

// Report is everything that was found.
type Report struct {
	Findings []Finding // the worst first, then as the files come
	Servers  []Server  // in nginx's order
}

// Server is what holds for one server block.
type Server struct {
	Name      string
	File      string
	Line      int
	State     string   // "protected, and open while stile is down" and the like
	Asked     []string // locations where stile is asked
	Gated     []string // those of them that see a request through for a gate
	Unasked   []string // locations where it is not, and why
	Protected bool
}

// Count is the number of findings of a severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Check reads the output of nginx -T and looks for holes. An error means that it cannot be read, and completes a sentence
// that begins with the file's name.
func Check(text []byte, o Options) (*Report, error) {
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	st, err := resolve(d)
	if err != nil {
		return nil, fmt.Errorf("cannot be followed: %w", err)
	}
	if o.CPUs == 0 {
		o.CPUs = 1
	}
	if o.Backlog == 0 {
		o.Backlog = 4096
	}
	l := &linter{site: st, o: o, seen: make(map[string]int), sides: make(map[*scope]*side)}
	l.lint()
	return l.report(), nil
}

// linter collects findings about one configuration.
type linter struct {
	*site
	o        Options
	sides    map[*scope]*side
	tainted  map[string]bool       // variables that hold what nginx has decoded
	handed   map[*scope]*directive // see handedBy
	findings []Finding
	seen     map[string]int // index of a finding plus one, by its code and line
}

// add makes a finding about a directive, as it holds in a scope. The same line is found once.
func (l *linter) add(sev Severity, code string, d *directive, at *scope, says, seen, write string) {
	if d.meant && sev < Error {
		return
	}
	where := l.where(at)
	key := code + "\x00" + d.pos()
	if i := l.seen[key]; i > 0 {
		if f := &l.findings[i-1]; f.Where != where {
			f.More++
		}
		return
	}
	l.findings = append(l.findings, Finding{Severity: sev, Code: code, File: d.file, Line: d.line, Where: where, Says: says, Seen: seen, Write: write})
	l.seen[key] = len(l.findings)
}

// where is the place of a scope in words. nil: in stream { }.
func (l *linter) where(at *scope) string {
	if at == nil {
		return "stream"
	}
	srv := at.server()
	if srv == nil {
		return "http"
	}
	text := "server " + srv.title()
	for s, path := at, []string(nil); ; s = s.parent {
		if s.kind == serverScope {
			if len(path) == 0 {
				return text
			}
			slices.Reverse(path)
			return text + ", " + strings.Join(path, ", ")
		}
		path = append(path, s.path())
	}
}

// side is how a server stands to stile.
type side struct {
	asks    bool               // somewhere in it stile is asked
	outer   bool               // it hands everything to servers that ask
	check   map[*scope]bool    // its check locations
	scopes  []*scope           // the site's own: all but stile's
	verdict map[*scope]verdict // by scope
}

// verdict is who is asked in a scope.
type verdict uint8

const (
	nobody verdict = iota
	stile
	somebodyElse
)

// ours: a location that belongs to stile: it is named so, or it hands on to the daemon.
func (l *linter) ours(s *scope) bool {
	for ; s != nil && s.kind != serverScope; s = s.parent {
		if s.modifier == "@" && strings.HasPrefix(s.uri, "stile_") || strings.HasPrefix(s.uri, "/.stile/") || l.toDaemon(s) {
			return true
		}
	}
	return false
}

// toDaemon: the scope hands its requests to stile.
func (l *linter) toDaemon(s *scope) bool {
	p := s.pass()
	if p == nil || p.name != "proxy_pass" {
		return false
	}
	if rest, ok := strings.CutPrefix(p.arg(0), "http://stile"); ok && (rest == "" || rest[0] == '/') {
		return true
	}
	for _, a := range l.backends(s) {
		if a.port == 0 && strings.HasSuffix(a.host, "/stile.sock") || l.o.Stile != nil && a.String() == l.o.Stile.Listen.Check {
			return true
		}
	}
	return false
}

// asks is who is asked before a scope answers, and where.
func (l *linter) asks(s *scope) (verdict, *scope) {
	uri := s.value("auth_request")
	if uri == "" || uri == "off" {
		return nobody, nil
	}
	srv := s.server()
	if srv == nil {
		return nobody, nil
	}
	check := srv.target(uri)
	if uri == "/.stile/check" || check != nil && l.toDaemon(check) {
		return stile, check
	}
	return somebodyElse, check
}

func (l *linter) lint() {
	l.decoded()
	for _, srv := range l.servers {
		l.sides[srv] = l.look(srv)
	}
	l.outerHops()
	protected := false
	for _, srv := range l.servers {
		sd := l.sides[srv]
		if !sd.asks {
			continue
		}
		protected = true
		l.checkVisitors(srv)
		l.checkServer(srv)
		l.checkRewrites(srv)
		l.checkUsers(srv)
		l.checkCopies(srv)
		l.checkHead(srv)
		for _, s := range sd.scopes {
			l.checkScope(s)
		}
		for _, s := range srv.scopes() {
			if sd.check[s] {
				l.checkDaemonLocation(s)
			}
			if l.ours(s) {
				l.checkOurs(s)
			}
		}
	}
	l.checkNames()
	l.checkStreams()
	l.checkHeaders()
	l.checkFiles(protected)
	if !protected {
		l.nobodyAsks()
		return
	}
	l.checkGates()
	l.checkUnprotected()
	l.checkOuterHops()
	l.checkReach()
	l.checkBacklog()
}

func (l *linter) look(srv *scope) *side {
	sd := &side{check: make(map[*scope]bool), verdict: make(map[*scope]verdict)}
	subrequests := make(map[*scope]bool)
	for _, s := range srv.scopes() {
		if uri := s.value("auth_request"); uri != "" && uri != "off" {
			subrequests[srv.target(uri)] = true
		}
	}
	for _, s := range srv.scopes() {
		if l.ours(s) || subrequests[s] {
			continue
		}
		sd.scopes = append(sd.scopes, s)
		v, check := l.asks(s)
		sd.verdict[s] = v
		if v == stile {
			sd.asks = true
			if check != nil && check.uri == s.value("auth_request") {
				sd.check[check] = true
			}
		}
	}
	return sd
}

func (l *linter) nobodyAsks() {
	at := &directive{file: l.main, line: 1}
	if l.http.d != nil {
		at = l.http.d
	}
	l.add(Error, "nobody-asks", at, l.http, "no server asks stile",
		"everything, as if stile were not there",
		"include snippets/stile.conf;    in each server { } that is to be protected, above any error_page of its own")
}

func (l *linter) report() *Report {
	r := &Report{Findings: l.findings}
	order := make(map[string]int)
	for i, n := range l.names {
		order[n] = i
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Code, b.Code))
	})
	for _, srv := range l.servers {
		r.Servers = append(r.Servers, l.summary(srv))
	}
	return r
}
