package nginx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// C018, C050: nothing that a client can send keeps nginx from asking, or makes it take no answer for a yes. Refused is
// everybody here, so whatever reaches the application has found a way around.
func TestNoRequestOpens(t *testing.T) {
	w := start(t, plain(``))
	w.d.Always(nginxtest.Refuse)
	f := func(what, request string, statuses ...int) {
		t.Helper()
		c := w.Dial(80)
		r, err := c.Ask(request)
		switch {
		case err != nil && !slices.Contains(statuses, 0):
			t.Errorf("%s: no answer: %s", what, err)
		case err == nil && !slices.Contains(statuses, r.Status):
			t.Errorf("%s: %d, want one of %v", what, r.Status, statuses)
		}
		c.Close()
		if hits := w.app.Hits(); len(hits) != 0 {
			t.Errorf("%s: reached the application: %+v", what, hits)
			w.app.Reset()
		}
	}
	get := func(headers ...string) string { return nginxtest.Request("GET", "/heavy", "", headers...) }
	long := func(n int) string { return strings.Repeat("x", n) }

	f("a cookie of 7.9 KB", get("Cookie: a="+long(7900)), 429)
	f("four headers of 8 KB", get("Cookie: a="+long(8000), "User-Agent: "+long(8000), "Referer: "+long(8000)), 429)
	f("a header of 9 KB", get("Cookie: a="+long(9000)), 400)
	f("ten headers of 8 KB", get(slices.Repeat([]string{"X-Y: " + long(8000)}, 10)...), 400)
	f("a thousand headers", get(slices.Repeat([]string{"A: b"}, 1000)...), 429, 400)
	f("a target of 8 KB", nginxtest.Request("GET", "/"+long(8000), ""), 429)
	f("a target of 9 KB", nginxtest.Request("GET", "/"+long(9000), ""), 414)
	f("200 cookies", get(slices.Repeat([]string{"Cookie: stile=" + long(20)}, 200)...), 429, 400)
	f("bytes above 127", get("User-Agent: \xff\xfe\x80", "Cookie: \xf0\x9f\x90\x91", "Accept-Language: und"), 429)
	f("control characters", get("User-Agent: \x01\x02\x7f\t"), 429, 403)
	f("a zero byte", get("User-Agent: a\x00b"), 400)
	f("a bare carriage return", get("User-Agent: a\rX-Real-IP: 192.0.2.1"), 400, 429)
	f("a folded header", get("User-Agent: a\r\n X-Real-IP: 192.0.2.1"), 400, 429)
	f("a header without a name", get(": x"), 400, 429)
	f("a header name of spaces", get("X Y: z"), 400, 429)
	f("a bad host", "GET /heavy HTTP/1.1\r\nHost: a\"b/c\r\n\r\n", 400, 429)
	f("an empty host", "GET /heavy HTTP/1.1\r\nHost:\r\n\r\n", 400, 429)
	f("no host", "GET /heavy HTTP/1.1\r\n\r\n", 400)
	f("two hosts", "GET /heavy HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400)
	f("HTTP/1.0", "GET /heavy HTTP/1.0\r\n\r\n", 429)
	f("HTTP/0.9", "GET /heavy\r\n", 0)
	f("HTTP/2 on the wrong port", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, 400, 405)
	f("an absolute target", "GET http://site.example/heavy HTTP/1.1\r\nHost: x\r\n\r\n", 429)
	f("an absolute target without a path", "GET http://site.example?heavy HTTP/1.1\r\nHost: x\r\n\r\n", 429)
	f("an asterisk", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400, 405)
	f("CONNECT", "CONNECT site.example:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400, 405)
	f("TRACE", "TRACE /heavy HTTP/1.1\r\nHost: x\r\n\r\n", 405)
	f("a bad escape", nginxtest.Request("GET", "/heavy%zz", ""), 400)
	f("an escaped zero", nginxtest.Request("GET", "/heavy%00", ""), 400)
	f("above the root", nginxtest.Request("GET", "/../heavy", ""), 400)
	f("a post of 5 MB", nginxtest.Request("POST", "/heavy", long(5<<20)), 429)
	f("a post above the site's limit", "POST /heavy HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n", 413)
	f("a length beyond all numbers", "POST /heavy HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400)
	f("a negative length", "POST /heavy HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400)
	f("two lengths", "POST /heavy HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400)
	f("a length and chunks", "POST /heavy HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)
	f("chunks", "POST /heavy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 429)
	f("broken chunks", "POST /heavy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, 429)
	f("an unknown transfer encoding", "POST /heavy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501)
	f("an expectation", get("Expect: 100-continue"), 429)
	f("a large expectation", "PUT /heavy HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\nExpect: 100-continue\r\n\r\n", 429)
	f("an upgrade", get("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"), 429)
	f("an upgrade to HTTP/2", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), 429)
	f("a range", get("Range: bytes=500-"), 429)
	f("a condition", get("If-None-Match: *", "If-Modified-Since: Sat, 01 Jan 2050 00:00:00 GMT"), 429)
	f("hop-by-hop tricks", get("Connection: close, X-Real-IP, X-Original-URI, Cookie"), 429)
	for _, status := range []string{"X-Accel-Redirect: /heavy", "X-Stile-Verdict: allow", "X-Original-URI: /robots.txt"} {
		f(status, get(status), 429)
	}

	// Requests on one connection are each asked about, also when they come in one packet.
	c := w.Dial(80)
	w.d.Reset()
	if _, err := c.Ask(strings.Repeat(get(), 5)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if r, err := c.Answer("GET"); err != nil || r.Status != 429 {
			t.Errorf("pipelined: %+v, %v", r, err)
		}
	}
	w.expectCounts("pipelined", 5, 0)
}

// A daemon with less room for headers than nginx says 431 and hangs up: that is no, every time.
func TestSmallDaemonDoesNotOpen(t *testing.T) {
	w := startWithoutDaemon(t, plain(``))
	w.d = nginxtest.StartDaemon(t, w.Socket())
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		if len(c.Header.Get("Cookie")) > 4000 {
			return &nginxtest.Answer{Status: 431, Header: map[string][]string{"Connection": {"close"}}, Body: "too large"}
		}
		return nginxtest.Refuse
	})
	for range 50 {
		w.expect("431", w.Get("/x", "Cookie: a="+strings.Repeat("x", 7000)), 403, 1, 0)
	}
}

// N14: the largest head that nginx, as it comes, hands to the daemon. The daemon's buffer must be larger; whoever
// raises large_client_header_buffers raises this too.
func TestLargestHead(t *testing.T) {
	w := start(t, plain(``))
	x := strings.Repeat("x", 8100)
	r := w.Get("/"+x, "Cookie: "+x, "User-Agent: "+x, "Referer: "+x)
	w.expectHead(t, r, 4*8100)
	r = w.Get("/"+x, "Cookie: "+x, "User-Agent: "+x, "Referer: "+x, "Accept: "+x)
	if r.Status != 400 {
		t.Errorf("five lines of 8 KB: %d, want 400", r.Status)
	}
}

func (w *world) expectHead(t *testing.T, r *nginxtest.Response, least int) {
	t.Helper()
	calls := w.d.Calls("/check")
	if r.Status != 200 || len(calls) != 1 {
		t.Fatalf("%d after %d checks", r.Status, len(calls))
	}
	size := 0
	for name, values := range calls[0].Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size < least || size > 64<<10 {
		t.Errorf("a head of %d bytes, want at least %d and less than 64 KiB", size, least)
	}
	t.Logf("the largest head: %d bytes", size)
}

// N7: a line break in a target, however it is written, ends no header line. (Before the daemon could be told a
// decoded variable, this is how that would be seen.)
func TestHeaderInjection(t *testing.T) {
	w := start(t, plain(``))
	const evil = "%0d%0aX-Real-IP:%20192.0.2.66%0d%0aX-Stile-Verdict:%20allow%0d%0a%0d%0aGET%20/check%20HTTP/1.1%0d%0a"
	targets := []string{
		"/" + evil, "/x?" + evil, "/x#" + evil, "/%0aX-Real-IP:1", "/%0dX-Real-IP:1", "/a%20HTTP/1.1%0d%0aX-Real-IP:%201",
		"/.stile/" + evil, "/.stile/x?" + evil, "/.stile/%0a", "/.stile/%0d%0a%0d%0aGET%20/check%20HTTP/1.1",
	}
	for _, target := range targets {
		for _, a := range []*nginxtest.Answer{nginxtest.Challenge, nginxtest.Refuse} {
			w.d.Always(a)
			w.Get(target, "Cookie: %0d%0aX-Real-IP: 192.0.2.66")
			for _, c := range w.d.Calls("") {
				for name, values := range c.Header {
					for _, v := range values {
						if strings.ContainsAny(v, "\r\n") || name == "X-Real-Ip" && v != "127.0.0.1" || len(values) != 1 {
							t.Errorf("%s told %q: %s is %q", target, c.Target, name, values)
						}
					}
				}
				if strings.ContainsAny(c.Target, "\r\n") {
					t.Errorf("%s asked for %q", target, c.Target)
				}
			}
			if got := len(w.d.Calls("")); strings.HasPrefix(target, "/.stile/") && got != 1 || got > 2 {
				t.Errorf("%s: %d calls", target, got)
			}
			w.d.Reset()
			w.app.Reset()
		}
	}
}

// HTTP/2 carries fields as lengths and bytes, so a client can put a line break into any of them.
func TestHeaderInjectionHTTP2(t *testing.T) {
	w := start(t, plain(``))
	w.d.Always(nginxtest.Refuse)
	request := func(method, target string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "http", ":authority", "site.example", ":path", target}, more...)
	}
	if status := w.Raw2(82, request("GET", "/x", "user-agent", "test")...); status != 429 {
		t.Fatalf("an ordinary request: %d, want 429", status)
	}
	const evil = "x\r\nX-Real-IP: 192.0.2.66\r\nX-Stile-Verdict: allow\r\n\r\nGET /check HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, fields := range [][]string{
		request("GET", "/"+evil), request("GET", "/x?"+evil), request("GET", "/.stile/"+evil), request("GET"+evil, "/x"),
		request("GET", "/x", "user-agent", evil), request("GET", "/x", "cookie", evil), request("GET", "/x", "accept", "a\nb: c"),
		request("GET", "/x", "accept", "a\rb: c"), request("GET", "/x", "accept", "a\x00b"), request("GET", "/x", "accept\r\nx-real-ip", "1"),
		request("GET", "/x", "content-length", "7"), request("GET", "/x", "transfer-encoding", "chunked"),
		request("GET", "/x", "connection", "x-real-ip"), request("GET", "/x y z"), request("GET", "x"), request("GET", ""),
		{":method", "GET", ":scheme", "http", ":authority", "a\r\nX-Real-IP: 1", ":path", "/x"},
		{":method", "GET", ":scheme", "http\r\nX-Real-IP: 1", ":authority", "a", ":path", "/x"},
		{":method", "GET", ":scheme", "https", ":authority", "site.example", ":path", "/x"},
		request("GET", "/x", "x-original-uri", "/robots.txt", "x-real-ip", "192.0.2.66"),
	} {
		status := w.Raw2(82, fields...)
		if status != 0 && status != 400 && status != 429 && status != 404 && status != 405 {
			t.Errorf("%q: %d", fields, status)
		}
		for _, c := range w.d.Calls("") {
			if got := c.Header.Values("X-Real-Ip"); len(got) != 1 || got[0] != "127.0.0.1" {
				t.Errorf("%q: X-Real-IP is %q", fields, got)
			}
			if got := c.Header.Values("X-Forwarded-Proto"); len(got) != 1 || got[0] != "http" {
				t.Errorf("%q: X-Forwarded-Proto is %q", fields, got)
			}
			for name, values := range c.Header {
				if len(values) != 1 || strings.ContainsAny(values[0], "\r\n\x00") {
					t.Errorf("%q: %s is %q", fields, name, values)
				}
			}
		}
		w.expectCounts(fmt.Sprintf("%q", fields), w.d.Checks(), 0)
	}
}

// N15: no spelling of a target reaches the daemon's inner paths. Its public ones it gets in nginx's own spelling.
func TestTricksOnPublicPaths(t *testing.T) {
	for _, merge := range []string{"on", "off"} {
		w := start(t, plain("merge_slashes "+merge+";"))
		for _, target := range []string{
			"/.stile/check", "/.stile/%63heck", "/.stile//check", "//.stile/check", "/.stile/./check", "/.stile/x/../check",
			"/.stile/../check", "/.stile/%2e%2e/check", "/.stile/..%2fcheck", "/.stile%2f..%2fcheck", "/.stile/..;/check",
			"/.stile/..%5ccheck", "/.stile/%252e%252e/check", "/.stile/%252e%252e%252fcheck", "/.stile/..%252fcheck",
			"/check/../.stile/x", "/check/%2e%2e/.stile/x", "/challenge/../.stile/x", "/x/..//.stile/../refused",
			"/check", "/challenge", "/refused", "/self", "/.stile/../self", "/check?/.stile/", "/check#/../.stile/x", "/check%23/../.stile/x",
			"/check%3f/../.stile/x", "/check;/../.stile/x", "http://stile/check", "http://stile/.stile/../check",
			"http://stile/.stile/check", "/.stile/x?/../../check", "/.stile/x#/../../check", "/.STILE/x", "/.stile", "/.stile/",
			"/.stile/http://stile/check", "/.stile/%20/check", "/.stile/\xff", "/.stile/%ff%2e", "/.stile/a%2fb%3fc%23d%25e",
			"/.stile/\\..\\check", "/.stile/.../check",
		} {
			r, err := w.Dial(80).Ask("GET " + target + " HTTP/1.1\r\nHost: stile\r\nX-Original-URI: /robots.txt\r\n\r\n")
			if err != nil {
				t.Fatalf("%s: %s", target, err)
			}
			hits := w.app.Hits()
			for _, c := range w.d.Calls("") {
				inner := !strings.HasPrefix(c.Target, "/.stile/")
				if inner && (len(hits) != 1 || c.Target != "/check") {
					t.Errorf("merge_slashes %s: %s asked the daemon for %s", merge, target, c.Target)
				}
				if inner && c.Header.Get("X-Original-Uri") == "/robots.txt" {
					t.Errorf("merge_slashes %s: %s spoke to the daemon", merge, target)
				}
				if path, _, _ := strings.Cut(c.Target, "?"); strings.Contains(path+"/", "/../") || strings.Contains(path+"/", "/./") {
					t.Errorf("merge_slashes %s: %s asked the daemon for %s", merge, target, c.Target)
				}
			}
			if r.Status == 204 || r.Status >= 500 {
				t.Errorf("merge_slashes %s: %s: %d", merge, target, r.Status)
			}
			w.d.Reset()
			w.app.Reset()
		}
	}
}

// C023, C026, C027: the daemon is told the same target as the application, so that both can read it alike; and an
// inner path of the daemon's is an ordinary path of the site's.
func TestInnerPathsBelongToTheSite(t *testing.T) {
	w := start(t, plain(``))
	for _, target := range []string{"/check", "/challenge", "/refused", "/self", "/metrics", "/debug/pprof/"} { // C143
		r := w.Get(target)
		if r.Body != "app GET "+target {
			t.Errorf("%s: %q", target, r.Body)
		}
		w.expect(target, r, 200, 1, 1)
	}
}
