package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stile/nginx/nginxtest"
)

// houseRules have a path for each thing that can happen to a request.
const houseRules = `include = []
` + easy + `
[[meter]]
name = "few"
window = "1h"
stranger = 3
pass = 6
[[rule]]
name = "robots"
path = "/robots.txt"
do = "allow"
[[rule]]
name = "hooks"
method = "POST"
path = "/api/**"
do = "allow"
[[rule]]
name = "bad agent"
agent = "badbot"
do = "deny"
[[rule]]
name = "denied"
path = "/denied/**"
do = "deny"
[[rule]]
name = "trap"
path = "/trap/**"
do = "trap"
[[rule]]
name = "heavy"
path = ["/heavy", "/heavy/**", "/api/**"]
do = "challenge"
[[rule]]
name = "metered"
path = "/metered/**"
do = "meter"
meter = "few"
[[rule]]
name = "machines"
path = "/machines/**"
do = "meter"
meter = "few"
proof = "never"
`

// seconds reads a Retry-After.
func seconds(t *testing.T, what string, r *nginxtest.Response) int {
	t.Helper()
	got := r.Header.Values("Retry-After")
	if len(got) != 1 {
		t.Errorf("%s: Retry-After %q", what, got)
		return 0
	}
	n, err := strconv.Atoi(got[0])
	if err != nil || n < 1 || n > 25*3600 {
		t.Errorf("%s: Retry-After %q: want whole seconds, at least 1", what, got[0])
	}
	return n
}

// C001: whoever is limited sees 429 or the challenge, each with a time to come back, and never a 500.
func TestC001LimitedVisitorSeesNo500(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	f := func(what, target string, header []string, status int, retry bool) {
		t.Helper()
		v := s.visitor(header...)
		for range 3 {
			if r := v.get(target); strings.HasPrefix(target, "/m") {
				s.expect(what, r, 200, 1)
			}
		}
		s.app.Reset()
		r := v.get(target)
		s.expect(what, r, status, 0)
		s.ours(what, r)
		if retry {
			seconds(t, what, r)
		} else if got := r.Header.Get("Retry-After"); got != "" {
			t.Errorf("%s: Retry-After %q for what will not change", what, got)
		}
		if browser := header == nil; browser != isPage(r) || browser == isText(r) {
			t.Errorf("%s: %v %.100q", what, r.Header, r.Body)
		}
	}
	f("a limited browser", "/metered/x", nil, 503, true)
	f("a limited program", "/metered/x", program, 503, true)
	f("a limited program that is never asked", "/machines/x", program, 429, true)
	f("a limited browser that is never asked", "/machines/x", nil, 429, true)
	f("a challenged browser", "/heavy", nil, 503, true)
	f("a challenged program", "/heavy", program, 503, true)
	f("a denied browser", "/denied/x", nil, 403, false)
	f("a denied program", "/denied/x", program, 403, false)
	f("a trapped browser", "/trap/x", nil, 429, true)

	for line := range strings.Lines(s.Errors()) {
		for _, level := range []string{"[warn]", "[error]", "[crit]", "[alert]", "[emerg]"} {
			if strings.Contains(line, level) {
				t.Errorf("nginx's error log: %s", line)
			}
		}
	}
	checks := s.daemon.metric("stile_checks_total", "")
	if hits := s.daemon.metric("stile_rule_hits_total", ""); checks != 9*4 || hits != checks {
		t.Errorf("%v checks counted by reason, %v by rule, want 36", checks, hits)
	}
}

// C001: whatever nginx may ever hand on, the check answers 200, 401 or 429, the only statuses that mean what they say.
func TestC001CheckSaysOneOfThreeThings(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	long := strings.Repeat
	odd := []string{
		"", "x", "*", "/", "//", "/heavy", "/heavy%", "/%zz", "/%00", "/..", "/../..", "http://", "http://x/y", "/heavy#x", "/heavy?x", "?", "#", "/\x80\xff", "/a b", long("/", 9000), long("%41", 3000),
		"/" + long("a/../", 2000), long("x", 40_000), "192.0.2.1", "::1", "fe80::1%eth0", "999.1.1.1", "unix:", "0", "-1", "GET", "get", "00000000000000000000000000000000", "zz", "stile=x", long("stile=x;", 4000),
	}
	header := func(name, value string) string { return name + ": " + value + "\r\n" }
	for _, name := range []string{
		"X-Original-URI", "X-Original-Method", "X-Real-IP", "X-Request-ID", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Stile-User", "X-Stile-TLS", "X-Stile-Forged", "X-Stile-Verdict",
		"Cookie", "User-Agent", "Accept", "Referer", "Content-Type",
	} {
		for _, value := range odd {
			usual := map[string]string{"X-Original-URI": "/heavy", "X-Original-Method": "GET", "X-Real-IP": "192.0.2.1", "X-Request-ID": "0123456789abcdef0123456789abcdef", "Host": "stile"}
			usual[name] = value
			request := "GET /check HTTP/1.1\r\n"
			for k, v := range usual {
				request += header(k, v)
			}
			r := s.direct(request + "\r\n")
			if r.Status != 200 && r.Status != 401 && r.Status != 429 || r.Body != "" || r.Header.Get("Set-Cookie") != "" || r.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s: %.60q: %d %v %.100q", name, value, r.Status, r.Header, r.Body)
			}
			if v := r.Header.Get("X-Stile-Verdict"); (r.Status == 200) != strings.HasPrefix(v, "allow") {
				t.Errorf("%s: %.60q: %d with the verdict %q", name, value, r.Status, v)
			}
		}
	}
	if n := s.daemon.metric("stile_panics_total", "") + s.daemon.metric("stile_protocol_errors_total", ""); n != 0 {
		t.Errorf("%v panics and unreadable requests", n)
	}
}

// C003: no status of a refusal may mean success to nginx, and a denied agent reaches nothing.
func TestC003DenialIsNeverAnAllow(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	for _, target := range []string{"/", "/robots.txt2", "/heavy", "/metered/x", "/a.css"} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			s.expect(method+" "+target, s.visitor("User-Agent: Mozilla/5.0 (compatible; BadBot/1.0)").ask(method, target, ""), 403, 0)
		}
	}
	for _, status := range []string{"200", "204", "206", "302", "401", "500"} {
		out, ok := stile(t, "[challenge]\nstatus = "+status+"\n", "check")
		if ok || !strings.Contains(out, ":2: ") || !strings.Contains(out, "status = "+status) || !strings.Contains(out, "503") {
			t.Errorf("status = %s: accepted %v, said %q", status, ok, out)
		}
	}
}

// stile runs a command of the program on a configuration, and tells whether it succeeded.
func stile(t *testing.T, rules, command string) (out string, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stile.toml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command(built, command, "-c", file).CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return string(b), err == nil
}

// C006: an index, an error page and try_files make nginx ask twice about one request: it is charged once.
func TestC006InternalRedirectsAreChargedOnce(t *testing.T) {
	t.Parallel()
	s := build(t, `include = []
[[meter]]
name = "ten"
window = "1h"
stranger = 10
pass = 100
[[rule]]
name = "all"
path = "/**"
do = "meter"
meter = "ten"
`, nginxtest.Options{
		Site: `
server {
    listen 80;
    include snippets/stile.conf;
    root /run/stile/www;
    location / { index index.html; error_page 404 /404.html; include snippets/stile-guard.conf; }
    location /try/ { try_files $uri @app; }
    location @app { proxy_pass http://127.0.0.1:8080; }
}
`,
		Files: map[string]string{"www/index.html": "the index\n", "www/404.html": "not here\n"},
	})
	s.daemon.start()
	f := func(target string, status int, body string) {
		t.Helper()
		v := s.visitor()
		asked, charged := s.daemon.metric("stile_checks_total", ""), s.daemon.metric("stile_rule_hits_total", "")
		for i := range 10 {
			if r := v.get(target); r.Status != status || !strings.Contains(r.Body, body) {
				t.Fatalf("%s, request %d: %d %.100q", target, i, r.Status, r.Body)
			}
		}
		if r := v.get(target); r.Status != 503 {
			t.Errorf("%s, the eleventh: %d, want 503", target, r.Status)
		}
		asked, charged = s.daemon.metric("stile_checks_total", "")-asked, s.daemon.metric("stile_rule_hits_total", "")-charged
		if asked != 21 || charged != 11 {
			t.Errorf("%s: asked %v times and charged %v, want 21 and 11", target, asked, charged)
		}
	}
	f("/", 200, "the index")
	f("/missing", 404, "not here")
	f("/try/x", 200, "app GET /try/x")
}

// C007: a package of 30 MB arrives whole, by HTTP/1.1 and by HTTP/2, in one piece and in chunks.
func TestC007LargeUploadArrivesWhole(t *testing.T) {
	t.Parallel()
	curl := need(t, "curl")
	s := open(t, houseRules, `
server {
    listen 80;
    listen 82 http2;
    include snippets/stile.conf;
    client_max_body_size 50m;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`)
	v := s.member()
	file := filepath.Join(t.TempDir(), "package")
	body := make([]byte, 30<<20)
	rand.Read(body)
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	for _, f := range []struct {
		what string
		port int
		args []string
	}{
		{"HTTP/1.1", 80, nil},
		{"chunked", 80, []string{"-H", "Transfer-Encoding: chunked"}},
		{"HTTP/2", 82, []string{"--http2-prior-knowledge"}},
	} {
		args := append([]string{"-sS", "-o", os.DevNull, "-w", "%{http_code}", "-b", "stile=" + v.jar["stile"], "-T", file}, f.args...)
		out, err := exec.Command(curl, append(args, "http://"+s.Addr(f.port)+"/heavy/upload")...).CombinedOutput()
		if err != nil || string(out) != "200" {
			t.Errorf("%s: %v %s", f.what, err, out)
		}
		hits := s.hits(f.what, 1)
		if len(hits) == 1 && (hits[0].Method != "PUT" || hits[0].Length != 30<<20 || hits[0].SHA256 != hex.EncodeToString(sum[:])) {
			t.Errorf("%s: arrived as %+v", f.what, hits[0])
		}
	}
}

// C009: whatever the method, nothing of a challenged request reaches the application, and its body is no solution.
func TestC009AnyMethodIsHeld(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	f := func(method, body string, status int, header ...string) {
		t.Helper()
		for _, header := range [][]string{header, append([]string{"Accept: application/json", "Upgrade-Insecure-Requests:"}, header...)} {
			v := s.visitor()
			r := v.ask(method, "/heavy/x", body, header...)
			s.expect(method, r, status, 0)
			s.ours(method, r)
			if method != "HEAD" && len(r.Body) == 0 {
				t.Errorf("%s: an empty answer", method)
			}
			if len(v.jar) > 0 {
				t.Errorf("%s: a pass for nothing", method)
			}
		}
	}
	f("GET", "", 503)
	f("HEAD", "", 503)
	f("GET", "nonce=1", 503)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "PROPFIND", "OPTIONS", "REPORT", "MKCOL", "BREW"} {
		f(method, "", 429)
		f(method, "nonce=1&elapsedTime=100", 429, "Content-Type: application/x-www-form-urlencoded")
	}
	// A true solution that is sent to the page itself is none either.
	v := s.visitor()
	p := v.puzzle(v.get("/heavy/x"))
	r := v.ask("POST", "/heavy/x", proofText(p.Token, p.solve(0, p.Parts)), v.fetchHeaders()...)
	s.expect("a solution for the page", r, 429, 0)
	if len(v.jar) > 0 {
		t.Error("a pass for a solution that was sent to the page")
	}
	// The person whose form was refused is told how to go on, and that works.
	v = s.visitor()
	r = v.ask("POST", "/heavy/x", "text=long", "Content-Type: application/x-www-form-urlencoded")
	if r.Status != 429 || !isPage(r) || !strings.Contains(r.Body, `href="/.stile/prove"`) || !strings.Contains(r.Body, `target="_blank"`) {
		t.Fatalf("a refused form: %d %s", r.Status, r.Body)
	}
	page := v.get("/.stile/prove")
	if p := v.puzzle(page); page.Status != 200 || !p.Prove {
		t.Errorf("/.stile/prove: %d %+v", page.Status, p)
	}
	v.prove(page)
	s.expect("the form again", v.ask("POST", "/heavy/x", "text=long", "Content-Type: application/x-www-form-urlencoded"), 200, 1)
}

// C010: rules see the visitor's method, not that of nginx's question. Without the header the request counts as a GET.
func TestC010RulesSeeTheMethod(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.expect("POST", s.visitor().ask("POST", "/api/x", "{}"), 200, 1)
	s.expect("GET", s.visitor().get("/api/x"), 503, 0)
	s.expect("HEAD", s.visitor().ask("HEAD", "/api/x", ""), 503, 0)
	s.expect("DELETE", s.visitor().ask("DELETE", "/api/x", ""), 429, 0)
	s.expect("post", s.visitor().ask("post", "/api/x", "{}"), 400, 0) // nginx

	broken := build(t, houseRules, nginxtest.Options{Replace: []string{"proxy_set_header X-Original-Method             $request_method;", ""}})
	broken.daemon.start()
	for range 20 {
		broken.expect("POST without the header", broken.visitor().ask("POST", "/api/x", "{}"), 503, 0)
	}
	saidOnce(t, broken, "X-Original-Method", 20)
}

// saidOnce checks that a header which nginx does not send was counted each time, and logged once.
func saidOnce(t *testing.T, s *site, header string, times float64) {
	t.Helper()
	if n := strings.Count(s.daemon.output(), "level=ERROR"); n != 1 || !strings.Contains(s.daemon.output(), "header="+header) {
		t.Errorf("%d errors in the log, want one about %s:\n%s", n, header, s.daemon.output())
	}
	if got := s.daemon.metric("stile_misconfigured_total", header); got != times {
		t.Errorf("stile_misconfigured_total of %s: %v, want %v", header, got, times)
	}
}

// C015: a configuration that does not say what was asked, or by whom, is the operator's mistake: the site stays
// up, the log says so once, and a metric counts.
func TestC015MissingHeadersAreSaid(t *testing.T) {
	t.Parallel()
	f := func(header, line string) {
		s := build(t, houseRules, nginxtest.Options{Replace: []string{line, ""}})
		s.daemon.start()
		for range 20 {
			s.expect(header+" is missing", s.visitor().get("/heavy"), 200, 1)
		}
		saidOnce(t, s, header, 20)
	}
	f("X-Original-URI", "proxy_set_header X-Original-URI                $request_uri;")
	f("X-Real-IP", "proxy_set_header X-Real-IP                     $remote_addr;")

	s := open(t, houseRules, "")
	if r := s.direct("GET /check HTTP/1.1\r\nHost: x\r\n\r\n"); r.Status != 200 {
		t.Errorf("/check asked without anything: %d", r.Status)
	}
	if got := s.daemon.metric("stile_checks_total", `reason="misconfigured"`); got != 1 {
		t.Errorf("checks that were misconfigured: %v, want 1", got)
	}
}

// direct sends bytes to the daemon's own socket, as nginx would.
func (s *site) direct(request string) *nginxtest.Response {
	s.t.Helper()
	c, err := net.Dial("unix", s.daemon.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	v := visitor{conn: c, r: bufio.NewReader(c)}
	method, _, _ := strings.Cut(request, " ")
	r, err := v.exchange(method, request)
	if err != nil {
		s.t.Fatalf("no answer to %.200q: %s", request, err)
	}
	return r
}

// C016: what a client says about itself in nginx's words is not believed, and nobody but nginx reaches the daemon.
func TestC016ForgedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	forged := []string{
		"X-Original-URI: /robots.txt", "X-Original-Method: OPTIONS", "X-Real-IP: 192.0.2.1", "X-Request-ID: 00000000000000000000000000000000",
		"X-Forwarded-Proto: https", "X-Forwarded-Host: other.example", "X-Stile-User: root", "X-Stile-Verdict: allow", "X-Stile-Forged:",
		"X-Forwarded-For: 127.0.0.1", "x-original-uri: /robots.txt", "X_Original_URI: /robots.txt", "X-Accel-Redirect: /robots.txt",
	}
	for _, h := range forged {
		s.expect(h, s.visitor().get("/heavy", h), 503, 0)
	}
	s.expect("all at once", s.visitor().get("/heavy", forged...), 503, 0)
	s.expect("twice", s.visitor().get("/heavy", "X-Original-URI: /robots.txt", "X-Original-URI: /robots.txt"), 503, 0)
	v := s.member()
	if c := s.direct("GET /.stile/pass HTTP/1.1\r\nHost: x\r\nX-Real-IP: " + v.from + "\r\nCookie: stile=" + v.jar["stile"] + "\r\n\r\n"); c.Status != 204 {
		t.Errorf("the pass: %d", c.Status)
	}
	// One request id for all would be one charge for all.
	v = s.visitor()
	for i, want := range []int{200, 200, 200, 503, 503} {
		if r := v.get("/metered/x", "X-Request-ID: 0123456789abcdef0123456789abcdef"); r.Status != want {
			t.Errorf("request %d with an id of its own: %d, want %d", i, r.Status, want)
		}
	}

	st, err := os.Stat(s.daemon.socket)
	if err != nil {
		t.Fatal(err)
	}
	if closed := !strings.Contains(s.daemon.output(), "the socket is open to every user"); closed && st.Mode().Perm() != 0o660 {
		t.Errorf("the socket's mode: %v", st.Mode())
	} else if closed && os.Geteuid() == 0 {
		cmd := exec.Command(need(t, "curl"), "-sS", "--unix-socket", s.daemon.socket, "http://x/check")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("another user of this machine talks to the daemon: %s", out)
		}
	}
}

// C018: no shape of a request opens what the daemon holds shut, and none makes it say anything but 200, 401 or 429.
func TestC018NoShapeOfARequestOpens(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, `
server {
    listen 80;
    include snippets/stile.conf;
    client_max_body_size 50m;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`)
	long := strings.Repeat
	get := func(header ...string) string { return nginxtest.Request("GET", "/heavy", "", header...) }
	for what, request := range map[string]string{
		"a post of 5 MB":               nginxtest.Request("POST", "/heavy", long("x", 5<<20)),
		"a post of 12 MB":              nginxtest.Request("POST", "/heavy", long("x", 12<<20)),
		"chunks":                       "POST /heavy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"chunks that break off":        "POST /heavy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a cookie of 7.9 KB":           get("Cookie: a=" + long("x", 7900)),
		"a cookie of ours of 7.9 KB":   get("Cookie: stile=" + long("A", 7900)),
		"a thousand cookies of ours":   get("Cookie: " + long("stile=a; ", 900)),
		"four headers of 8 KB":         get("Cookie: a="+long("x", 8000), "User-Agent: "+long("x", 8000), "Referer: "+long("x", 8000)),
		"four other headers of 8 KB":   get("Accept: a="+long("x", 8000), "Accept-Language: "+long("x", 8000), "Authorization: "+long("x", 8000)),
		"a target of 8 KB":             nginxtest.Request("GET", "/heavy/"+long("x", 8000), ""),
		"a target of escapes":          nginxtest.Request("GET", "/heavy/"+long("%41", 2600), ""),
		"a target of slashes":          nginxtest.Request("GET", "/heavy"+long("/", 8000), ""),
		"a target of dots":             nginxtest.Request("GET", "/heavy/"+long("a/../", 1500), ""),
		"a query of 8 KB":              nginxtest.Request("GET", "/heavy?"+long("a&", 4000), ""),
		"bytes above 127":              get("User-Agent: \xff\xfe\x80", "Cookie: \xf0\x9f\x90\x91", "Accept-Language: \xc3\x28"),
		"control characters":           get("User-Agent: \x01\x02\x7f\t\x0b\x1b[31m"),
		"control characters elsewhere": get("Cookie: \x01\x02", "Referer: \x08", "Accept: \x1f"),
		"an agent of blanks":           get("User-Agent:  \t "),
		"an expectation":               get("Expect: 100-continue"),
		"an upgrade":                   get("Connection: Upgrade", "Upgrade: websocket"),
		"a range":                      get("Range: bytes=0-0"),
		"conditions":                   get("If-None-Match: *", "If-Modified-Since: Sat, 01 Jan 2050 00:00:00 GMT"),
		"hop by hop":                   get("Connection: close, X-Real-IP, X-Original-URI, Cookie"),
		"an absolute target":           "GET http://site.example/heavy HTTP/1.1\r\nHost: x\r\n\r\n",
		"HTTP/1.0":                     "GET /heavy HTTP/1.0\r\n\r\n",
		"odd method":                   nginxtest.Request("A-B", "/heavy", ""),
		"a long method":                nginxtest.Request(long("X", 900), "/heavy", ""),
	} {
		v := s.visitor()
		r, err := v.raw(request)
		if err != nil {
			t.Errorf("%s: %s", what, err)
			continue
		}
		switch r.Status {
		case 503, 429, 403, 400, 405, 414:
		default:
			t.Errorf("%s: %d", what, r.Status)
		}
		s.hits(what, 0)
	}
	if n := s.daemon.metric("stile_panics_total", ""); n != 0 {
		t.Errorf("%v panics", n)
	}
	for line := range strings.Lines(s.Errors()) {
		if strings.Contains(line, "unexpected status") || strings.Contains(line, "upstream prematurely closed") {
			t.Errorf("nginx's error log: %s", line)
		}
	}
}

// C143: the operator's side is not on the site, by whatever name.
func TestC143MetricsAreNotOnTheSite(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	for _, target := range []string{
		"/metrics", "/healthz", "/debug/pprof/", "/.stile/metrics", "/.stile/healthz", "/.stile/debug/pprof/", "/.stile/../metrics",
		"/.stile/%2e%2e/metrics", "/.stile//metrics", "/.stile/./metrics", "/.stile/", "/.stile",
	} {
		r := s.visitor().get(target)
		if strings.Contains(r.Body, "stile_") || strings.Contains(r.Body, "goroutine") || r.Status == 200 && !strings.HasPrefix(r.Body, "app GET ") {
			t.Errorf("%s: %d %.100q", target, r.Status, r.Body)
		}
		s.app.Reset()
	}
	for _, target := range []string{"/metrics", "/healthz", "/debug/pprof/", "/debug/vars"} {
		if r := s.direct(nginxtest.Request("GET", target, "")); r.Status != 404 {
			t.Errorf("%s on nginx's socket: %d", target, r.Status)
		}
	}
	if !strings.Contains(s.daemon.metrics(), "stile_info") {
		t.Error("no metrics on the operator's side")
	}
}

// N15: no spelling of a path reaches what only nginx may ask for, and all of them are protected like any other.
func TestN15TricksOnOurPaths(t *testing.T) {
	t.Parallel()
	s := open(t, `include = []
[[rule]]
name = "all"
path = "/**"
do = "challenge"
`, "")
	for _, inner := range []string{"check", "challenge", "refused"} {
		for _, spelling := range []string{
			"/%s", "//%s", "/./%s", "/.stile/%s", "/.stile//%s", "/.stile/./%s", "/.stile/../%s", "/.stile/%%2e%%2e/%s", "/.stile/..%%2f%s",
			"/.stile%%2f..%%2f%s", "/.stile/x/../../%s", "/.stile/..;/%s", "/.stile/%%2e%%2e%%2f%s", "/.stile/..%%5c%s", "/.stile/..\\%s", "/%%2e%%2fstile/../%s",
			"/.stile/stile.js/../../%s", "/.stile/pass/..%%2f..%%2f%s", "/.stile/%s?x", "/%s?x", "/.stile/?/%s", "/.stile/proof/../../%s", "/.STILE/%s", "/.stile/.%%00/%s",
		} {
			target := fmt.Sprintf(spelling, inner)
			for _, header := range [][]string{nil, {"X-Stile-Verdict: challenge;level=1", "X-Original-URI: /", "X-Real-IP: 192.0.2.1"}} {
				r := s.visitor().get(target, header...)
				s.hits(target, 0)
				for _, name := range []string{"X-Stile-Verdict", "X-Stile-Lease"} {
					if got := r.Header.Get(name); got != "" {
						t.Errorf("%s: %s: %s", target, name, got)
					}
				}
				switch r.Status {
				case 404, 403, 400: // nothing there, nginx only, no target
				case 503: // a page of the site
					if _, ok := readPuzzle(r.Body); !ok {
						t.Errorf("%s: %d without a challenge: %.100q", target, r.Status, r.Body)
					}
				default:
					t.Errorf("%s: %d %.100q", target, r.Status, r.Body)
				}
			}
		}
	}
	if n := s.daemon.metric("stile_misconfigured_total", ""); n != 0 {
		t.Errorf("%v requests came without nginx's headers", n)
	}
}

// N17: passwords and denials of the site's own work as without stile, for strangers and for those with a pass.
func TestN17OwnPasswordsAndDenials(t *testing.T) {
	t.Parallel()
	s := build(t, houseRules, nginxtest.Options{
		Site: `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
    location /private/ { auth_basic "members"; auth_basic_user_file /run/stile/users; proxy_pass http://127.0.0.1:8080; }
    location /heavy/private/ { auth_basic "members"; auth_basic_user_file /run/stile/users; proxy_pass http://127.0.0.1:8080; }
    location /nobody/ { deny all; proxy_pass http://127.0.0.1:8080; }
}
`,
		Files: map[string]string{"users": "ann:{PLAIN}secret\n"},
	})
	s.daemon.start()
	const right, wrong = "Authorization: Basic YW5uOnNlY3JldA==", "Authorization: Basic YW5uOnd3d3c="
	f := func(what string, v *visitor, target, auth string, status int, asked bool) {
		t.Helper()
		hits := 0
		if status == 200 {
			hits = 1
		}
		var header []string
		if auth != "" {
			header = []string{auth}
		}
		r := v.get(target, header...)
		s.expect(what, r, status, hits)
		if got := r.Header.Get("WWW-Authenticate"); asked != (got == `Basic realm="members"`) || !asked && got != "" {
			t.Errorf("%s: WWW-Authenticate %q", what, got)
		}
		if status == 401 || status == 403 {
			if isPage(r) && strings.Contains(r.Body, ".stile") {
				t.Errorf("%s: our page for the site's own refusal: %.200q", what, r.Body)
			}
		}
	}
	f("no password", s.visitor(), "/private/x", "", 401, true)
	f("a wrong password", s.visitor(), "/private/x", wrong, 401, true)
	f("the password", s.visitor(), "/private/x", right, 200, false)
	f("denied to all", s.visitor(), "/nobody/x", "", 403, false)
	f("denied to all, with a password", s.visitor(), "/nobody/x", right, 403, false)
	f("challenged, with the password", s.visitor(), "/heavy/private/x", right, 503, false)
	v := s.member()
	f("proven, no password", v, "/heavy/private/x", "", 401, true)
	f("proven, a wrong password", v, "/heavy/private/x", wrong, 401, true)
	f("proven, with the password", v, "/heavy/private/x", right, 200, false)
	f("proven, denied to all", v, "/nobody/x", "", 403, false)
}

// C155: nothing of stile's makes an absolute URL, and the inner port is never seen.
func TestC155NoInnerPortIsSeen(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/dir/")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	for _, target := range []string{"/dir", "/heavy", "/.stile/wait?t=x&u=Lw", "/.stile/prove", "/.stile/nothing"} {
		r := s.visitor().get(target)
		port := s.Addr(80)[strings.LastIndexByte(s.Addr(80), ':'):]
		for name, values := range r.Header {
			if text := strings.Join(values, " "); strings.Contains(text, port) || strings.Contains(text, "://") {
				t.Errorf("%s: %s: %s", target, name, text)
			}
		}
		if strings.Contains(r.Body, port) || strings.Contains(r.Body, "127.0.0.1") {
			t.Errorf("%s: an inner address in %.300q", target, r.Body)
		}
		if target == "/dir" && (r.Status != 301 || r.Header.Get("Location") != "/dir/") {
			t.Errorf("%s: %d %v", target, r.Status, r.Header)
		}
	}
}
