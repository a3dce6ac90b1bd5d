package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stile/nginx"
)

// checkDaemonLocation looks at the location that puts the question to stile.
func (l *linter) checkDaemonLocation(c *scope) {
	p := c.pass()
	if p == nil || !l.toDaemon(c) {
		return // said by no-check
	}
	header := make(map[string]*directive)
	for _, d := range c.nearest("proxy_set_header") {
		header[strings.ToLower(d.arg(0))] = d
	}
	whole := "include snippets/stile.d/check.conf;    as the whole of this location"
	var missing []string
	for _, name := range []string{"X-Original-URI", "X-Real-IP"} {
		if header[strings.ToLower(name)] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		l.add(Error, "check-headers", p, c, "stile is not told "+strings.Join(missing, " and "), "everything: stile lets through what it cannot judge", whole)
	}
	if d := header["x-original-uri"]; d != nil && d.arg(1) != "$request_uri" {
		l.add(Error, "check-headers", d, c, "stile is told "+d.arg(1)+" in place of the target as it was sent",
			"rules judge another path than the one that is served; here $uri is the path of this location",
			"proxy_set_header X-Original-URI $request_uri;")
	}
	if d := header["x-real-ip"]; d != nil && strings.Contains(d.arg(1), "forwarded_for") {
		l.add(Error, "check-address", d, c, "the visitor's address is taken from a header that the visitor writes",
			"a scraper is a new visitor with each request", "proxy_set_header X-Real-IP $remote_addr;    with set_real_ip_from and real_ip_header for the proxy before nginx")
	}
	if d := header["x-request-id"]; d == nil {
		l.add(Warning, "check-request-id", p, c, "stile is not told X-Request-ID", "a page with index, try_files or error_page counts twice, and the places in gates come back by time alone", "proxy_set_header X-Request-ID $request_id;")
	} else if slices.ContainsFunc(variables(d.arg(1)), ofClient) {
		l.add(Error, "check-request-id", d, c, "stile is told "+d.arg(1)+" as the request's name, which the client writes",
			"one yes for as many requests as a scraper likes: who repeats a name is asking about the same request, which costs nothing", "proxy_set_header X-Request-ID $request_id;")
	}
	if c.value("proxy_pass_request_headers") != "off" {
		l.add(Error, "check-client-headers", p, c, "the client's own headers go to stile",
			"who writes headers that only nginx should write is judged by them", whole)
	}
	if d, _ := l.errorPageFor(c.nearest("error_page"), "429"); d == nil || c.value("proxy_intercept_errors") != "on" {
		l.add(Error, "check-statuses", p, c, "a refusal (429) is not made a 403: auth_request knows 2xx, 401 and 403 only",
			"500 Internal Server Error for whom stile refuses", whole)
	}
	if size := c.value("client_max_body_size"); size != "0" {
		l.add(Error, "check-body", p, c, "`client_max_body_size 0` is missing where stile is asked", "500 Internal Server Error after a large upload", "client_max_body_size 0;")
	}
	if c.value("proxy_pass_request_body") == "off" && header["content-length"] == nil {
		l.add(Error, "check-body", p, c, `Content-Length is handed on without the body`, "every form that is sent hangs until a time-out", `proxy_set_header Content-Length "";`)
	}
	l.checkPatience(c)
}

// checkPatience: who waits in a gate longer than nginx waits for stile is let through.
func (l *linter) checkPatience(c *scope) {
	if l.o.Stile == nil {
		return
	}
	timeout, d := 60*time.Second, c.last("proxy_read_timeout")
	if d != nil {
		t, ok := parseTime(d.arg(0))
		if !ok {
			return
		}
		timeout = t
	} else {
		d = c.pass()
	}
	for i := range l.o.Stile.Gates {
		if g := &l.o.Stile.Gates[i]; g.Wait >= timeout {
			l.add(Error, "patience", d, c, fmt.Sprintf("nginx waits %s for stile, and visitors wait up to %s in the gate %q (%s:%d)", timeout, g.Wait, g.Name, g.Pos.File, g.Pos.Line),
				"who waits longest is let through without a place: nginx takes stile for dead, and with snippets/stile-closed.conf says 503",
				fmt.Sprintf("proxy_read_timeout 30s;    or, in the gate, wait = \"%s\"", max(timeout*4/5, 100*time.Millisecond)))
		}
	}
}

// parseTime reads nginx's times: "30s", "1m30s", "500ms", "30".
func parseTime(s string) (sum time.Duration, ok bool) {
	units := []struct {
		name string
		d    time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"M", 30 * 24 * time.Hour}, {"y", 365 * 24 * time.Hour}}
	for rest := strings.ReplaceAll(s, " ", ""); rest != ""; {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			return 0, false
		}
		rest = rest[len(digits):]
		unit := time.Second
		for _, u := range units {
			if strings.HasPrefix(rest, u.name) {
				unit, rest = u.d, rest[len(u.name):]
				break
			}
		}
		if unit > time.Hour && n > 3650 {
			return 0, false
		}
		sum += time.Duration(n) * unit
		ok = true
	}
	return sum, ok
}

// parseSize reads nginx's sizes: "8k", "1m", "4096".
func parseSize(s string) (int, bool) {
	unit := 1
	switch {
	case strings.HasSuffix(s, "k") || strings.HasSuffix(s, "K"):
		unit = 1 << 10
	case strings.HasSuffix(s, "m") || strings.HasSuffix(s, "M"):
		unit = 1 << 20
	}
	if unit > 1 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n) * unit, err == nil && n >= 0
}

// checkOurs looks at one of stile's own locations.
func (l *linter) checkOurs(s *scope) {
	asked := l.sides[s.server()].check[s] // a subrequest: it asks nobody
	if d := s.last("auth_request"); d != nil && d.arg(0) != "off" && !asked && len(s.own["return"]) == 0 {
		l.add(Error, "asked-again", s.d, s, "`auth_request off` is missing: whoever is shown a page of stile's is asked again before he gets it",
			"nginx's bare \"401 Authorization Required\" in place of the page, and nothing of it can be loaded",
			"auth_request off;    in this location")
	}
	if !l.toDaemon(s) {
		return
	}
	if d := s.last("proxy_set_body"); d != nil {
		l.add(Error, "daemon-body", d, s, "`"+d.String()+"` holds where nginx speaks to stile, too, which takes such a body for the next request",
			"400 Bad Request in place of stile's pages, and answers that are meant for another visitor", "this line beside the proxy_pass that it is for, in place of here")
	}
	if d := s.last("proxy_cache"); d != nil && d.arg(0) != "off" {
		l.add(Error, "cached", s.pass(), s, "`"+d.String()+"` ("+d.pos()+") holds here, too: what stile says to one visitor is kept for others",
			"one scraper's refusal, or one reader's yes, for everybody who comes after",
			"proxy_cache off;    in this location; snippets/stile.d/daemon.conf has it")
	}
	if d := s.last("proxy_store"); d != nil && d.arg(0) != "off" {
		l.add(Error, "cached", s.pass(), s, "`"+d.String()+"` ("+d.pos()+") holds here, too: what stile says is stored as a file",
			"one visitor's challenge page, for others", "proxy_store off;    in this location; snippets/stile.d/daemon.conf has it")
	}
}

var socketInText = regexp.MustCompile(`unix:[^\s,;"]+`)

// flat is a file's directives as lines of text, without comments and white space. Where the sockets are is not looked at.
func flat(list []*directive, add func(line int, text string)) {
	for _, d := range list {
		text := socketInText.ReplaceAllString(d.String(), "unix:")
		if !d.open {
			add(d.line, text+";")
			continue
		}
		add(d.line, text+" {")
		flat(d.block, add)
		add(d.line, "}")
	}
}

// optional is what the README says to take out for nginx before 1.19.3.
const optional = "proxy_cookie_flags off;"

// difference is the first line in which a file is not what is shipped. line 0: there is none.
func difference(have, want []*directive) (line int, says string) {
	type row struct {
		line int
		text string
	}
	rows := func(list []*directive) (out []row) {
		flat(list, func(line int, text string) {
			if text != optional {
				out = append(out, row{line, text})
			}
		})
		return out
	}
	a, b := rows(have), rows(want)
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b):
			return a[i].line, fmt.Sprintf("`%s` is not in it", a[i].text)
		case i >= len(a):
			return max(1, lastLine(a, func(r row) int { return r.line })), fmt.Sprintf("`%s` is missing at its end", b[i].text)
		case a[i].text != b[i].text:
			return a[i].line, fmt.Sprintf("`%s` where it has `%s`", a[i].text, b[i].text)
		}
	}
	return 0, ""
}

func lastLine[T any](list []T, line func(T) int) int {
	if len(list) == 0 {
		return 0
	}
	return line(list[len(list)-1])
}

// checkFiles compares stile's own files with what this binary brings, and looks at the http part.
func (l *linter) checkFiles(protected bool) {
	shipped := nginx.Files(nginx.Prefix)
	part := l.upstreams["stile"]
	for _, name := range l.names {
		for ours, text := range shipped {
			if strings.HasPrefix(ours, "sites/") {
				continue
			}
			if !strings.HasSuffix(name, "/"+ours) && (ours != "conf.d/stile.conf" || part == nil || part.d.file != name) {
				continue
			}
			want, err := (&lexer{file: ours, text: text, line: 1}).block(0, new(int))
			if err != nil {
				panic("BUG: " + err.Error())
			}
			if line, says := difference(l.files[name], want); line > 0 {
				l.add(Warning, "version", &directive{file: name, line: line}, l.http, "this file is not the one of stile "+l.o.Version+": "+says,
					"whatever has been mended since, or was changed by hand",
					"nothing by hand: copy "+strings.TrimPrefix(ours, "conf.d/")+" from the release's nginx/ over it, and put changes of your own into the server")
			}
		}
	}
	if !protected {
		return
	}
	at := l.http.d
	if part == nil {
		l.add(Error, "http-part", at, l.http, "stile's http part is not included", "nginx does not start, or asks some host that is called stile",
			"include conf.d/stile.conf;    in http { }")
		return
	}
	l.checkSockets(part)
	own := l.http.own["access_log"]
	lease := leaseLog(own)
	for _, d := range l.http.own["log_format"] {
		if d.arg(0) == "stile_lease" && strings.Join(d.args[1:], "") != leaseFormat(shipped["conf.d/stile.conf"]) {
			l.add(Error, "lease-format", d, l.http, "the lease log is not in the format that this stile reads",
				"places in gates come back by time alone, which is slow", "copy stile.conf from the release's nginx/ over this file")
		}
	}
	if lease == nil && l.gatesUsed() {
		l.add(Error, "http-part", part.d, l.http, "the http part has no lease log: it is of an older stile",
			"places in gates come back by time alone, and more work is in flight than the budget",
			"copy stile.conf from the release's nginx/ over this file")
	}
	if lease != nil && len(own) == 1 {
		l.add(Note, "built-in-log", lease, l.http, "nginx's built-in access log is off: it is there only while the http level has no access_log, and now it has stile's",
			"nothing; but servers without an access_log of their own are not logged any more",
			"access_log /var/log/nginx/access.log combined;    in http { }")
	}
}

// leaseFormat is the format of the shipped log_format.
func leaseFormat(text string) string {
	list, err := (&lexer{file: "stile.conf", text: text, line: 1}).block(0, new(int))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, d := range list {
		if d.name == "log_format" && d.arg(0) == "stile_lease" {
			return strings.Join(d.args[1:], "")
		}
	}
	panic("BUG: the shipped stile.conf has no lease log")
}

// leaseLog is the access_log of a list that tells stile that a request has ended, or nil. "off" silences all of them.
func leaseLog(list []*directive) (found *directive) {
	for _, d := range list {
		if d.arg(0) == "off" {
			return nil
		}
		if d.arg(1) == "stile_lease" {
			found = d
		}
	}
	return found
}

// checkSockets: nginx asks where stile listens.
func (l *linter) checkSockets(part *upstream) {
	c := l.o.Stile
	if c == nil {
		return
	}
	for _, d := range part.servers {
		if d.arg(0) != c.Listen.Check {
			l.add(Error, "socket", d, l.http, fmt.Sprintf("nginx asks at %s, and stile listens on %s ([listen] check)", d.arg(0), c.Listen.Check),
				"everything, as if stile were not there", "server "+c.Listen.Check+";")
		}
	}
	if d := leaseLog(l.http.own["access_log"]); d != nil && l.gatesUsed() && !strings.HasPrefix(d.arg(0), "syslog:server="+c.Listen.Lease+",") {
		l.add(Error, "socket", d, l.http, fmt.Sprintf("nginx writes the lease log to %s, and stile reads %s ([listen] lease)", socketInText.FindString(d.arg(0)), c.Listen.Lease),
			"places in gates come back by time alone", "access_log syslog:server="+c.Listen.Lease+",nohostname,tag=stile stile_lease if=$stile_lease_ends;")
	}
}
