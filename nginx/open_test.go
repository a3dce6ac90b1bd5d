package nginx_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// readTimeout is put in place of the shipped ones, for daemons that hang.
const readTimeout = 400 * time.Millisecond

var hurried = []string{
	"proxy_read_timeout 30s", fmt.Sprintf("proxy_read_timeout %dms", readTimeout.Milliseconds()),
	"proxy_read_timeout 10s", fmt.Sprintf("proxy_read_timeout %dms", readTimeout.Milliseconds()),
}

// brokenDaemons are the ways of a daemon not to answer (C017).
var brokenDaemons = []struct {
	name  string
	conn  func(net.Conn) // what becomes of a connection; nil: nobody listens
	hangs bool           // nginx waits for the time-out
	alien bool           // not HTTP at all: nginx takes it for HTTP/0.9, with no status, which no error_page can name
}{
	{name: "not running"},
	{name: "stopped", conn: func(c net.Conn) { io.Copy(io.Discard, c) }, hangs: true},
	{name: "accepts and closes", conn: func(c net.Conn) {}},
	{name: "reads and closes", conn: func(c net.Conn) { readRequest(c) }},
	{name: "dies within the header", conn: func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nX-Stile-Ver") }},
	{name: "stops within the header", conn: func(c net.Conn) { say(c, "HTTP/1.1 401 No\r\nX-"); io.Copy(io.Discard, c) }, hangs: true},
	{name: "a header line without a colon", conn: func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nwhat is this\r\n\r\n") }},
	{name: "a header without end", conn: func(c net.Conn) { say(c, "HTTP/1.1 401 No\r\nX-Y: "+strings.Repeat("x", 100000)) }},
	{name: "not HTTP", conn: func(c net.Conn) { say(c, "+PONG\r\n") }, alien: true},
	{name: "not HTTP, and stays", conn: func(c net.Conn) { say(c, "\x00\xff\x16\x03\x01"); io.Copy(io.Discard, c) }, alien: true},
}

// readRequest reads one request. It returns nil when the connection ends.
func readRequest(c net.Conn) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	return r
}

// say answers one request with raw bytes.
func say(c net.Conn, answer string) {
	if readRequest(c) != nil {
		io.WriteString(c, answer)
	}
}

// C017: whatever way the daemon is gone, the site is served with bodies intact, and protected again
// with the daemon's first sign of life. The exception is a daemon that is no HTTP server at all: a plain 500.
// C018: and a client cannot bring any of this about (see hostile_test.go).
func TestDaemonIsGone(t *testing.T) {
	for _, broken := range brokenDaemons {
		t.Run(broken.name, func(t *testing.T) {
			o := plain(``)
			o.Replace = hurried
			w := startWithoutDaemon(t, o)
			stop := func() {}
			if broken.conn != nil {
				stop = nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), broken.conn)
			}
			body := strings.Repeat("0123456789abcdef", 100_000/16)
			begin := time.Now()
			r := w.Raw(80, nginxtest.Request("POST", "/form?a=b", body))
			took := time.Since(begin)
			hits := w.app.Hits()
			if broken.alien {
				w.expect("a form", r, 500, 0, 0)
			} else if len(hits) != 1 || hits[0].Method != "POST" || hits[0].Target != "/form?a=b" || hits[0].SHA256 != sum(body) {
				t.Fatalf("the application got %+v", hits)
			}
			if !broken.alien {
				w.expect("a form", r, 200, 0, 1)
			}
			if broken.hangs && took < readTimeout {
				t.Errorf("served after %s, before the time-out of %s", took, readTimeout)
			}
			if !broken.alien {
				public := w.Get("/.stile/stile.js")
				w.expect("a public file", public, 503, 0, 0)
				header(t, public, "Retry-After", "5")
				header(t, public, "Cache-Control", "no-store")
			}
			if r := w.Get("/.stile/check"); r.Status == 200 || r.Status == 204 {
				t.Errorf("GET /.stile/check: %d", r.Status)
			}

			stop()
			w.d = nginxtest.StartDaemon(t, w.Socket())
			w.d.Always(nginxtest.Refuse)
			w.expect("the daemon is back", w.Get("/x"), 429, 1, 0)
		})
	}
}

func sum(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:])
}

// The fail-closed variant serves nobody then.
func TestDaemonIsGoneClosed(t *testing.T) {
	for _, broken := range brokenDaemons {
		t.Run(broken.name, func(t *testing.T) {
			o := plain(`location /denied/ { deny all; proxy_pass http://app; }`)
			o.Replace = append([]string{"snippets/stile.conf", "snippets/stile-closed.conf"}, hurried...)
			w := startWithoutDaemon(t, o)
			stop := func() {}
			if broken.conn != nil {
				stop = nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), broken.conn)
			}
			if broken.alien {
				w.expect("a form", w.Raw(80, nginxtest.Request("POST", "/form", "a=b")), 500, 0, 0)
			} else {
				r := w.Raw(80, nginxtest.Request("POST", "/form", "a=b"))
				header(t, r, "Retry-After", "5")
				header(t, r, "Cache-Control", "no-store")
				w.expect("a form", r, 503, 0, 0)
			}
			if !broken.hangs {
				w.expect("the site's own denial", w.Get("/denied/x"), 403, 0, 0)
			}
			stop()
			w.d = nginxtest.StartDaemon(t, w.Socket())
			w.expect("the daemon is back", w.Get("/x"), 200, 1, 1)
			w.d.Always(nginxtest.Challenge)
			w.expect("challenged", w.Get("/x"), 503, 1, 0)
			w.d.Always(nginxtest.Refuse)
			w.expect("refused", w.Get("/x"), 429, 1, 0)
		})
	}
}

// A daemon that goes between its refusal and the page for it: the refusal stands.
func TestDaemonGoesBeforeThePage(t *testing.T) {
	f := func(http string, want int) {
		t.Helper()
		o := plain(``)
		o.HTTP = http
		w := startWithoutDaemon(t, o)
		var gone atomic.Bool
		nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), func(c net.Conn) {
			if !gone.Swap(true) {
				say(c, "HTTP/1.1 401 No\r\nContent-Length: 0\r\nX-Stile-Verdict: challenge\r\n\r\n")
				readRequest(c) // of the page: closed without an answer
			}
		})
		r := w.Get("/x")
		header(t, r, "Cache-Control", "no-store")
		w.expect("no page", r, want, 0, 0)
	}
	f("", 502) // nginx's own page: one error_page has been used up for the 401
	f("recursive_error_pages on;", 503)
}

// N3: what a full backlog does, and what a long one does not.
func TestBacklog(t *testing.T) {
	const clients, backlog = 64, 4
	flood := func(w *world) *sync.WaitGroup {
		var all sync.WaitGroup
		for range clients {
			c := w.Dial(80)
			all.Go(func() {
				if _, err := c.Ask(nginxtest.Request("GET", "/x", "")); err != nil {
					t.Error(err)
				}
			})
		}
		return &all
	}

	t.Run("a short one opens", func(t *testing.T) {
		w := startWithoutDaemon(t, plain(``))
		l := nginxtest.Listen(t, w.Socket(), backlog)
		all := flood(w)
		// Nobody accepts: the kernel takes backlog+1 and refuses the others, which are let through.
		await(t, "the others' hits", func() bool { return len(w.app.Hits()) >= clients-backlog-1 })
		w.d = nginxtest.ServeDaemon(t, l, nginxtest.Refuse)
		all.Wait()
		w.expectCounts("a flood", backlog+1, clients-backlog-1)
	})

	t.Run("a long one opens nothing", func(t *testing.T) {
		w := start(t, plain(``))
		var waiting atomic.Int32
		full := make(chan struct{})
		w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
			if c.Target != "/check" {
				return nil
			}
			if waiting.Add(1) == clients {
				close(full)
			}
			receive(t, "all checks", full) // nobody is answered before all are here
			return nginxtest.Refuse
		})
		flood(w).Wait()
		w.expectCounts("a flood", clients, 0)
	})
}

// receive is a receive from c that fails the test when nothing comes.
func receive[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Errorf("no sign of %s", what)
	}
	return v
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no sign of %s", what)
		}
	}
}

// A kept connection that the daemon closes just when nginx uses it is tried afresh: it neither opens nor
// refuses, and it is the same request to the daemon (so that it is charged once).
func TestStaleConnection(t *testing.T) {
	o := plain(``)
	o.HTTP = "proxy_next_upstream off; proxy_next_upstream_timeout 1ms;" // for the site's own backend
	w := startWithoutDaemon(t, o)
	var mu sync.Mutex
	ids := make(map[string]int)
	posts := 0
	nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), func(c net.Conn) {
		r := bufio.NewReader(c)
		for first := true; ; first = false {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			mu.Lock()
			ids[req.Header.Get("X-Request-ID")]++
			posts += strings.Count(req.Method, "POST")
			mu.Unlock()
			if !first {
				return // read, and closed without an answer
			}
			if req.URL.Path == "/check" {
				io.WriteString(c, "HTTP/1.1 429 No\r\nContent-Length: 0\r\nX-Stile-Verdict: refuse\r\n\r\n")
			} else {
				io.WriteString(c, "HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\nno")
			}
		}
	})
	for range 20 {
		w.expect("a refusal", w.Get("/x"), 429, 0, 0)
		w.expect("a proof", w.Raw(80, nginxtest.Request("POST", "/.stile/proof", "{}")), 429, 0, 0)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 40 {
		t.Errorf("%d request ids for 40 requests", len(ids))
	}
	if posts <= 20 {
		t.Errorf("%d posts: none was tried again", posts)
	}
}

// refuser is a daemon that refuses everybody, and closes every idle connection when it is told to, as a daemon
// does that is restarted while its socket stays (systemd hands it over). What it has read it answers.
type refuser struct {
	mu   sync.Mutex
	idle map[net.Conn]bool
}

func (d *refuser) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		if _, err := r.Peek(1); err != nil {
			return
		}
		d.mu.Lock()
		delete(d.idle, c)
		d.mu.Unlock()
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 429 No\r\nContent-Length: 0\r\nX-Stile-Verdict: refuse;rule=%s\r\n\r\n", req.URL.Path[1:])
		d.mu.Lock()
		d.idle[c] = true
		d.mu.Unlock()
	}
}

func (d *refuser) closeIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.idle {
		c.Close()
	}
	clear(d.idle)
}

// C021: a daemon that is restarted ten times under load: nobody is let through, nobody sees an error.
func TestRestarts(t *testing.T) {
	w := startWithoutDaemon(t, plain(``))
	d := &refuser{idle: make(map[net.Conn]bool)}
	nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), d.serve)
	var all sync.WaitGroup
	var asked atomic.Int32
	stop := make(chan struct{})
	for range 4 {
		c := w.Dial(80)
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := c.Ask(nginxtest.Request("GET", "/x", ""))
				if err != nil || r.Status != 429 {
					t.Errorf("during restarts: %+v, %v", r, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 10 {
		before := asked.Load()
		await(t, "requests", func() bool { return asked.Load() > before+20 || t.Failed() })
		d.closeIdle()
	}
	close(stop)
	all.Wait()
	w.expectCounts("restarts", 0, 0)
}

// C129: a certificate is renewed with the daemon running, refusing, stopped or gone.
func TestACME(t *testing.T) {
	const tok = "/.well-known/acme-challenge/tok"
	w := startWithoutDaemon(t, nginxtest.Options{Site: "plain-proxy.conf"})
	write(t, w, "acme"+tok, "tok.key")
	f := func(what string) {
		t.Helper()
		r := w.Get(tok)
		if r.Body != "tok.key" {
			t.Errorf("%s: %q", what, r.Body)
		}
		w.expect(what, r, 200, 0, 0)
	}
	f("no daemon")
	stop := nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), func(c net.Conn) { io.Copy(io.Discard, c) })
	f("a daemon that hangs")
	stop()
	w.d = nginxtest.StartDaemon(t, w.Socket())
	w.d.Always(nginxtest.Refuse)
	f("a daemon that refuses")
	w.d.Stop()
	f("a daemon that has ended")
	// Where the application answers for ACME, it is fail-open that keeps it going.
	w.expect("any other path", w.Get("/.well-known/other"), 200, 0, 1)
}
