package nginx_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// N1, C001: a refusal travels as 429 and ends as 429, with no error logged.
func TestAnswers(t *testing.T) {
	w := start(t, plain(``))
	f := func(a *nginxtest.Answer, status int, page, retry string) {
		t.Helper()
		w.d.Always(a)
		c := w.Dial(80)
		defer c.Close()
		r, err := c.Ask(nginxtest.Request("GET", "/x?a=1", ""))
		if err != nil {
			t.Fatal(err)
		}
		hits := 0
		if page == "" {
			hits = 1
		} else if calls := w.d.Calls(page); len(calls) != 1 {
			t.Errorf("%d calls of %s, want 1", len(calls), page)
		} else if got := calls[0].Header.Get("X-Stile-Verdict"); got != a.Verdict { // N2
			t.Errorf("%s was told the verdict %q, want %q", page, got, a.Verdict)
		}
		if hits == 0 {
			header(t, r, "Cache-Control", "no-store")
			header(t, r, "Retry-After", retry)
		}
		header(t, r, "X-Stile-Verdict", "") // the client need not know which rule it was
		w.expect(a.Verdict, r, status, 1, hits)
	}

	f(nginxtest.Allow, 200, "", "")
	f(nginxtest.Challenge, 503, "/challenge", "10")
	f(nginxtest.Refuse, 429, "/refused", "17")
	f(nginxtest.Deny, 403, "/refused", "3600")
	f(nginxtest.Full, 503, "/refused", "3")
	w.noErrors()
}

// C003: of everything a daemon could answer, only 2xx is a yes; 502 and 504 are taken for nginx's own. Nothing that
// HTTP knows becomes a 500. (For 408, and its own 444 and 499, nginx closes the client's connection without a word.)
func TestEveryStatusOfCheck(t *testing.T) {
	w := start(t, plain(``))
	known := []int{300, 301, 302, 303, 304, 307, 308, 400, 402, 403, 404, 405, 409, 410, 411, 412, 413, 414, 415,
		416, 417, 421, 422, 423, 424, 425, 426, 428, 431, 451, 500, 501, 503, 505, 506, 507, 508, 510, 511}
	for status := 200; status <= 599; status++ {
		w.d.Always(&nginxtest.Answer{Status: status})
		r, err := w.Dial(80).Ask(nginxtest.Request("GET", "/x", ""))
		if err != nil {
			r = &nginxtest.Response{}
			if status != 408 && status != 444 && status != 499 {
				t.Errorf("check answers %d: no answer: %s", status, err)
			}
		}
		open := status < 300 || status == 502 || status == 504
		if hits := len(w.app.Hits()); (hits == 1) != open || hits > 1 {
			t.Errorf("check answers %d: %d hits in the application", status, hits)
		}
		if slices.Contains(known, status) && r.Status != 403 {
			t.Errorf("check answers %d: the client got %d, want 403", status, r.Status)
		}
		w.app.Reset()
	}
}

// C009, C010, C039: any method gets the same refusal, with its body unread by anybody, and is known to the daemon by name.
func TestMethods(t *testing.T) {
	w := start(t, plain(``))
	methods := []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "MKCOL", "REPORT", "get", "X"}
	for _, method := range methods {
		for _, a := range []*nginxtest.Answer{nginxtest.Allow, nginxtest.Challenge, nginxtest.Refuse} {
			w.d.Always(a)
			body := ""
			if method != "GET" && method != "HEAD" {
				body = `nonce=1&solution=AAAA`
			}
			r := w.Raw(80, nginxtest.Request(method, "/x", body, "Content-Type: application/x-www-form-urlencoded"))
			what := method + " " + a.Verdict
			if method == "get" { // nginx knows no lower-case methods
				w.expect(what, r, 400, 0, 0)
				continue
			}
			calls := w.d.Calls("/")
			for _, c := range calls {
				if got := c.Header.Get("X-Original-Method"); got != method {
					t.Errorf("%s: %s was told the method %q", what, c.Target, got)
				}
				if c.Body != "" {
					t.Errorf("%s: %s got a body: %q", what, c.Target, c.Body)
				}
				if want := map[bool]string{true: "HEAD", false: "GET"}[method == "HEAD" && c.Target != "/check"]; c.Method != want {
					t.Errorf("%s: %s was fetched with %s", what, c.Target, c.Method)
				}
			}
			switch a {
			case nginxtest.Allow:
				w.expect(what, r, 200, 1, 1)
			case nginxtest.Challenge:
				w.expect(what, r, 503, 1, 0)
			default:
				w.expect(what, r, 429, 1, 0)
			}
		}
	}
	w.noErrors()
}

// C039: nothing follows a HEAD's header, and the connection goes on; nginx's to the daemon does as well (N11).
func TestHeadAndKeepAlive(t *testing.T) {
	w := start(t, plain(``))
	for _, method := range []string{"HEAD", "GET"} {
		conns := make(map[int]bool)
		c := w.Dial(80)
		for i := range 10 {
			w.d.Always([]*nginxtest.Answer{nginxtest.Challenge, nginxtest.Refuse}[i%2])
			r, err := c.Ask(nginxtest.Request(method, "/x", ""))
			if err != nil {
				t.Fatalf("%s %d on one connection: %s", method, i, err)
			}
			if want := []int{503, 429}[i%2]; r.Status != want || (r.Body == "") != (method == "HEAD") {
				t.Errorf("%s: %d with body %q, want %d", method, r.Status, r.Body, want)
			}
		}
		for _, call := range w.d.Calls("/") {
			conns[call.Conn] = true
		}
		if len(conns) != 1 {
			t.Errorf("20 calls for 10 refused %s took %d connections to the daemon, want 1", method, len(conns))
		}
		w.d.Reset()
	}
}

// C014: the daemon is told the raw target, and the page stays at it: no redirect, nothing re-encoded.
func TestTargetStaysRaw(t *testing.T) {
	w := start(t, plain(``))
	for _, target := range []string{
		"/s?q=a%26b&b=2&c=3;d", "/s?", "/s?a=&b", "/a+b?c+d", "/%7euser/%E2%82%AC", "//a/./b/%2e%2e/c", "/a;b=1/..;/c",
		"/a%2Fb%5Cc", "/?x=//evil.example", "/\xff\xfe?\xff", "/x?a=\"<b>'", "/x|y^z`{}",
	} {
		for _, a := range []*nginxtest.Answer{nginxtest.Allow, nginxtest.Challenge, nginxtest.Refuse} {
			w.d.Always(a)
			r := w.Get(target)
			for _, c := range w.d.Calls("/") {
				if got := c.Header.Get("X-Original-URI"); got != target {
					t.Errorf("%s was told the target %q, want %q", c.Target, got, target)
				}
				if c.Target != "/check" && c.Target != "/challenge" && c.Target != "/refused" {
					t.Errorf("the daemon was asked for %q", c.Target)
				}
			}
			header(t, r, "Location", "")
			if hits := w.app.Hits(); len(hits) == 1 && hits[0].Target != target {
				t.Errorf("the application got %q, want %q", hits[0].Target, target)
			}
			w.expect(target, r, map[int]int{200: 200, 401: 503, 429: 429}[a.Status], 1, map[int]int{200: 1}[a.Status])
		}
	}
}

// N6, C006: an internal redirect asks again, and the daemon can tell by the request id.
func TestInternalRedirects(t *testing.T) {
	w := start(t, plain(`
	root /run/stile/www;
	location /dir/ { index index.html; }
	location /own/ { error_page 404 /dir/lost.html; include snippets/stile-guard.conf; }
	location /try/ { try_files $uri @app; }
	location @app { proxy_pass http://app; }
	`))
	write(t, w, "www/dir/index.html", "index")
	write(t, w, "www/dir/lost.html", "lost")
	f := func(target string, status, checks, hits int) {
		t.Helper()
		r := w.Get(target)
		ids := make(map[string]bool)
		for _, c := range w.d.Calls("/check") {
			ids[c.Header.Get("X-Request-ID")] = true
		}
		if len(ids) != 1 {
			t.Errorf("%s: request ids %v, want one", target, ids)
		}
		w.expect(target, r, status, checks, hits)
	}
	f("/dir/", 200, 2, 0)
	f("/own/x", 404, 2, 0)
	f("/try/x", 200, 2, 1)
	f("/x", 200, 1, 1)

	// The second answer counts: a refusal after a yes is a refusal, with its own page.
	asked := make(map[string]bool) // one client, so no two calls at once
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		id := c.Header.Get("X-Request-ID")
		if c.Target == "/check" && asked[id] {
			return nginxtest.Challenge
		}
		asked[id] = true
		return nil
	})
	w.expect("the second check refuses", w.Get("/dir/"), 503, 2, 0)
}

func write(t *testing.T, w *world, name, text string) {
	t.Helper()
	name = filepath.Join(w.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// N10, C005: a location with an error_page of its own is protected without the guard, and solvable with it. A
// nested location and a second server behave like the first.
func TestGuard(t *testing.T) {
	w := start(t, plain(`
	location /bare/    { error_page 404 /lost; proxy_pass http://app; }
	location /guarded/ { error_page 404 /lost; include snippets/stile-guard.conf; proxy_pass http://app;
		location /guarded/nested/ { proxy_pass http://app; } }
	location /out/     { auth_request off; proxy_pass http://app; }
	}
	server {
	listen 80;
	server_name other.example;
	include snippets/stile.conf;
	location / { proxy_pass http://app; }
	`))
	w.d.Always(nginxtest.Challenge)
	w.expect("without the guard", w.Get("/bare/x"), 401, 1, 0)
	w.expect("with the guard", w.Get("/guarded/x"), 503, 1, 0)
	w.expect("nested", w.Get("/guarded/nested/x"), 503, 1, 0)
	w.expect("switched off", w.Get("/out/x"), 200, 0, 1)
	w.expect("another server", w.Raw(80, "GET /x HTTP/1.1\r\nHost: other.example\r\n\r\n"), 503, 1, 0)
	w.d.Always(nginxtest.Refuse)
	w.expect("without the guard", w.Get("/bare/x"), 403, 1, 0)
	w.expect("with the guard", w.Get("/guarded/x"), 429, 1, 0)
}

// C004, C011, N18: where nginx does not ask stile. These are facts to document, and this is how they were found out.
func TestWhereNobodyIsAsked(t *testing.T) {
	w := start(t, plain(`
	location /return   { return 200 "fixed"; }
	location /rewrite  { rewrite ^ /elsewhere redirect; }
	location /any/     { satisfy any; allow 127.0.0.1; deny all; proxy_pass http://app; }
	location /other/   { auth_request /other-auth; proxy_pass http://app; }
	location = /other-auth { internal; auth_request off; return 204; }
	`))
	w.d.Always(nginxtest.Challenge)
	w.expect("return", w.Get("/return"), 200, 0, 0)
	w.expect("rewrite", w.Get("/rewrite"), 302, 0, 0)
	w.expect("satisfy any", w.Get("/any/x"), 200, 0, 1)
	w.expect("an auth_request of its own", w.Get("/other/x"), 200, 0, 1)
}

// C099: one line for each request of a visitor, and none for stile's own traffic, whose targets hold tokens.
func TestAccessLog(t *testing.T) {
	o := plain(``)
	o.HTTP = "log_subrequest on;"
	w := start(t, o)
	w.Get("/allowed?x=1")
	w.d.Always(nginxtest.Challenge)
	w.Get("/challenged")
	w.d.Always(nginxtest.Refuse)
	w.Get("/.stile/wait?t=TOKEN")
	w.Raw(80, nginxtest.Request("POST", "/.stile/proof", `{"solution":"x"}`))
	w.Get("/refused")
	w.d.Stop()
	w.Get("/open")
	lines := w.AccessLines(4)
	for i, want := range []string{`"GET /allowed?x=1 HTTP/1.1" 200 `, `"GET /challenged HTTP/1.1" 503 `, `"GET /refused HTTP/1.1" 429 `, `"GET /open HTTP/1.1" 200 `} {
		if len(lines) != 4 || !strings.Contains(lines[i], want) {
			t.Fatalf("logged:\n%s\nwant four lines with %s", strings.Join(lines, "\n"), want)
		}
	}
}

// N12: the site's own limits come first, and count a request once though it is asked about.
func TestLimitsOfTheSite(t *testing.T) {
	o := plain(`
	limit_req zone=few burst=1 nodelay; limit_req_status 429;
	limit_conn one 1;
	`)
	o.HTTP = "limit_req_zone $binary_remote_addr zone=few:1m rate=1r/m; limit_conn_zone $binary_remote_addr zone=one:1m;"
	w := start(t, o)
	w.expect("the first", w.Get("/x"), 200, 1, 1)
	w.expect("the second", w.Get("/x"), 200, 1, 1)
	r := w.Get("/x")
	header(t, r, "Retry-After", "")
	w.expect("one too many", r, 429, 0, 0)
}

// C042: a protocol that is switched to after one check is left alone; a refused handshake gets the page's status.
func TestWebSocket(t *testing.T) {
	w := start(t, plain(`
	location /ws { proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_pass http://app; }
	`))
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		conn, rest, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		line, _ := rest.ReadString('\n')
		io.WriteString(conn, "echo "+line)
	})
	c := w.Dial(80)
	handshake := nginxtest.Request("GET", "/ws", "", "Connection: Upgrade", "Upgrade: websocket")
	io.WriteString(c, handshake)
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%+v, %v", resp, err)
	}
	io.WriteString(c, "hello\n")
	if line, err := in.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	if calls := w.d.Calls("/check"); len(calls) != 1 || calls[0].Header.Get("Upgrade") != "websocket" {
		t.Errorf("the daemon was told %v", calls)
	}
	w.expectCounts("admitted", 1, 1)
	w.d.Always(nginxtest.Challenge)
	w.expect("challenged", w.Raw(80, handshake), 503, 1, 0)
}

// N13: the site's headers are for the site's pages.
func TestSiteHeadersStayOffOurPages(t *testing.T) {
	w := start(t, plain(`add_header Content-Security-Policy "default-src 'none'" always; add_header X-Site yes always;`))
	header(t, w.Get("/x"), "Content-Security-Policy", "default-src 'none'")
	for _, a := range []*nginxtest.Answer{nginxtest.Challenge, nginxtest.Refuse} {
		w.d.Always(a)
		r := w.Get("/x")
		header(t, r, "Content-Security-Policy", "")
		header(t, r, "X-Site", "")
		header(t, r, "X-Content-Type-Options", "nosniff")
	}
	r := w.Get("/.stile/stile.js")
	header(t, r, "Content-Security-Policy", "")
	header(t, r, "X-Content-Type-Options", "nosniff")
}

// N17: a site's own passwords and denials, with the daemon there and without, look as they do without stile.
func TestOwnPasswordsAndDenials(t *testing.T) {
	const site = `
upstream app { server 127.0.0.1:8080; keepalive 32; }
server {
    listen %d;
    server_name site.example;
    %s
    proxy_intercept_errors on;
    location / { proxy_pass http://app; }
    location /denied/ { deny all; proxy_pass http://app; }
    location /secret/ { auth_basic "the realm"; auth_basic_user_file /run/stile/htpasswd; proxy_pass http://app; }
    location /return/ { return 403; }
    %s
}`
	w := start(t, nginxtest.Options{Site: fmt.Sprintf(site, 80, "include snippets/stile.conf;", "") +
		strings.ReplaceAll(fmt.Sprintf(site, 81, "", ""), "upstream app { server 127.0.0.1:8080; keepalive 32; }", "")})
	write(t, w, "htpasswd", "anna:{PLAIN}secret\n")
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/app401":
			rw.Header().Set("WWW-Authenticate", `Bearer realm="app"`)
			rw.WriteHeader(401)
		case "/app403":
			rw.WriteHeader(403)
		}
	})
	const good, bad = "Authorization: Basic YW5uYTpzZWNyZXQ=", "Authorization: Basic YW5uYTp3cm9uZw=="
	f := func(target string, headers ...string) {
		t.Helper()
		request := nginxtest.Request("GET", target, "", headers...)
		got, want := w.Raw(80, request), w.Raw(81, request)
		if strings.HasPrefix(target, "/app") { // the application's own page is lost to proxy_intercept_errors
			want.Body = got.Body
		}
		if got.Status != want.Status || got.Body != want.Body {
			t.Errorf("%s %q: %d %q, without stile %d %q", target, headers, got.Status, got.Body, want.Status, want.Body)
		}
		header(t, got, "WWW-Authenticate", want.Header.Get("WWW-Authenticate"))
		if pages := slices.Concat(w.d.Calls("/challenge"), w.d.Calls("/refused")); len(pages) != 0 {
			t.Errorf("%s: the daemon was asked for a page: %v", target, pages)
		}
	}
	all := func() {
		t.Helper()
		f("/x")
		f("/denied/x")
		f("/secret/x")
		f("/secret/x", bad)
		f("/secret/x", good)
		f("/return/x")
		f("/app401")
		f("/app403")
	}
	all()

	// In observe mode a 200 carries the verdict that it would have been.
	w.d.Always(&nginxtest.Answer{Status: 200, Verdict: nginxtest.Challenge.Verdict})
	all()
	w.d.Stop()
	all()

	// Asked first is nginx: who has no password is not challenged, who has one can be.
	w.d = nginxtest.StartDaemon(t, w.Socket())
	w.d.Always(nginxtest.Challenge)
	w.app.Reset()
	w.expect("no password", w.Get("/secret/x"), 401, 0, 0)
	w.expect("a password", w.Get("/secret/x", good), 503, 1, 0)
	w.expect("denied", w.Get("/denied/x"), 403, 0, 0)
}

// A password for the whole server covers stile's own locations as well; the page is still reached with it.
func TestPasswordForTheServer(t *testing.T) {
	w := start(t, plain(`auth_basic "the realm"; auth_basic_user_file /run/stile/htpasswd;`))
	write(t, w, "htpasswd", "anna:{PLAIN}secret\n")
	const good = "Authorization: Basic YW5uYTpzZWNyZXQ="
	w.d.Always(nginxtest.Challenge)
	r := w.Get("/x")
	header(t, r, "WWW-Authenticate", `Basic realm="the realm"`)
	w.expect("no password", r, 401, 0, 0)
	r = w.Get("/x", good)
	header(t, r, "WWW-Authenticate", "")
	w.expect("a password", r, 503, 1, 0)
	w.expect("a public file", w.Get("/.stile/stile.js", good), 200, 0, 0)
	w.d.Always(nginxtest.Refuse)
	w.expect("refused", w.Get("/x", good), 429, 1, 0)
}

// What the daemon learns: every header of the list, each once, and nothing else.
func TestHeadersForTheDaemon(t *testing.T) {
	w := start(t, plain(``))
	sent := map[string]string{
		"Accept": "text/html", "Accept-Encoding": "gzip", "Accept-Language": "de", "Access-Control-Request-Method": "PUT",
		"Authorization": "Bearer x", "Content-Type": "text/plain", "Cookie": "stile=abc", "Git-Protocol": "version=2",
		"Hx-Request": "true", "Origin": "https://o.example", "Range": "bytes=1-", "Referer": "https://r.example/",
		"Sec-Ch-Ua": `"x";v="1"`, "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none",
		"Sec-Fetch-User": "?1", "Sec-Purpose": "prefetch", "Signature": "s=:x:", "Signature-Agent": `"a"`,
		"Signature-Input": "s=()", "Turbo-Frame": "f", "Upgrade": "websocket", "Upgrade-Insecure-Requests": "1",
		"User-Agent": "test/1", "X-Requested-With": "XMLHttpRequest",
	}
	lines := []string{
		// Forged ones, and some that are nobody's business.
		"X-Original-URI: /robots.txt", "X-Original-Method: OPTIONS", "X-Real-IP: 192.0.2.1", "X-Request-ID: forged",
		"X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example", "X-Forwarded-For: 192.0.2.2", "X-Stile-User: root",
		"X-Stile-TLS: TLSv1.3", "X-Stile-Verdict: allow", "X-Stile-Lease: 1", "X-Stile-Server: evil.example", "X-Stile-Anything: 1", "X-Other: 1",
		"X_Original_URI: /robots.txt", "Expect-CT: 1", "TE: trailers", "Connection: X-Real-IP", "If-None-Match: \"x\"",
	}
	for name, value := range sent {
		lines = append(lines, name+": "+value)
	}
	want := map[string]string{
		"X-Original-Uri": "/heavy?x=1", "X-Original-Method": "GET", "X-Real-Ip": "127.0.0.1", "X-Forwarded-Proto": "http",
		"X-Forwarded-Host": "site.example", "X-Stile-Forged": "1", "X-Stile-Server": "site.example",
	}
	for _, a := range []*nginxtest.Answer{nginxtest.Challenge, nginxtest.Refuse} {
		w.d.Reset()
		w.d.Always(a)
		w.Get("/heavy?x=1", lines...)
		calls := w.d.Calls("/")
		if len(calls) != 2 {
			t.Fatalf("%d calls, want 2", len(calls))
		}
		for _, c := range calls {
			got := c.Header
			for _, m := range []map[string]string{sent, want} {
				for name, value := range m {
					if v := got.Values(name); len(v) != 1 || v[0] != value {
						t.Errorf("%s: %s is %q, want %q", c.Target, name, v, value)
					}
					got.Del(name)
				}
			}
			if id := got.Values("X-Request-Id"); len(id) != 1 || len(id[0]) != 32 {
				t.Errorf("%s: X-Request-ID is %q", c.Target, id)
			}
			got.Del("X-Request-Id")
			if c.Target != "/check" {
				if v := got.Values("X-Stile-Verdict"); len(v) != 1 || v[0] != a.Verdict {
					t.Errorf("%s: X-Stile-Verdict is %q, want %q", c.Target, v, a.Verdict)
				}
				got.Del("X-Stile-Verdict")
			}
			if len(got) != 0 {
				t.Errorf("%s was told more: %v", c.Target, got)
			}
		}
	}

	// Nothing is made up for a client that sends nothing.
	w.d.Reset()
	w.Raw(80, "GET /x HTTP/1.0\r\n\r\n")
	for _, c := range w.d.Calls("/check") {
		c.Header.Del("X-Request-Id")
		if len(c.Header) != 6 || c.Header.Get("X-Forwarded-Host") != "site.example" {
			t.Errorf("an empty request was described as %v", c.Header)
		}
	}
}

// C016, N9: the public files too are asked for in nginx's words, whatever a client claims to be.
func TestHeadersForPublicFiles(t *testing.T) {
	w := start(t, plain(``))
	w.Raw(80, nginxtest.Request("POST", "/.stile/proof?x=1", `{"token":"x"}`,
		"X-Original-URI: /robots.txt", "X-Original-Method: OPTIONS", "X-Real-IP: 192.0.2.1", "X-Request-ID: forged",
		"X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example", "X-Stile-Verdict: allow", "X-Stile-User: root",
		"Content-Type: application/json", "Cookie: stile=abc", "Origin: http://site.example", "Referer: http://site.example/x",
		"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Sec-Purpose: prefetch",
		"User-Agent: test/1", "Accept: */*", "Accept-Language: de", "Accept-Encoding: gzip", "Expect: 100-continue"))
	calls := w.d.Calls("/")
	if len(calls) != 1 {
		t.Fatalf("calls: %v", calls)
	}
	c := calls[0]
	if c.Method != "POST" || c.Target != "/.stile/proof?x=1" || c.Body != `{"token":"x"}` {
		t.Errorf("the daemon got %s %s %q", c.Method, c.Target, c.Body)
	}
	id := c.Header.Get("X-Request-Id")
	if len(id) != 32 {
		t.Errorf("X-Request-ID is %q", id)
	}
	want := http.Header{
		"X-Real-Ip": {"127.0.0.1"}, "X-Request-Id": {id}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"site.example"},
		"Content-Type": {"application/json"}, "Content-Length": {"13"}, "Cookie": {"stile=abc"},
		"Origin": {"http://site.example"}, "Referer": {"http://site.example/x"}, "Sec-Fetch-Site": {"same-origin"},
		"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}, "Sec-Purpose": {"prefetch"}, "User-Agent": {"test/1"},
		"Accept": {"*/*"}, "Accept-Language": {"de"}, "Accept-Encoding": {"gzip"},
	}
	if fmt.Sprint(c.Header) != fmt.Sprint(want) {
		t.Errorf("the daemon was told\n%v, want\n%v", c.Header, want)
	}
	w.expectCounts("a post to stile", 0, 0)

	// The daemon's answers are its own: no error page of the site's, no check, a cookie as it was set.
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		return &nginxtest.Answer{Status: 403, Body: "no", Header: http.Header{"Set-Cookie": {"stile=x; Path=/; HttpOnly"}}}
	})
	r := w.Get("/.stile/pass")
	header(t, r, "Set-Cookie", "stile=x; Path=/; HttpOnly")
	if r.Status != 403 || r.Body != "no" {
		t.Errorf("/.stile/pass: %d %q, want the daemon's own 403", r.Status, r.Body)
	}
	large := w.Raw(80, nginxtest.Request("POST", "/.stile/proof", strings.Repeat("x", 65<<10)))
	if large.Status != 413 {
		t.Errorf("a proof of 65 KiB: %d, want 413", large.Status)
	}
}
