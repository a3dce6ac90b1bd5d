package nginxtest

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
)

// LeaseLine is one line of nginx's lease log.
type LeaseLine struct {
	ID     string // the request's, of 32 hexadecimal digits
	Status string // what the client got; 499: it had gone
	Bytes  string // of the backend's answers, as nginx writes them: "123", "0, 123", "-"
	Time   string // likewise, seconds
	Cost   string // the backend's X-Stile-Cost, or "-"
	Done   bool   // nginx saw the answer through to its end
}

// LeaseLog is the socket to which nginx writes when a request that holds a lease has ended.
type LeaseLog struct {
	t    testing.TB
	conn *net.UnixConn
	done chan struct{}

	mu    sync.Mutex
	lines []LeaseLine
}

// StartLeaseLog opens the socket, until the end of the test. A line that nginx should not have written fails the test.
func StartLeaseLog(t testing.TB, socket string) *LeaseLog {
	t.Helper()
	_ = os.Remove(socket)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatalf("nginxtest: %s", err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatalf("nginxtest: %s", err)
	}
	l := &LeaseLog{t: t, conn: conn, done: make(chan struct{})}
	go l.read()
	t.Cleanup(l.Stop)
	return l
}

// LeaseSocket is where nginx sends its lease log.
func (n *Nginx) LeaseSocket() string { return filepath.Join(n.dir, "lease.sock") }

// A line has two lists, with blanks in them where nginx asked more than one backend.
var leaseLine = regexp.MustCompile(`^<190>\w{3} [ \d]\d \d\d:\d\d:\d\d stile: ([0-9a-f]{32}) (\d{3}) ` +
	`(-|[\d]+(?:(?:, | : )(?:[\d]+|-))*) (-|[\d.]+(?:(?:, | : )(?:[\d.]+|-))*) (-|\d{1,15}) (|OK)$`)

func (l *LeaseLog) read() {
	defer close(l.done)
	b := make([]byte, 4096)
	for {
		n, err := l.conn.Read(b)
		if err != nil {
			return
		}
		m := leaseLine.FindStringSubmatch(string(b[:n]))
		if m == nil {
			l.t.Errorf("nginxtest: nginx wrote %q into the lease log", b[:n])
			continue
		}
		l.mu.Lock()
		l.lines = append(l.lines, LeaseLine{ID: m[1], Status: m[2], Bytes: m[3], Time: m[4], Cost: m[5], Done: m[6] == "OK"})
		l.mu.Unlock()
	}
}

// Lines is the list of lines so far.
func (l *LeaseLog) Lines() []LeaseLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Wait waits until there are at least want lines, and returns them all.
func (l *LeaseLog) Wait(want int) (lines []LeaseLine) {
	l.t.Helper()
	if !poll(func() bool { lines = l.Lines(); return len(lines) >= want }) {
		l.t.Fatalf("nginxtest: %d lines in the lease log after %s, want %d: %v", len(lines), patience, want, lines)
	}
	return lines
}

// Stop closes the socket. Its name stays, as when a daemon has been killed. Calling it again does nothing.
func (l *LeaseLog) Stop() {
	_ = l.conn.Close()
	<-l.done
}
