package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// The package index of nginx/sites, whole: the shipped site, the shipped rules, the daemon.
func TestPackageIndex(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../nginx/sites/packages.toml")
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, "", nginxtest.Options{Site: "packages.conf"})
	s.daemon.configure(strings.ReplaceAll(string(rules), "/run/stile", s.Dir()))
	s.daemon.start()
	put := func(name string, size int, text string) {
		t.Helper()
		file := filepath.Join(s.Dir(), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if size > 0 {
			if err := os.Truncate(file, int64(size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("packages/halogen/1.2.0.json", 10<<20, "{")
	put("packages/aff/7.0.0.json", 4<<20, "{")
	put("packages/aff/7.0.0.tar.gz", 0, "0123456789")
	put("packages/tiny/1.0.0.json", 1000, "{")
	put("packages/huge/1.0.0.json", 25<<20, "{")
	put("packages/small/1.0.0.json", 5<<20, "{")
	put("pages/packages/aff/6.0.0.html", 0, "<h1>aff 6</h1>")
	const html, json = "Accept: text/html,application/xhtml+xml", "Accept: application/json"

	// Each route: who answers, and whether stile was asked.
	app := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		fmt.Fprintf(w, "app %s %s", r.Method, r.RequestURI)
	}
	s.app.Handle(app)
	f := func(method, target, body string, header []string, status int, want string, checks float64) {
		t.Helper()
		before := s.daemon.metric("stile_checks_total", "")
		r := s.visitor(header...).ask(method, target, body)
		if r.Status != status || !strings.Contains(r.Body, want) {
			t.Errorf("%s %s (%s): %d %.80q, want %d %q", method, target, header, r.Status, r.Body, status, want)
		}
		if n := s.daemon.metric("stile_checks_total", "") - before; n != checks {
			t.Errorf("%s %s: %g checks, want %g", method, target, n, checks)
		}
	}
	f("GET", "/packages/aff/6.0.0", "", []string{html}, 200, "<h1>aff 6</h1>", 0)
	f("HEAD", "/packages/aff/6.0.0", "", []string{html}, 200, "", 0)
	f("GET", "/packages/aff/6.0.0", "", []string{json}, 200, "app GET", 1)
	f("GET", "/packages/aff/6.0.0", "", []string{"Accept: application/json, text/html;q=0.9"}, 200, "app GET", 1)
	f("GET", "/packages/aff/6.0.0?sort=size", "", []string{html}, 200, "app GET", 1)
	f("GET", "/packages/aff/7.0.0", "", []string{html}, 200, "app GET", 1)
	f("HEAD", "/packages/aff/7.0.0", "", []string{html}, 200, "", 1)
	f("GET", "/packages/tiny/1.0.0", "", []string{html}, 200, "app GET", 1)
	f("GET", "/search?q=lens", "", []string{html}, 200, "app GET", 1)
	f("PUT", "/upload/aff/8.0.0", strings.Repeat("x", 12<<20), []string{"Authorization: Bearer t"}, 200, "app PUT", 1)
	f("GET", "/download/aff/7.0.0.tar.gz", "", []string{"Range: bytes=3-5"}, 206, "345", 1)
	f("GET", "/", "", []string{html}, 200, "app GET", 1)
	// Larger than half of the budget: a person needs a pass, a program waits its turn.
	f("GET", "/packages/huge/1.0.0", "", []string{html}, 503, "stile.js", 1)
	f("GET", "/packages/huge/1.0.0", "", []string{json}, 200, "app GET", 1)
	s.leases(0)
	admitted, free := s.daemon.metric("stile_gate_admitted_total", `"decode"`), s.daemon.metric("stile_gate_free_total", `"decode"`)
	if admitted != 7 || free != 1 {
		t.Errorf("%g admitted, %g of them free; want 7 and 1", admitted, free)
	}

	// Two large ones do not fit together; a tiny one, a search and a cached page pass by.
	begun, finish := make(chan string, 10), make(chan struct{})
	end := sync.OnceFunc(func() { close(finish) })
	t.Cleanup(end) // also of a test that fails: the application waits for it
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		begun <- r.RequestURI
		if strings.HasPrefix(r.RequestURI, "/packages/halogen") || strings.HasPrefix(r.RequestURI, "/packages/small") {
			<-finish
		}
		app(w, r)
	})
	ask := func(from int, target string) *nginxtest.Conn { return s.ask(from, "GET", target, json) }
	wait := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d wait", n), func() bool { return s.daemon.metric("stile_gate_queue_length", `"decode"`) == float64(n) })
	}
	first := ask(1, "/packages/halogen/1.2.0")
	select {
	case <-begun:
	case <-time.After(20 * time.Second):
		t.Fatalf("not begun: %v", s.answer(first, "GET"))
	}
	second := ask(2, "/packages/halogen/1.2.0")
	wait(1)
	third := ask(3, "/packages/small/1.0.0")
	wait(2)
	f("GET", "/packages/tiny/1.0.0", "", []string{html}, 200, "app GET", 1)
	f("GET", "/search?q=lens", "", []string{html}, 200, "app GET", 1)
	f("GET", "/packages/aff/6.0.0", "", []string{html}, 200, "<h1>", 0)
	if n := s.daemon.metric("stile_gate_inflight_bytes", `"decode"`); n != 10<<20 {
		t.Errorf("%g bytes in flight", n)
	}
	end()
	for _, c := range []*nginxtest.Conn{first, second, third} {
		if r := s.answer(c, "GET"); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}
	s.leases(0)

	// What is there already is served also without the daemon.
	s.daemon.kill(9)
	if r := s.visitor(html).get("/packages/aff/6.0.0"); r.Status != 200 || !strings.Contains(r.Body, "aff 6") {
		t.Errorf("without the daemon: %d %s", r.Status, r.Body)
	}
}
