package nginxtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Call is one request of nginx's to the daemon.
type Call struct {
	Method string
	Target string // raw, as it was sent: "/check", "/challenge", "/refused" or "/.stile/..."
	Header http.Header
	Body   string
	Conn   int // the number of its connection, from 1: kept ones come again
	Number int // of this call, from 1
}

// connKey finds a connection's number in a request's context: the peers of a unix socket have no address.
type connKey struct{}

// Answer is what a Daemon answers. The zero value is an empty 200.
type Answer struct {
	Status  int
	Verdict string      // X-Stile-Verdict, if any
	Header  http.Header // further ones
	Body    string
}

// Answers to /check.
var (
	Allow     = &Answer{Status: 200, Verdict: "allow"}
	Challenge = &Answer{Status: 401, Verdict: "challenge;level=1;rule=pages"}
	Refuse    = &Answer{Status: 429, Verdict: "refuse;reason=meter;retry=17;rule=pages"}
	Deny      = &Answer{Status: 429, Verdict: "refuse;reason=deny;rule=bad"}
	Full      = &Answer{Status: 429, Verdict: "refuse;reason=gate;retry=3;rule=render"}
	Admit     = &Answer{Status: 200, Verdict: "allow", Header: http.Header{"X-Stile-Lease": {"1"}}} // by a gate
)

// Daemon is a stand-in for stile that answers what a test wants it to.
type Daemon struct {
	mu     sync.Mutex
	calls  []Call
	count  int
	script func(Call) *Answer
	conns  atomic.Int32
	server *http.Server
	done   chan struct{}
}

// StartDaemon starts a daemon on a unix socket, until the end of the test. Without a Script it allows everything.
func StartDaemon(t testing.TB, socket string) *Daemon {
	t.Helper()
	return ServeDaemon(t, Listen(t, socket, 4096), Allow)
}

// ServeDaemon starts a daemon on a listener, on which requests may be waiting already, until the end of the test. It
// answers check to every /check until there is a Script.
func ServeDaemon(t testing.TB, l net.Listener, check *Answer) *Daemon {
	t.Helper()
	d := &Daemon{done: make(chan struct{})}
	d.Always(check)
	d.server = &http.Server{
		Handler:        d,
		MaxHeaderBytes: 1 << 20,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, int(d.conns.Add(1)))
		},
	}
	go func() {
		defer close(d.done)
		_ = d.server.Serve(l)
	}()
	t.Cleanup(d.Stop)
	return d
}

// Script makes f decide the answers from now on. It may be called concurrently. Where it returns
// nil the daemon answers by itself: allows, or serves a page that fits the verdict.
func (d *Daemon) Script(f func(Call) *Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = f
}

// Always makes a be the answer to every /check from now on.
func (d *Daemon) Always(a *Answer) {
	d.Script(func(c Call) *Answer {
		if c.Target == "/check" {
			return a
		}
		return nil
	})
}

// Calls is the list of calls so far whose target begins with prefix.
func (d *Daemon) Calls(prefix string) []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var calls []Call
	for _, c := range d.calls {
		if strings.HasPrefix(c.Target, prefix) {
			calls = append(calls, c)
		}
	}
	return calls
}

// Checks is the number of /check calls so far.
func (d *Daemon) Checks() int { return len(d.Calls("/check")) }

// Reset forgets the calls so far.
func (d *Daemon) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = nil
}

// Stop ends the daemon at once: listener and connections are closed. Calling it again does nothing.
func (d *Daemon) Stop() {
	_ = d.server.Close()
	<-d.done
}

// ServeHTTP is what nginx gets to see.
func (d *Daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	d.count++
	c := Call{Method: r.Method, Target: r.RequestURI, Header: r.Header.Clone(), Body: string(body), Number: d.count}
	c.Conn, _ = r.Context().Value(connKey{}).(int)
	d.calls = append(d.calls, c)
	script := d.script
	d.mu.Unlock()

	var a *Answer
	if script != nil {
		a = script(c)
	}
	if a == nil {
		a = usual(c)
	}
	h := w.Header()
	for name, values := range a.Header {
		h[name] = slices.Clone(values)
	}
	if a.Verdict != "" {
		h.Set("X-Stile-Verdict", a.Verdict)
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	h.Set("Content-Length", fmt.Sprint(len(a.Body)))
	status := a.Status
	if status == 0 {
		status = 200
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, a.Body)
}

// usual is what stile would answer, more or less. Pages carry their number, so that no two are the same.
func usual(c Call) *Answer {
	verdict := c.Header.Get("X-Stile-Verdict")
	page := func(status int, retry string) *Answer {
		h := http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Retry-After": {retry}}
		return &Answer{Status: status, Header: h, Body: fmt.Sprintf("<h1>stile %s %d</h1>", c.Target, c.Number)}
	}
	switch {
	case c.Target == "/check":
		return Allow
	case c.Target == "/challenge":
		return page(503, "10")
	case c.Target == "/refused" && strings.Contains(verdict, "reason=deny"):
		return page(403, "3600")
	case c.Target == "/refused" && strings.Contains(verdict, "reason=gate"):
		return page(503, "3")
	case c.Target == "/refused":
		return page(429, "17")
	case strings.HasPrefix(c.Target, "/.stile/"):
		return &Answer{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: "public " + c.Target}
	}
	return &Answer{Status: 404}
}

// Listen opens a unix socket with a backlog of its own choosing, which nginx's workers may connect to.
func Listen(t testing.TB, socket string, backlog int) net.Listener {
	t.Helper()
	if len(socket) > 100 {
		t.Fatalf("nginxtest: %q is too long for a unix socket", socket)
	}
	_ = os.Remove(socket)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("nginxtest: %s", err)
	}
	f := os.NewFile(uintptr(fd), socket)
	defer f.Close()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatalf("nginxtest: %s: %s", socket, err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatalf("nginxtest: %s", err)
	}
	if err := syscall.Listen(fd, backlog); err != nil {
		t.Fatalf("nginxtest: %s: %s", socket, err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatalf("nginxtest: %s: %s", socket, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ServeConns hands every connection of a listener to f, for daemons that do not even speak HTTP. The
// connections that are still open are closed at the end of the test, and when stop is called.
func ServeConns(t testing.TB, l net.Listener, f func(net.Conn)) (stop func()) {
	t.Helper()
	var mu sync.Mutex
	var conns []net.Conn
	closed := false
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			if closed {
				c.Close()
			}
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	stop = sync.OnceFunc(func() {
		l.Close()
		mu.Lock()
		closed = true
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	t.Cleanup(stop)
	return stop
}
