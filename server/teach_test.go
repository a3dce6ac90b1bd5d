package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stile/budget"
)

// end is what nginx tells of the request that was asked about last.
func (w *world) end(rest string) {
	w.s.ended(fmt.Appendf(nil, "<190>Nov 30 04:43:02 stile: %032x %s", w.n, rest))
}

// charge is what a request is charged with; nginx tells its end then.
func (w *world) charge(request, addr, end string, header ...string) int64 {
	w.t.Helper()
	if r := w.check(request, addr, header...); r.StatusCode() != 200 || len(r.Header.Peek("X-Stile-Lease")) == 0 {
		w.t.Fatalf("%s: %d %s", request, r.StatusCode(), r.Header.Peek("X-Stile-Verdict"))
	}
	n := w.s.gates.current.Load().list[0].in.Stats(w.s.gates.clock()).InFlight
	w.end(end)
	return n
}

// Of one URL a backend makes pages, parts of pages and data, all with status 200. Nobody
// teaches by asking for a small one that the large one is cheap.
func TestSmallAnswersTeachNothingOfLargeOnes(t *testing.T) {
	w := newWorld(t, gatedTOML("budget = \"16MiB\"\nunseen = \"1MiB\""))
	const large, small = "200 4000000 1.000 - OK", "200 300 0.001 - OK"
	page := func() int64 { return w.charge("GET /packages/a/1", "192.0.2.1", large, htmlAccept) }
	page()
	for _, h := range [][]string{{"Accept: application/json"}, {htmlAccept, "HX-Request: true"}, {htmlAccept, "X-Requested-With: x"}, {htmlAccept, "Turbo-Frame: x"}} {
		for range 100 {
			w.charge("GET /packages/a/1", "192.0.2.2", small, h...)
		}
		if n := w.charge("GET /packages/a/1", "192.0.2.2", small, h...); n > 100_000 {
			t.Errorf("%v is not known: %d", h, n)
		}
	}
	// What a backend may read as another path.
	for range 100 {
		w.charge("GET /packages//a/1", "192.0.2.2", small, htmlAccept)
		w.charge("GET /packages/x/../a/1", "192.0.2.2", small, htmlAccept)
	}
	if n := page(); n < 4_000_000 {
		t.Errorf("the page is charged with %d", n)
	}
	// What nginx had from elsewhere, because the backend did not answer.
	for range 100 {
		w.charge("GET /packages/a/1", "192.0.2.2", "200 0 60.000 - OK", htmlAccept)
	}
	if n := page(); n < 4_000_000 {
		t.Errorf("after stale answers the page is charged with %d", n)
	}
}

// nginx reads small's path here, and a program that does not resolve dot segments large's.
func TestTheDearestReadingCounts(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"small": 10, "large": 5000} {
		if err := os.WriteFile(filepath.Join(dir, name+"-1.json"), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, gatedTOML(fmt.Sprintf("budget = \"16MiB\"\nunseen = \"1KiB\"\ncost = \"file:%s/{2}-{3}.json\"", dir)))
	for target, want := range map[string]int64{
		"/packages/small/1": 10, "/packages/large/1": 5000, "/packages/none/1": 1024,
		"/packages/large/1/%2e%2e/%2e%2e/small/1": 5000, "/packages/none/1/../../small/1": 10, "/packages//large/1": 5000,
	} {
		if n := w.charge("GET "+target, "192.0.2.1", "200 300 0.001 - OK"); n != want {
			t.Errorf("%s is charged with %d, want %d", target, n, want)
		}
	}
}

// A backend that hangs for minutes does not make of its server one whose log never comes.
func TestWorkingServerTells(t *testing.T) {
	w := newWorld(t, gatedTOML(`budget = 1000`))
	for i := range 10 {
		w.charge("GET /packages/a/1", fmt.Sprintf("192.0.2.%d", i), "504 0 60.000 - OK", "X-Stile-Server: a.example")
	}
	place, told := w.s.gates.servers.find([]byte("a.example"), w.s.gates.clock())
	if since := w.s.gates.servers.list[place-1].since.Load(); !told || since != 0 {
		t.Errorf("told %v, %d leases since", told, since)
	}
	if n := w.s.gates.current.Load().list[0].in.Stats(w.s.gates.clock()).Leases; n != 10 {
		t.Errorf("%d leases, want all 10: the backend works on", n)
	}
}

// What is said of a server that was known before a restart names it.
func TestRememberedServerIsNamed(t *testing.T) {
	g := &gates{costs: budget.NewCosts(64, budget.Cost{})}
	if err := g.restore(learnedGates().appendState(nil)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	place, told := g.servers.find([]byte("a.example"), 1)
	for range muteLeases + 2 {
		g.servers.given(log, place, int64(muteTime)+2)
	}
	if !told || !strings.Contains(out.String(), "server_name=a.example") {
		t.Errorf("told %v: %s", told, out.String())
	}
}
