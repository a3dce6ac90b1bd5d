package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stile/config"
	"stile/systemd"
)

// unixWorld is a daemon that is to listen on a socket.
func unixWorld(t *testing.T, toml string) (w *world, address string) {
	w = newWorld(t, toml)
	address = "unix:" + filepath.Join(t.TempDir(), "check")
	w.s.started.Listen.Check, w.s.started.Listen.Lease = address, address+".lease"
	return w, address
}

// on serves the daemon on a socket until the end of the test.
func (w *world) on(t *testing.T, address string) {
	t.Helper()
	l, err := listen(address, "check")
	if err != nil {
		t.Fatal(err)
	}
	f := w.s.fasthttpServer(w.s.handle)
	done := make(chan error)
	go func() { done <- f.Serve(l) }()
	t.Cleanup(func() {
		f.Shutdown()
		<-done
	})
}

const tightTOML = `
[[meter]]
name = "one"
window = "1h"
stranger = 1
pass = 1
user = 1
strangers = 1
[[rule]]
name = "all"
path = "/**"
do = "meter"
meter = ["one"]
`

// Whatever is answered is an answer: that the rules refuse it is no fault of the daemon's.
func TestAsksItself(t *testing.T) {
	f := func(toml string) {
		t.Helper()
		w, address := unixWorld(t, toml)
		w.on(t, address)
		for range 3 {
			if err := w.s.askSelf(context.Background(), address, time.Minute); err != nil {
				t.Errorf("%s: %s", toml, err)
			}
		}
	}
	f("")
	f(tightTOML)
	f("mode = \"observe\"\n" + tightTOML)
	f("[[rule]]\nname = \"closed\"\npath = \"/**\"\ndo = \"deny\"\n")
	f("[[rule]]\nname = \"closed\"\npath = \"/**\"\ndo = \"challenge\"\n")
}

// The questions of the daemon take nothing from anybody, and are no requests.
func TestOwnQuestionsAreNobodys(t *testing.T) {
	w, address := unixWorld(t, tightTOML)
	w.on(t, address)
	for range 5 {
		if err := w.s.askSelf(context.Background(), address, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.s.stats.asked(); n != 0 {
		t.Errorf("%d checks counted, nginx has asked none", n)
	}
	if r := w.check("GET /", "127.0.0.1"); r.StatusCode() != 200 {
		t.Errorf("the first stranger, on this machine: %d %s", r.StatusCode(), r.Header.Peek("X-Stile-Verdict"))
	}
}

// Everything that a visitor would be left waiting by.
func TestDoesNotAnswerItself(t *testing.T) {
	f := func(name, want string, spoil func(w *world, address string)) {
		t.Run(name, func(t *testing.T) {
			w, address := unixWorld(t, "")
			spoil(w, address)
			err := w.s.askSelf(context.Background(), address, 100*time.Millisecond)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
	f("not listening", "no such file", func(*world, string) {})
	f("nobody accepts", "timeout", func(w *world, address string) {
		l, err := listen(address, "check")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	})
	f("the accept queue is full", "dial unix", func(w *world, address string) {
		backlog(t, strings.TrimPrefix(address, "unix:"), 0)
		c, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	})
	f("the clock of the decision stands", "timeout", func(w *world, address string) {
		stuck := make(chan struct{})
		w.s.now = func() time.Time { <-stuck; return w.now }
		w.on(t, address)
		t.Cleanup(func() { close(stuck) }) // before the server is shut down
	})
	f("a fault of ours", `the answer was 429 "refuse;reason=panic`, func(w *world, address string) {
		w.s.now = func() time.Time { panic("a test") }
		w.on(t, address)
	})
	f("something else listens", "the answer was 404", func(w *world, address string) {
		other := newWorld(t, "")
		other.s.started.Listen.Check = address
		l, err := listen(address, "check")
		if err != nil {
			t.Fatal(err)
		}
		side := other.s.fasthttpServer(other.s.handleAdmin)
		done := make(chan error)
		go func() { done <- side.Serve(l) }()
		t.Cleanup(func() {
			side.Shutdown()
			<-done
		})
	})
}

// backlog opens a socket that nobody accepts on.
func backlog(t *testing.T, file string, n int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { syscall.Close(fd) })
		err = errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: file}), syscall.Listen(fd, n))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The whole of it: what systemd is told from the start to the end.
func TestTellsSystemd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	told, err := net.ListenPacket("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	w, _ := unixWorld(t, "")
	w.s.systemd = &systemd.Service{Watchdog: 2 * time.Second}
	w.s.started.Listen.Admin = "127.0.0.1:0"

	ctx, stop := context.WithCancel(context.Background())
	reload := make(chan struct{})
	done := make(chan error)
	go func() { done <- w.s.Run(ctx, reload, nil) }()
	// next is what is told next, but for WATCHDOG=1 where that is not asked for.
	next := func(want string) {
		t.Helper()
		for {
			b := make([]byte, 1000)
			told.SetReadDeadline(time.Now().Add(time.Minute))
			n, _, err := told.ReadFrom(b)
			if err != nil {
				t.Fatal(err)
			}
			switch got := string(b[:n]); {
			case strings.HasPrefix(got, want):
				return
			case got != "WATCHDOG=1":
				t.Fatalf("told %q, want %q", got, want)
			}
		}
	}
	next("READY=1\nSTATUS=")
	next("WATCHDOG=1")
	next("WATCHDOG=1")
	w.s.load = func() (*config.Config, error) { return nil, errors.New("a test") }
	reload <- struct{}{}
	next("RELOADING=1\nMONOTONIC_USEC=")
	next("READY=1\nSTATUS=" + w.s.inForce())
	if !strings.Contains(w.s.inForce(), "the last reload failed") {
		t.Errorf("after a reload that failed: %q", w.s.inForce())
	}
	next("WATCHDOG=1")
	stop()
	next("STOPPING=1")
	if err := <-done; err != nil {
		t.Error(err)
	}
}
