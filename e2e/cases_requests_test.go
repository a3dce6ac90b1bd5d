package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// use uses up what a stranger may have of a path, and checks that it was served.
func (v *visitor) use(target string, times int, header ...string) {
	v.t.Helper()
	for range times {
		if r := v.get(target, header...); r.Status != 200 {
			v.t.Fatalf("%s within the limit: %d %.200q", target, r.Status, r.Body)
		}
	}
	v.s.app.Reset()
}

// C037: a browser's question before a foreign page's request reaches the application; a request that only says that
// it is one does not.
func TestC037PreflightReachesTheApplication(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	preflight := []string{"Origin: https://app.example.org", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: x-token", "Accept: */*"}
	v := s.visitor(program...)
	v.kept = true
	v.use("/api/x", 120)
	s.expect("a GET over the limit", v.get("/api/x"), 503, 0)
	s.expect("a preflight over the limit of pages", v.ask("OPTIONS", "/api/x", "", preflight...), 200, 1)
	s.expect("a GET that says it is one", v.get("/api/x", append(preflight, "X-Original-Method: OPTIONS", "X-HTTP-Method-Override: OPTIONS")...), 503, 0)
	s.expect("an OPTIONS that is none", v.ask("OPTIONS", "/api/x", ""), 429, 0)
}

// C039: HEAD is answered like GET, without a body, and the connection stays good.
func TestC039HeadIsLikeGet(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	f := func(what, target string, header []string, prepare func(*visitor)) {
		t.Helper()
		v := s.visitor(header...)
		if prepare != nil {
			prepare(v)
		}
		kept := s.visitorFrom(v.from, header...)
		if err := kept.dial(); err != nil {
			t.Fatal(err)
		}
		defer kept.hangUp()
		for range 3 {
			get := v.get(target)
			head, err := kept.exchange("HEAD", nginxtest.Request("HEAD", target, "", header...))
			if err != nil {
				t.Fatalf("%s: %s", what, err)
			}
			if head.Status != get.Status || head.Body != "" {
				t.Errorf("%s: HEAD %d %q, GET %d", what, head.Status, head.Body, get.Status)
			}
			for _, name := range []string{"Content-Type", "Cache-Control", "Content-Security-Policy", "Set-Cookie", "X-Content-Type-Options"} {
				if h, g := head.Header.Values(name), get.Header.Values(name); fmt.Sprint(h) != fmt.Sprint(g) {
					t.Errorf("%s: HEAD has %s %q, GET %q", what, name, h, g)
				}
			}
			if (head.Header.Get("Retry-After") == "") != (get.Header.Get("Retry-After") == "") {
				t.Errorf("%s: Retry-After: HEAD %v, GET %v", what, head.Header, get.Header)
			}
			// Were there any byte after the header, the next answer could not be read.
			if again, err := kept.exchange("GET", nginxtest.Request("GET", "/robots.txt", "")); err != nil || again.Status != 200 || again.Body != "app GET /robots.txt" {
				t.Fatalf("%s: after HEAD the connection says %v, %v", what, again, err)
			}
		}
	}
	f("a challenged page", "/heavy", firefox, nil)
	f("a challenged program", "/heavy", program, nil)
	f("a refused program", "/machines/x", program, func(v *visitor) { v.use("/machines/x", 3) })
	f("a denied page", "/denied/x", firefox, nil)
	f("an exempt page", "/robots.txt", firefox, nil)
	s.app.Reset()
	// Waiting is not begun, nor a limit used, by a HEAD more than by a GET.
	v := s.visitor(program...)
	for range 3 {
		s.expect("HEAD", v.ask("HEAD", "/metered/x", ""), 200, 1)
	}
	s.expect("GET after three HEADs", v.get("/metered/x"), 503, 0)
}

// C040: a download that is resumed without a pass fails, and what was downloaded before stays as it was.
func TestC040ResumedDownloadStaysWhole(t *testing.T) {
	t.Parallel()
	curl := need(t, "curl")
	s := open(t, houseRules, "")
	whole := strings.Repeat("0123456789", 1000)
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "f.bin", time.Unix(1e9, 0), strings.NewReader(whole))
	})
	file := filepath.Join(t.TempDir(), "f")
	f := func(what string, status int, left string, args ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(whole[:500]), 0o600); err != nil {
			t.Fatal(err)
		}
		err := exec.Command(curl, append([]string{"-sS", "-f", "-C", "-", "-o", file}, append(args, "http://"+s.Addr(80)+"/heavy/f.bin")...)...).Run()
		got := 0
		if exit, ok := err.(*exec.ExitError); ok {
			got = exit.ExitCode()
		}
		text, err := os.ReadFile(file)
		if err != nil || got != status || string(text) != left {
			t.Errorf("%s: curl ended with %d, want %d; %d bytes left, want %d; %v", what, got, status, len(text), len(left), err)
		}
	}
	f("without a pass", 22, whole[:500])
	f("as a browser", 22, whole[:500], "-A", "Mozilla/5.0", "-H", "Accept: text/html")
	v := s.member()
	f("with a pass", 0, whole, "-b", "stile="+v.jar["stile"])
	for _, accept := range []string{"text/html", "image/png", "*/*", "application/octet-stream"} {
		for _, header := range []string{"Range: bytes=500-", "Range: bytes=0-", "Range: bytes=0-0,5-9", "Range: x", "If-Range: x"} {
			r := s.visitor().get("/heavy/f.bin", header, "Accept: "+accept, "Upgrade-Insecure-Requests:")
			if r.Status != 503 || strings.HasPrefix(header, "Range") && !isText(r) || r.Header.Get("Content-Range") != "" || r.Header.Get("Accept-Ranges") != "" {
				t.Errorf("%s for %s: %d %v %.100q", header, accept, r.Status, r.Header, r.Body)
			}
		}
	}
}

// C042: a WebSocket is opened with a pass and not without one; reconnecting is limited; one that is open stays open
// whatever becomes of the daemon.
func TestC042WebSocket(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }
}
`)
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(c, "echo "+line)
		}
	})
	handshake := []string{
		"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: http://site.example",
		"Accept: */*", "Sec-Fetch-Dest: empty", "Sec-Fetch-Mode: websocket", "Sec-Fetch-Site: same-origin", "Upgrade-Insecure-Requests:",
	}
	connect := func(v *visitor, target string, header ...string) (*bufio.ReadWriter, int) {
		t.Helper()
		v.hangUp()
		if err := v.dial(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.hangUp)
		v.conn.SetDeadline(time.Now().Add(60 * time.Second))
		io.WriteString(v.conn, nginxtest.Request("GET", target, "", v.lines(append(header, handshake...))...))
		resp, err := http.ReadResponse(v.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 101 {
			body, _ := io.ReadAll(resp.Body)
			if !isText(&nginxtest.Response{Header: resp.Header, Body: string(body)}) || resp.Header.Get("Location") != "" {
				t.Errorf("%s: %d %v %.100q", target, resp.StatusCode, resp.Header, body)
			}
		}
		return bufio.NewReadWriter(v.r, bufio.NewWriter(v.conn)), resp.StatusCode
	}
	echo := func(what string, rw *bufio.ReadWriter) {
		t.Helper()
		rw.WriteString(what + "\n")
		rw.Flush()
		if line, err := rw.ReadString('\n'); err != nil || line != "echo "+what+"\n" {
			t.Errorf("%s: %q, %v", what, line, err)
		}
	}
	if _, status := connect(s.visitor(), "/heavy/ws"); status != 503 {
		t.Errorf("without a pass: %d", status)
	}
	expired := s.visitor()
	expired.jar["stile"] = s.daemon.makePass(2, -time.Minute)
	if _, status := connect(expired, "/heavy/ws"); status != 503 {
		t.Errorf("with an expired pass: %d", status)
	}
	s.hits("without a pass", 0)
	v := s.member()
	rw, status := connect(v, "/heavy/ws")
	if status != 101 {
		t.Fatalf("with a pass: %d", status)
	}
	echo("open", rw)

	storm, got := s.visitor(), map[int]int{}
	for range 30 {
		_, status := connect(storm, "/metered/ws")
		got[status]++
	}
	if got[101] != 9 || got[503] != 21 { // three times the limit, as parts of a page have
		t.Errorf("30 reconnects of a stranger: %v", got)
	}
	member := s.member()
	got = map[int]int{}
	for range 30 {
		_, status := connect(member, "/metered/ws")
		got[status]++
	}
	if got[101] != 18 || got[429] != 12 {
		t.Errorf("30 reconnects with a pass: %v", got)
	}
	echo("still open", rw)
	s.daemon.kill(syscall.SIGTERM)
	echo("without a daemon", rw)
	s.daemon.start()
	echo("with a new one", rw)
}

// C044, C045: who navigates gets the page, whatever the age of the browser and the scheme; a script that asks for a
// part of a page gets a line that cannot be swapped into it.
func TestC045WhoGetsAPage(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	const html = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	f := func(what string, page bool, header ...string) {
		t.Helper()
		r := s.visitor(header...).get("/heavy/x")
		s.expect(what, r, 503, 0)
		if page != isPage(r) || page == isText(r) {
			t.Errorf("%s: want a page: %v; got %v %.100q", what, page, r.Header, r.Body)
		}
		if strings.Contains(strings.Join(header, ","), "Accept: application/json") && !json.Valid([]byte(r.Body)) {
			t.Errorf("%s: %q", what, r.Body)
		}
	}
	old := "User-Agent: Mozilla/5.0 (Windows NT 6.1; rv:60.0) Gecko/20100101 Firefox/60.0"
	f("Firefox 60", true, old, html, "Accept-Language: de", "Connection: keep-alive", "Upgrade-Insecure-Requests: 1")
	f("a modern one over https", true, html, "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none", "Sec-Fetch-User: ?1", "Priority: u=0, i")
	f("in a frame", true, html, "Sec-Fetch-Dest: iframe", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: cross-site")
	f("Internet Explorer, reloading", true, "Accept: text/html, application/xhtml+xml, */*", "User-Agent: Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko")
	f("lynx", true, "User-Agent: Lynx/2.9.0dev.12", "Accept: text/html, text/plain, text/sgml, text/css, */*;q=0.01")
	f("in capitals", true, "Accept: TEXT/HTML")
	f("htmx", false, html, "HX-Request: true", "HX-Current-URL: http://site.example/")
	f("htmx, as it really asks", false, "Accept: */*", "HX-Request: true")
	f("jQuery", false, html, "X-Requested-With: XMLHttpRequest")
	f("Turbo", false, "Accept: text/html, application/xhtml+xml", "Turbo-Frame: messages")
	f("a fetch for HTML", false, html, "Sec-Fetch-Dest: empty", "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin")
	f("a fetch for JSON", false, "Accept: application/json", "Sec-Fetch-Dest: empty", "Sec-Fetch-Mode: cors")
	f("a program for JSON", false, "Accept: application/json")
	f("an image", false, "Accept: image/avif,image/webp,*/*", "Sec-Fetch-Dest: image", "Sec-Fetch-Mode: no-cors")
	f("an old image", false, old, "Accept: image/webp,*/*")
	f("a script", false, "Accept: */*", "Sec-Fetch-Dest: script", "Sec-Fetch-Mode: no-cors")
	f("events", false, "Accept: text/event-stream", "Cache-Control: no-cache")
	f("a prefetch", false, html, "Sec-Purpose: prefetch", "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate")
	f("a prerender", false, html, "Sec-Purpose: prefetch;prerender", "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate")
	f("an object", false, html, "Sec-Fetch-Dest: object", "Sec-Fetch-Mode: navigate")
	f("whatever", false, "Accept: */*")
	f("nothing", false, "X: y")
	f("anything but HTML", false, "Accept: text/html;q=0, */*")
	f("almost HTML", false, "Accept: text/htmlx, application/xml")
}

// C048: nobody gets bytes that he did not say he could inflate.
func TestC048NobodyGetsBytesHeCannotInflate(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	page := s.visitor().get("/heavy/x")
	script := regexp.MustCompile(`src="(/\.stile/stile\.js\?v=[0-9a-f]+)"`).FindStringSubmatch(page.Body)
	if script == nil {
		t.Fatalf("no script in %.500q", page.Body)
	}
	for _, target := range []string{"/heavy/x", script[1]} {
		for _, accept := range []string{
			"Accept-Encoding: identity", "Accept-Encoding:", "X: y", "Accept-Encoding: gzip;q=0", "Accept-Encoding: gzip; q=0.0", "Accept-Encoding: br, deflate",
			"Accept-Encoding: *;q=0", "Accept-Encoding: gzip;q=0, *", "Accept-Encoding: xgzip", "Accept-Encoding: ;;,,",
		} {
			r := s.visitor("Accept: text/html").get(target, accept)
			if got := r.Header.Get("Content-Encoding"); got != "" || strings.HasPrefix(r.Body, "\x1f\x8b") {
				t.Errorf("%s with %q: Content-Encoding %q", target, accept, got)
			}
		}
	}
	if r := s.visitor().get(script[1], "Accept-Encoding: deflate, gzip, br"); r.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(r.Body, "\x1f\x8b") || r.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("the script for a browser: %v", r.Header)
	}
}

// C050: whatever is in a header, the decision is the usual one, and the daemon does not notice.
func TestC050HostileHeaders(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
    location /open/ { proxy_pass_request_headers off; proxy_pass http://127.0.0.1:8080; } # the application here is strict, too
}
`)
	started := s.daemon.metric("process_start_time_seconds", "")
	long := strings.Repeat
	for _, name := range []string{
		"Accept-Language", "Accept", "Accept-Encoding", "User-Agent", "Cookie", "Referer", "Origin", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Purpose", "Upgrade", "Range",
		"X-Requested-With", "Content-Type", "Authorization", "Signature", "X-Original-URI", "X-Real-IP", "X-Request-ID", "X-Stile-Verdict", "Turbo-Frame",
	} {
		for _, value := range []string{
			"", "und", "*", ";;;,,,;q=", "x;q=99999999999999999999", "x;q=-1,y;q=NaN,z;q=1e999", long("en-", 2600), long("en;q=0.1,", 880), long(",", 7900), long(";", 7900), long("=", 7900),
			"\xff\xfe\x80\xc3\x28", "\xed\xa0\x80", "caf\xe9", "\t\t", "\"unclosed", "stile=" + long("A", 66), "stile=\"\"; stile=;stile", "<script>alert(1)</script>",
			"%00%0d%0aX-Injected: 1", "${jndi:ldap://x/}", "null", "http://[::1", "ws://site.example\\@evil.example", "bytes=99999999999999999999-",
		} {
			h := name + ": " + value
			r := s.visitor().get("/heavy/x", h)
			s.expect(fmt.Sprintf("%.60q", h), r, 503, 0)
			if strings.Contains(r.Body, "<script>alert") || r.Header.Get("X-Injected") != "" {
				t.Errorf("%.60q comes back in the answer", h)
			}
		}
		if name != "Authorization" { // of which nginx takes one
			s.expect(name+" twice", s.visitor().get("/heavy/x", name+": a", name+": b", strings.ToUpper(name)+": c"), 503, 0)
		}
	}
	for _, target := range []string{"/.stile/pass", "/.stile/prove", "/.stile/stile.js", "/.stile/wait?t=x&u=y"} {
		for _, value := range []string{"und", "\xff\xc3\x28", long("a", 8000), ""} {
			r := s.visitor("Accept-Language: "+value, "Cookie: stile="+value, "Origin: "+value, "User-Agent: "+value).get(target)
			if r.Status >= 500 || target == "/.stile/prove" && r.Status != 200 {
				t.Errorf("%s with %.20q: %d", target, value, r.Status)
			}
		}
	}
	// Control bytes are not allowed in a header (RFC 9110 §5.5), though nginx lets all but NUL and line ends pass.
	for _, name := range []string{"User-Agent", "Cookie", "Referer", "Accept-Language", "X-Other"} {
		for c := range 256 {
			h := fmt.Sprintf("%s: a%c%[2]cb", name, c)
			if c >= 0x80 {
				h = name + ": a" + string([]byte{byte(c), byte(c)}) + "b"
			}
			switch c {
			case 0:
				s.expect(fmt.Sprintf("%q", h), s.visitor().get("/heavy/x", h), 400, 0)
			case '\r', '\n': // the end of the line, or of the head
			default:
				s.expect(fmt.Sprintf("%q", h), s.visitor().get("/heavy/x", h), 503, 0)
			}
		}
	}
	for _, value := range []string{"\x01", "\x01b", "a\x02", "\x08", "\x0b", "\x1b[31m", "\x7f", long("\x7f", 7900), long("a\x01", 3900)} {
		v := s.visitor("User-Agent: "+value, "Accept: text/html", "Accept-Language: de"+value, "Cookie: a="+value, "Origin: "+value)
		s.expect(fmt.Sprintf("%.60q in four headers", value), v.get("/heavy/x"), 503, 0)
		s.expect(fmt.Sprintf("%.60q on a way that is open", value), v.get("/open/"), 200, 1)
		if r := v.get("/.stile/prove"); r.Status != 200 {
			t.Errorf("/.stile/prove with %.60q: %d", value, r.Status)
		}
		if r := v.ask("POST", "/.stile/proof", `{"token":"`+value+`"}`, "Content-Type: application/json"); r.Status != 400 && r.Status != 403 {
			t.Errorf("%.60q in a proof: %d %.200q", value, r.Status, r.Body)
		}
	}
	// What nginx does not let pass it refuses itself, or drops; in either case nothing opens.
	f := func(line string, want int) {
		t.Helper()
		r, err := s.visitor().raw("GET /heavy/x HTTP/1.1\r\nHost: site.example\r\nAccept: text/html\r\nUser-Agent: Mozilla/5.0\r\n" + line + "\r\n\r\n")
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s.expect(fmt.Sprintf("%q", line), r, want, 0)
	}
	f("Accept-Language: a\rb", 400)
	f("Accept-Language: a\r", 503) // one more before the line's end
	f("Accept-Language: a\r\n b", 400)
	f("Accept-Language: a\n\tb", 400)
	f("Accept-Language: a\nAccept-Encoding: b", 503)
	f("Accept\x01: a", 400)
	f("Accept\x7f: a", 400)
	f("Accept Language: a", 400)
	f("Accept-Language : a", 400)
	f(" Accept-Language: a", 400)
	f(": a", 400)
	f("Accept\xffLanguage: a", 503)
	f("Accept(Language): a", 503)
	f("Accept_Language: a", 503)
	f("Accept-Language", 503)
	if n := s.daemon.metric("stile_panics_total", ""); n != 0 {
		t.Errorf("%v panics", n)
	}
	if n := s.daemon.metric("stile_protocol_errors_total", ""); n != 0 {
		t.Errorf("%v requests that the daemon could not read", n)
	}
	if got := s.daemon.metric("process_start_time_seconds", ""); got != started || got == 0 {
		t.Errorf("the daemon was started at %v, before at %v", got, started)
	}
	if n := strings.Count(s.daemon.output(), "\n"); n > 6 {
		t.Errorf("%d lines in the log:\n%s", n, s.daemon.output())
	}
}

// C105, C107, C118, C126: machines are told to come back in a way that they understand, and never with a success, a
// page, a password prompt or a redirect.
func TestC118MachinesAreToldToComeBack(t *testing.T) {
	t.Parallel()
	s := open(t, `include = ["preset:generic"]
[[meter]]
name = "machines"
window = "1h"
stranger = 3
pass = 3
user = 3
[[meter]]
name = "pages"
window = "1h"
stranger = 3
pass = 3
user = 3
`, "")
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "application/rss+xml")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(`<?xml version="1.0"?><rss version="2.0"><channel><title>News</title></channel></rss>`))
	})
	f := func(what, method, target, body string, refused int, header ...string) {
		t.Helper()
		v := s.visitor(append(header, "Accept: */*")...)
		for range 3 {
			if r := v.ask(method, target, body); r.Status != 200 {
				t.Fatalf("%s: %d %q", what, r.Status, r.Body)
			} else if err := xml.NewDecoder(strings.NewReader(r.Body)).Decode(new(struct{})); method == "GET" && err != nil {
				t.Errorf("%s: not the feed: %v", what, err)
			}
		}
		s.app.Reset()
		for range 2 {
			r := v.ask(method, target, body)
			s.expect(what, r, refused, 0)
			s.ours(what, r)
			if !isText(r) && method != "HEAD" {
				t.Errorf("%s: %v %.100q", what, r.Header, r.Body)
			}
			seconds(t, what, r)
		}
	}
	f("a feed reader", "GET", "/feed/", "", 429, "User-Agent: Mozilla/5.0 (compatible; Miniflux/2.2)")
	f("a feed reader", "GET", "/atom.xml", "", 429, "User-Agent: NewsBlur Feed Fetcher")
	f("a feed by its query", "GET", "/?feed=rss2", "", 429, "User-Agent: Tiny Tiny RSS/21")
	f("a feed of a page", "GET", "/x.atom", "", 503, "User-Agent: FreshRSS/1.2")
	f("a hook", "POST", "/hooks/x", `{"a":1}`, 429, "Content-Type: application/json", "User-Agent: GitHub-Hookshot/1")
	f("a hook that reads JSON", "POST", "/hooks/y", `{"a":1}`, 429, "Content-Type: application/json", "X-Requested-With: x")
	f("a sign-in", "POST", "/login/oauth/access_token", "code=1", 429, "Content-Type: application/x-www-form-urlencoded")
	f("a registration", "POST", "/oauth/register", "{}", 429, "Content-Type: application/json")
	for _, agent := range []string{"git/2.39.5", "git/2.48.1 (Apple Git-154)", "libgit2 1.7.1", "JGit/6.8.0.202311291450-r", "go-git/5.x", "Mozilla/5.0", "", "isomorphic-git"} {
		f(agent, "GET", "/r.git/info/refs?service=git-upload-pack", "", 429, "User-Agent: "+agent)
		f(agent, "POST", "/r.git/git-upload-pack", "0000", 429, "User-Agent: "+agent, "Content-Type: application/x-git-upload-pack-request")
	}
	f("large files of git", "POST", "/r.git/info/lfs/objects/batch", "{}", 429, "Content-Type: application/vnd.git-lfs+json", "User-Agent: git-lfs/3.6.0")
	f("a registry", "GET", "/v2/group/image/manifests/latest", "", 429, "User-Agent: docker/27.0")
	f("a registry's blob", "HEAD", "/v2/group/image/blobs/sha256:00", "", 429, "User-Agent: containerd/1.7")
	f("an inbox", "POST", "/users/a/inbox", "{}", 429, "Content-Type: application/activity+json", "Signature: keyId=\"x\"")
	f("a crawler that is not known", "GET", "/page", "", 429, "User-Agent: DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)") // of others DNS has to say it: TestCrawlersByDefault
	f("a crawler that is not known", "HEAD", "/page", "", 429, "User-Agent: PerplexityBot/1.0")
	f("a monitor", "HEAD", "/", "", 503, "User-Agent: Uptime-Kuma/1.23")

	v := s.visitor("User-Agent: Miniflux/2.2", "Accept: */*")
	if r := v.get("/feed/", `If-None-Match: "1"`); r.Status != 304 {
		t.Errorf("a feed that has not changed: %d", r.Status)
	}
}

// C116: what is downloaded and checked by its sum is right, or the download fails.
func TestC116DownloadIsRightOrFails(t *testing.T) {
	t.Parallel()
	curl := need(t, "curl")
	s := open(t, "include = [\"preset:generic\"]\n[[meter]]\nname = \"pages\"\nwindow = \"1h\"\nstranger = 4\npass = 4\n", "")
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirected" {
			http.Redirect(w, r, "/archive/v1.tar.gz", http.StatusFound)
			return
		}
		io.WriteString(w, "the very bytes")
	})
	got := map[string]int{}
	for i := range 12 {
		target := []string{"/plain/file?h=x", "/archive/v1.tar.gz", "/redirected"}[i%3]
		out, err := exec.Command(curl, "-fsSL", "http://"+s.Addr(80)+target).Output()
		switch {
		case err == nil && string(out) == "the very bytes":
			got["right"]++
		case err != nil && len(out) == 0:
			got["failed"]++
		default:
			t.Errorf("%s: %v %.100q", target, err, out)
		}
	}
	if got["right"] < 2 || got["failed"] < 6 {
		t.Errorf("%v", got)
	}
}

// C124: the page says nothing for previews, and names no product.
func TestC124NothingForPreviews(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	for _, target := range []string{"/heavy/x", "/denied/x", "/trap/x"} {
		r := s.visitor("User-Agent: Mozilla/5.0 (compatible; Discordbot/2.0)", "Accept: text/html").get(target)
		for _, meta := range regexp.MustCompile(`<(?:meta|link)[^>]*>`).FindAllString(r.Body, -1) {
			if !regexp.MustCompile(`^<meta (charset="utf-8"|name="(viewport|color-scheme)" |http-equiv="refresh" )`).MatchString(meta) {
				t.Errorf("%s: %s", target, meta)
			}
		}
		text := regexp.MustCompile(`(?s)<script.*?</script>|<style.*?</style>|<[^>]*>`).ReplaceAllString(r.Body, " ")
		if strings.Contains(strings.ToLower(text), "stile") || r.Status == 200 || !isPage(r) {
			t.Errorf("%s: %d %.300s", target, r.Status, text)
		}
	}
}

// C131, C132: a cache in front that keeps everything for a minute keeps nothing of ours.
func TestC131CacheKeepsNothingOfOurs(t *testing.T) {
	t.Parallel()
	s := build(t, houseRules, nginxtest.Options{
		Site: `
proxy_cache_path /run/stile/cache keys_zone=front:1m;
server {
    listen 82;
    proxy_cache front;
    proxy_cache_valid any 1m;
    proxy_cache_key $request_uri;
    add_header X-Cache $upstream_cache_status always;
    location / { proxy_pass http://127.0.0.1:80; proxy_set_header Host $host; proxy_set_header X-Client $remote_addr; }
}
server {
    listen 80;
    set_real_ip_from 127.0.0.0/8;
    real_ip_header X-Client;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`,
	})
	s.daemon.start()
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprintf(w, "app %s", r.RequestURI)
	})
	front := func(header ...string) *visitor {
		v := s.visitor(header...)
		v.port = 82
		return v
	}
	f := func(what string, status int, r *nginxtest.Response, cached string) {
		t.Helper()
		if r.Status != status || r.Header.Get("X-Cache") != cached {
			t.Errorf("%s: %d and %s, want %d and %s", what, r.Status, r.Header.Get("X-Cache"), status, cached)
		}
	}
	a, b := front(), front()
	ra, rb := a.get("/heavy/x"), b.get("/heavy/x")
	f("the first", 503, ra, "MISS")
	f("the second", 503, rb, "MISS")
	if a.puzzle(ra).Token == b.puzzle(rb).Token {
		t.Error("two visitors got one challenge")
	}
	f("a denied agent", 403, front("User-Agent: BadBot", "Accept: text/html").get("/page"), "MISS")
	f("a good agent, same page", 200, front().get("/page"), "MISS")
	f("a good agent, again", 200, front().get("/page"), "HIT")
	limited := front(program...)
	for i := range 3 {
		f("within the limit", 200, limited.get("/machines/"+strconv.Itoa(i)), "MISS")
	}
	f("over the limit", 429, limited.get("/machines/3"), "MISS")
	f("another, same page", 200, front(program...).get("/machines/3"), "MISS")
	p := a.puzzle(ra)
	for what, r := range map[string]*nginxtest.Response{
		"a wrong proof": a.ask("POST", "/.stile/proof", proofText(p.Token, make([]byte, 4*p.Parts)), a.fetchHeaders()...),
		"no pass yet":   a.get("/.stile/pass"),
		"a bad wait":    a.get("/.stile/wait?t=x&u=y"),
		"nothing there": a.get("/.stile/x"),
		"prove":         a.get("/.stile/prove"),
	} {
		if got := r.Header.Get("Cache-Control"); !strings.HasPrefix(got, "no-store") {
			t.Errorf("%s: Cache-Control %q", what, got)
		}
	}
	a.prove(ra)
	f("with a pass", 200, a.get("/heavy/x"), "MISS")
	f("a stranger after that: the site's own rule", 200, b.get("/heavy/x"), "HIT")
}

// C140, C141, C144: a flood that ignores what it is told costs a bounded log, the same number of metrics, and nobody
// else's page.
func TestC144FloodThatIgnoresRefusals(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	side := s.member()
	s.expect("the visitor beside", side.get("/heavy/side"), 200, 1)
	countSeries := func() int { // but for the buckets of a histogram, which come with their first value
		return len(regexp.MustCompile(`(?m)^stile_[a-z_]+(?:\{[^}]*\})? `).FindAllString(regexp.MustCompile(`(?m)^stile_.*vmrange.*$`).ReplaceAllString(s.daemon.metrics(), ""), -1))
	}
	series := countSeries()
	lines, errors := strings.Count(s.daemon.output(), "\n"), strings.Count(s.Errors(), "\n")
	s.app.Reset()
	conn, bytesRead, n := s.Dial(80), 0, 0
	for i := range 2500 {
		target, agent := fmt.Sprintf("/heavy/%d/%x", i, i*7919), fmt.Sprintf("User-Agent: bot %d", i)
		if i%5 == 4 { // gone before the answer
			v := s.visitor()
			if err := v.dial(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(v.conn, nginxtest.Request("GET", target, "", agent))
			v.hangUp()
			continue
		}
		r, err := conn.Ask(nginxtest.Request("GET", target, "", agent, "Accept: */*"))
		if err != nil || r.Status != 503 {
			t.Fatalf("request %d: %v, %v", i, r, err)
		}
		bytesRead += len(r.Body)
		n++
		if i%250 == 0 {
			if r := side.get("/heavy/side"); r.Status != 200 {
				t.Errorf("the visitor beside: %d", r.Status)
			}
		}
	}
	if each := bytesRead / n; each > 200 {
		t.Errorf("a refused program gets %d bytes", each)
	}
	for _, h := range s.app.Hits() {
		if h.Target != "/heavy/side" {
			t.Errorf("the application was asked for %s", h.Target)
		}
	}
	if got := countSeries(); got != series || series < 50 {
		t.Errorf("%d series, before %d", got, series)
	}
	if text := s.daemon.metrics(); strings.Contains(text, "bot 1") || strings.Contains(text, "/heavy/1") {
		t.Error("the client's words are in the metrics")
	}
	if got := strings.Count(s.daemon.output(), "\n") - lines; got > 2 {
		t.Errorf("%d lines in the daemon's log", got)
	}
	var loud bytes.Buffer
	for line := range strings.Lines(s.Errors()) {
		if strings.Contains(line, "[error]") || strings.Contains(line, "[warn]") {
			loud.WriteString(line)
		}
	}
	if loud.Len() > 0 {
		t.Errorf("nginx's error log, %d lines more: %.500s", strings.Count(s.Errors(), "\n")-errors, loud.String())
	}
}

// C138: addresses beyond counting cost no memory beyond the tables.
func TestC138SprayOfAddressesCostsNoMemory(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	spray := func(net int) (rssBytes float64) {
		t.Helper()
		checks, pages := make([]string, 50_000), make([]string, 4_000)
		for i := range checks {
			checks[i] = checkRequest(fmt.Sprintf("2001:db8:%x:%x::1", net*16+i>>16, i&0xffff), "/page", "")
		}
		for i := range pages {
			pages[i] = strings.Replace(checks[i], "GET /check HTTP/1.1\r\n", "GET /challenge HTTP/1.1\r\nX-Stile-Verdict: challenge;level=1\r\nAccept: text/html\r\n", 1)
		}
		s.pipeline(checks)
		if got := s.pipeline(pages); got[503] != len(pages) {
			t.Errorf("the pages' statuses: %v", got)
		}
		return s.daemon.metric("process_resident_memory_bytes", "")
	}
	spray(0)
	first := spray(1)
	for i := range 3 {
		if rss := spray(2 + i); rss > first+8<<20 || rss > 64<<20 {
			t.Errorf("resident after spray %d: %.1f MB, after the first %.1f MB; want it flat, and at most 64 MB", 3+i, rss/(1<<20), first/(1<<20))
		}
	}
	t.Logf("resident: %.1f MB", first/(1<<20))
	s.expect("a visitor afterwards", s.visitor().get("/robots.txt"), 200, 1)
}

// checkRequest is nginx's question about a GET from an address, with a cookie.
func checkRequest(addr, target, cookie string) string {
	return "GET /check HTTP/1.1\r\nHost: stile\r\nX-Original-URI: " + target + "\r\nX-Original-Method: GET\r\nX-Real-IP: " + addr +
		"\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: site.example\r\nUser-Agent: x\r\nCookie: " + cookie + "\r\n\r\n"
}

// pipeline sends requests to the daemon's socket, many in flight on one connection, and counts the answers by status.
func (s *site) pipeline(requests []string) map[int]int {
	s.t.Helper()
	c, err := net.Dial("unix", s.daemon.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	go func() {
		w := bufio.NewWriterSize(c, 1<<16)
		for _, r := range requests {
			w.WriteString(r)
		}
		w.Flush()
	}()
	got, r := map[int]int{}, bufio.NewReaderSize(c, 1<<16)
	for range requests {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		got[resp.StatusCode]++
	}
	return got
}
