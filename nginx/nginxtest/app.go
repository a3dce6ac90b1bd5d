package nginxtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Hit is one request that reached the application.
type Hit struct {
	Method string
	Target string // raw, as it was sent
	Host   string
	Header http.Header
	Length int64  // of the body, read to its end
	SHA256 string // of the body, in hex
}

// App is an application that writes down what reaches it. It answers 200 and "app METHOD TARGET" to everything.
type App struct {
	Addr string // host:port

	mu     sync.Mutex
	hits   []Hit
	handle http.HandlerFunc
}

// StartApp starts an application on a free port, until the end of the test.
func StartApp(t testing.TB) *App {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("nginxtest: %s", err)
	}
	a := &App{Addr: l.Addr().String()}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: a}}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return a
}

// Handle makes h answer from now on, after the hit has been written down. The body has been read by then.
func (a *App) Handle(h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handle = h
}

// Hits is the list of requests so far, in the order in which their bodies had arrived.
func (a *App) Hits() []Hit {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.hits)
}

// Reset forgets the hits so far.
func (a *App) Reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hits = nil
}

// ServeHTTP is what nginx gets to see.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	length, err := io.Copy(sum, r.Body)
	if err != nil {
		length = -1 // the body broke off
	}
	a.mu.Lock()
	a.hits = append(a.hits, Hit{
		Method: r.Method,
		Target: r.RequestURI,
		Host:   r.Host,
		Header: r.Header.Clone(),
		Length: length,
		SHA256: hex.EncodeToString(sum.Sum(nil)),
	})
	handle := a.handle
	a.mu.Unlock()
	if handle != nil {
		handle(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "app %s %s", r.Method, r.RequestURI)
}
