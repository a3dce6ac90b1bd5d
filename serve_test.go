package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// units is what a systemd would hold for the daemon: its three sockets, and the one that
// it tells things by.
type units struct {
	t      *testing.T
	dir    string
	files  []*os.File
	notify net.PacketConn
}

func newUnits(t *testing.T) *units {
	u := &units{t: t, dir: t.TempDir()}
	hold := func(c interface{ File() (*os.File, error) }, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.File()
		if err != nil {
			t.Fatal(err)
		}
		c.(io.Closer).Close()
		t.Cleanup(func() { f.Close() })
		u.files = append(u.files, f)
	}
	check, err := net.ListenUnix("unix", &net.UnixAddr{Name: u.path("check"), Net: "unix"})
	if err == nil {
		check.SetUnlinkOnClose(false)
	}
	hold(check, err)
	lease, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: u.path("lease"), Net: "unixgram"})
	hold(lease, err)
	admin, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	port := admin.Addr().String()
	hold(admin, nil)
	u.notify, err = net.ListenPacket("unixgram", u.path("notify"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.notify.Close() })
	u.configure(port)
	return u
}

func (u *units) path(name string) string { return filepath.Join(u.dir, name) }

func (u *units) configure(admin string) {
	text := fmt.Sprintf("[listen]\ncheck = \"unix:%s\"\nlease = \"unix:%s\"\nadmin = %q\n[key]\nfile = %q\n[state]\ndir = %q\n",
		u.path("check"), u.path("lease"), admin, u.path("key"), u.dir)
	if err := os.WriteFile(u.path("stile.toml"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// start starts the daemon as systemd would, with those of the sockets.
func (u *units) start(files ...*os.File) (*exec.Cmd, *bytes.Buffer) {
	u.t.Helper()
	self, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	// LISTEN_PID is the daemon's own, which the shell becomes.
	c := exec.Command("/bin/sh", "-c", `export LISTEN_PID=$$ WATCHDOG_PID=$$ && exec "$0" serve -c "$1"`, self, u.path("stile.toml"))
	c.Env = append(os.Environ(), "STILE_TEST_RUN=1", fmt.Sprintf("LISTEN_FDS=%d", len(files)), "NOTIFY_SOCKET="+u.path("notify"), "WATCHDOG_USEC=10000000")
	c.ExtraFiles = files
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c, &log
}

// told waits until the daemon has told that.
func (u *units) told(want string) {
	u.t.Helper()
	b := make([]byte, 1000)
	u.notify.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		n, _, err := u.notify.ReadFrom(b)
		if err != nil {
			u.t.Fatalf("waiting for %s: %s", want, err)
		}
		if strings.HasPrefix(string(b[:n]), want) {
			return
		}
	}
}

// end tells the daemon to end, and waits for it.
func (u *units) end(c *exec.Cmd, log *bytes.Buffer) {
	u.t.Helper()
	c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil {
		u.t.Fatalf("%s\n%s", err, log)
	}
}

// With the sockets held from outside no request is lost while the daemon is restarted:
// none is even told to come again.
func TestHandedOverSocketsOutliveTheDaemon(t *testing.T) {
	u := newUnits(t)
	daemon, log := u.start(u.files...)
	u.told("READY=1")
	u.told("WATCHDOG=1")

	answered := make(chan bool) // false: a worker has ended
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			defer func() {
				if !stop.Load() {
					answered <- false
				}
			}()
			// A connection each: that nginx tries a kept one again is nginx's own doing.
			h := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
				DisableKeepAlives: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", u.path("check"))
				},
			}}
			for !stop.Load() {
				q, _ := http.NewRequest("GET", "http://stile/check", nil)
				for name, value := range map[string]string{"X-Original-URI": "/", "X-Original-Method": "GET", "X-Real-IP": "192.0.2.1"} {
					q.Header.Set(name, value)
				}
				r, err := h.Do(q)
				if err != nil {
					t.Error(err)
					return
				}
				r.Body.Close()
				if r.Header.Get("X-Stile-Verdict") == "" {
					t.Errorf("no verdict: %s", r.Status)
				}
				select {
				case answered <- true:
				default:
				}
			}
		})
	}
	for range 3 {
		u.end(daemon, log)
		daemon, log = u.start(u.files...)
		u.told("READY=1")
		for range 20 {
			if !<-answered {
				t.FailNow()
			}
		}
	}
	stop.Store(true)
	all.Wait()
	u.end(daemon, log)
	if text := log.String(); strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
		t.Errorf("it complains:\n%s", text)
	}
}

// A socket that is held and not asked for, and one that is asked for and not held: both
// are named, and the daemon does not start, for whoever asks at the first would wait for ever.
func TestUnitsAndConfigurationDiffer(t *testing.T) {
	u := newUnits(t)
	u.configure("unix:" + u.path("admin"))
	daemon, log := u.start(u.files...)
	if err := daemon.Wait(); err == nil || !strings.Contains(log.String(), "which is none of [listen]") || !strings.Contains(log.String(), "has not handed this socket over") {
		t.Errorf("%v:\n%s", err, log)
	}
}
