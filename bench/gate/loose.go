package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

// loose stands in for stile with the gate that one writes first: who fits goes, and when
// something is released all who wait look again whether they fit, in no order. nginx asks it,
// and tells it when a request ends, in the same way.
type loose struct {
	mu       sync.Mutex
	changed  sync.Cond
	inFlight int64
	leases   map[string]int64
	server   http.Server
	lines    net.PacketConn
}

func startLoose(dir string) (*loose, error) {
	l := &loose{leases: map[string]int64{}}
	l.changed.L = &l.mu
	check, lease := dir+"/stile.sock", dir+"/lease.sock"
	os.Remove(check)
	os.Remove(lease)
	ln, err := net.Listen("unix", check)
	if err != nil {
		return nil, err
	}
	if l.lines, err = net.ListenPacket("unixgram", lease); err != nil {
		return nil, err
	}
	for _, socket := range []string{check, lease} {
		if err := os.Chmod(socket, 0o666); err != nil {
			return nil, err
		}
	}
	l.server.Handler = http.HandlerFunc(l.check)
	go l.server.Serve(ln)
	go l.read()
	return l, nil
}

func (l *loose) stop() {
	l.server.Close()
	l.lines.Close()
}

func (l *loose) check(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-ID")
	cost := int64(0)
	if f := strings.Split(r.Header.Get("X-Original-URI"), "/"); len(f) > 2 {
		cost = bytesOf(f[2])
	}
	l.mu.Lock()
	for l.inFlight+cost > budget && l.inFlight > 0 {
		l.changed.Wait()
	}
	l.inFlight += cost
	l.leases[id] = cost
	l.mu.Unlock()
	w.Header().Set("X-Stile-Verdict", "allow")
	w.Header().Set("X-Stile-Lease", "1")
}

func (l *loose) read() {
	line := make([]byte, 4096)
	for {
		n, _, err := l.lines.ReadFrom(line)
		if err != nil {
			return
		}
		_, text, _ := bytes.Cut(line[:n], []byte("stile: "))
		id, _, _ := bytes.Cut(text, []byte(" "))
		l.mu.Lock()
		l.inFlight -= l.leases[string(id)]
		delete(l.leases, string(id))
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}
