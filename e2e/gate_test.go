package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// kiln is an application whose expensive pages take as long as the test wants, and that
// counts how many it works on at once.
type kiln struct {
	mu      sync.Mutex
	now     int
	most    int
	done    int
	order   []string
	arrived chan string
	open    map[string]chan struct{}
	all     chan struct{} // closed: everything ends
}

func newKiln(s *site) *kiln {
	k := &kiln{arrived: make(chan string, 100_000), open: map[string]chan struct{}{}, all: make(chan struct{})}
	s.app.Handle(k.serve)
	s.t.Cleanup(k.finishAll)
	return k
}

func (k *kiln) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/heavy") {
		io.WriteString(w, "light\n")
		return
	}
	k.mu.Lock()
	k.now++
	k.most = max(k.most, k.now)
	k.order = append(k.order, r.RequestURI)
	wait := k.gateLocked(r.RequestURI)
	k.mu.Unlock()
	k.arrived <- r.RequestURI
	select {
	case <-wait:
	case <-k.all:
	}
	k.mu.Lock()
	k.now--
	k.done++
	k.mu.Unlock()
	fmt.Fprintf(w, "rendered %s\n", r.RequestURI)
}

func (k *kiln) gateLocked(target string) chan struct{} {
	if k.open[target] == nil {
		k.open[target] = make(chan struct{})
	}
	return k.open[target]
}

// finish ends the work on a target.
func (k *kiln) finish(target string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.gateLocked(target))
}

// finishAll ends all work, now and from now on.
func (k *kiln) finishAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.all:
	default:
		close(k.all)
	}
}

func (k *kiln) counts() (now, most, done int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now, k.most, k.done
}

// next is the next target that the application begins to work on.
func (k *kiln) next(t testing.TB) string {
	t.Helper()
	select {
	case target := <-k.arrived:
		return target
	case <-time.After(20 * time.Second):
		t.Fatal("nothing reached the application within 20 s")
		return ""
	}
}

// nothing checks that nothing has begun: what is asked for after it is answered first.
func (k *kiln) nothing(t testing.TB, what string) {
	t.Helper()
	select {
	case target := <-k.arrived:
		t.Errorf("%s: the application works on %s", what, target)
	default:
	}
}

// gateRules puts the heavy pages behind a gate, and meters nothing.
func gateRules(keys string) string {
	return `include = []
[[meter]]
name = "many"
window = "1m"
stranger = 1000000
pass = 1000000
[[gate]]
name = "kiln"
` + keys + `
[[rule]]
name = "heavy"
path = "/heavy/**"
do = "meter"
meter = "many"
gate = "kiln"
[[rule]]
name = "rest"
path = "/**"
do = "allow"
`
}

const gateSite = `
server {
    listen 80;
    server_name kiln.test;
    set $stile_user $http_x_user;    # a test's way to be known
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
    location /heavy/ { include snippets/stile-gate.conf; proxy_pass http://127.0.0.1:8080; }
}
`

// proven makes a caller that the site knows.
const proven = "X-User: alice"

func openKiln(t *testing.T, keys string) (*site, *kiln) {
	t.Helper()
	s := open(t, gateRules(keys), gateSite)
	return s, newKiln(s)
}

// ask sends a request from an address and gives the connection, so that it can be given up.
func (s *site) ask(from int, method, target string, headers ...string) *nginxtest.Conn {
	s.t.Helper()
	c := s.DialFrom(80, fmt.Sprintf("127.1.%d.%d", from>>8, from&255))
	if _, err := io.WriteString(c, nginxtest.Request(method, target, "", headers...)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *site) answer(c *nginxtest.Conn, method string) *nginxtest.Response {
	s.t.Helper()
	r, err := c.Answer(method)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) waiting(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d wait", n), func() bool { return s.daemon.metric("stile_gate_queue_length", "") == float64(n) })
}

func (s *site) leases(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d leases", n), func() bool { return s.daemon.metric("stile_gate_leases", "") == float64(n) })
}

// The story: so many at once, the others wait, in order, and each end lets the next in.
func TestGateFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 2
per_caller = 0`)
	var conns []*nginxtest.Conn
	for i := range 6 {
		conns = append(conns, s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i)))
		if i < 2 {
			if got := k.next(t); got != fmt.Sprintf("/heavy/%d", i) {
				t.Fatalf("the application works on %s", got)
			}
		} else {
			s.waiting(i - 1)
		}
	}
	// Everything else goes on meanwhile.
	if r := s.visitor().get("/light"); r.Status != 200 {
		t.Errorf("/light: %d", r.Status)
	}
	k.nothing(t, "two at work")
	for i := range 6 {
		k.finish(fmt.Sprintf("/heavy/%d", i))
		if r := s.answer(conns[i], "GET"); r.Status != 200 || !strings.Contains(r.Body, "rendered") {
			t.Errorf("%d: %d %s", i, r.Status, r.Body)
		}
		if i < 4 {
			if got, want := k.next(t), fmt.Sprintf("/heavy/%d", i+2); got != want {
				t.Errorf("the application works on %s, want %s", got, want)
			}
		}
	}
	s.leases(0)
	if _, most, done := k.counts(); most != 2 || done != 6 {
		t.Errorf("at most %d at once, %d in all", most, done)
	}
	if n := s.daemon.metric("stile_lease_lines_total", "released"); n != 6 {
		t.Errorf("%g lines released a lease", n)
	}
	if n := s.daemon.metric("stile_gate_wait_seconds_count", ""); n != 4 {
		t.Errorf("%g waited", n)
	}
	if strings.Contains(s.Errors(), "[error]") || strings.Contains(s.Errors(), "[alert]") {
		t.Errorf("nginx's error log:\n%s", s.Errors())
	}
}

// C019, C146: those who leave the queue leave no gap, and the next patient one is let in
// at once, in order.
func TestGateLeavers(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 1
queue = 300
per_caller = 0
wait = "25s"`)
	first := s.ask(0, "GET", "/heavy/first", proven)
	k.next(t)
	var leavers, patient []*nginxtest.Conn
	for i := range 100 {
		leavers = append(leavers, s.ask(i+1, "GET", fmt.Sprintf("/heavy/leaver%d", i), proven))
		s.waiting(len(leavers) + len(patient))
		if i%25 == 0 {
			patient = append(patient, s.ask(1000+i, "GET", fmt.Sprintf("/heavy/patient%d", i), proven))
			s.waiting(len(leavers) + len(patient))
		}
	}
	for _, c := range leavers {
		c.Close()
	}
	s.waiting(len(patient))
	if n := s.daemon.metric("stile_gate_abandoned_total", ""); n != 100 {
		t.Errorf("%g abandoned", n)
	}
	k.finish("/heavy/first")
	s.answer(first, "GET")
	for i, c := range patient {
		target := fmt.Sprintf("/heavy/patient%d", i*25)
		if got := k.next(t); got != target {
			t.Errorf("the application works on %s, want %s", got, target)
		}
		k.finish(target)
		if r := s.answer(c, "GET"); r.Status != 200 {
			t.Errorf("patient %d: %d", i, r.Status)
		}
	}
	s.leases(0)
	if now, most, done := k.counts(); now != 0 || most != 1 || done != 5 {
		t.Errorf("%d at work, at most %d at once, %d in all", now, most, done)
	}
}

// A full queue, and a wait that is over, are a page that says so and tries again.
func TestGateFullAndElapsed(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 1
queue = 2
wait = "1s"`)
	busy := s.ask(0, "GET", "/heavy/0", proven)
	k.next(t)
	busyPage := func(r *nginxtest.Response, html bool) {
		t.Helper()
		if r.Status != 503 || r.Header.Get("Retry-After") == "" || r.Header.Get("Retry-After") == "0" || !strings.Contains(r.Header.Get("Cache-Control"), "no-store") {
			t.Errorf("%d %v", r.Status, r.Header)
		}
		if got := strings.Contains(r.Body, "<html"); got != html {
			t.Errorf("html: %v, want %v: %s", got, html, r.Body)
		}
	}
	a := s.ask(1, "GET", "/heavy/1", "Accept: text/html")
	s.waiting(1)
	// Strangers have half the places: one of two.
	busyPage(s.answer(s.ask(2, "GET", "/heavy/2", "Accept: application/json"), "GET"), false)
	b := s.ask(3, "HEAD", "/heavy/3", proven)
	s.waiting(2)
	busyPage(s.answer(s.ask(4, "GET", "/heavy/4", proven, "Accept: text/html"), "GET"), true)
	busyPage(s.answer(s.ask(5, "GET", "/heavy/5", proven), "GET"), false)
	// A prefetch is not queued, also where there is room.
	busyPage(s.answer(a, "GET"), true) // after a second
	r := s.answer(b, "HEAD")
	if r.Status != 503 || r.Body != "" || r.Header.Get("Retry-After") == "" {
		t.Errorf("HEAD: %d %q", r.Status, r.Body)
	}
	s.waiting(0)
	busyPage(s.answer(s.ask(6, "GET", "/heavy/6", proven, "Sec-Purpose: prefetch", "Accept: text/html"), "GET"), false)
	k.finish("/heavy/0")
	s.answer(busy, "GET")
	s.leases(0)
	k.nothing(t, "the others")
	m := func(reason string) float64 { return s.daemon.metric("stile_gate_refused_total", `"`+reason+`"`) }
	if m("strangers") != 1 || m("full") != 2 || m("elapsed") != 2 || m("busy") != 1 {
		t.Errorf("strangers %g, full %g, elapsed %g, busy %g", m("strangers"), m("full"), m("elapsed"), m("busy"))
	}
	if n := s.daemon.metric("stile_checks_total", `reason="gate"`); n != 6 {
		t.Errorf("%g refused at the gate", n)
	}
}

// C006, N6: one request holds one lease, however often nginx asks about it.
func TestGateOneLeaseARequest(t *testing.T) {
	t.Parallel()
	s := open(t, gateRules(`budget = 1`), strings.Replace(gateSite, "location /heavy/ {", `
    location /heavy/missing { include snippets/stile-gate.conf; proxy_intercept_errors on; error_page 404 /heavy/instead; include snippets/stile-guard.conf; proxy_pass http://127.0.0.1:8080; }
    location /heavy/try { try_files /nowhere /heavy/tried; }
    location /heavy/ {`, 1))
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/heavy/missing" {
			w.WriteHeader(404)
		}
		io.WriteString(w, r.URL.Path)
	})
	for i := range 3 {
		for target, want := range map[string]string{"/heavy/missing": "/heavy/instead", "/heavy/try": "/heavy/tried"} {
			r := s.visitor().get(target)
			if !strings.Contains(r.Body, want) {
				t.Errorf("%d %s: %d %s", i, target, r.Status, r.Body)
			}
			s.leases(0)
		}
	}
	if n := s.daemon.metric("stile_gate_admitted_total", ""); n != 6 {
		t.Errorf("%g leases for 6 requests", n)
	}
	if n := s.daemon.metric("stile_checks_total", ""); n != 12 {
		t.Errorf("%g checks for 6 requests", n)
	}
}

// A client that is admitted and vanishes keeps its lease until the backend's real end (N4).
func TestGateVanishedKeepItsLease(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 2
per_caller = 0
queue = 64`)
	warm(s, k)
	for i := range 2 {
		c := s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i))
		k.next(t)
		c.Close()
	}
	patient := s.ask(9, "GET", "/heavy/patient")
	s.waiting(1)
	for i := range 20 { // others come and go
		s.ask(10+i, "GET", fmt.Sprintf("/heavy/gone%d", i)).Close()
	}
	s.waiting(1)
	k.nothing(t, "two at work, whose clients have gone")
	k.finish("/heavy/0")
	if got := k.next(t); got != "/heavy/patient" {
		t.Errorf("the application works on %s", got)
	}
	k.finish("/heavy/patient")
	s.answer(patient, "GET")
	k.finish("/heavy/1")
	s.leases(0)
	if _, most, _ := k.counts(); most != 2 {
		t.Errorf("at most %d at once", most)
	}
}

// warm lets one request through the gate and waits for its end, so that the daemon knows
// that nginx tells of ends.
func warm(s *site, k *kiln) {
	s.t.Helper()
	k.finish("/heavy/warm")
	if r := s.answer(s.ask(4000, "GET", "/heavy/warm"), "GET"); r.Status != 200 {
		s.t.Fatalf("%d", r.Status)
	}
	k.next(s.t)
	s.leases(0)
}

// The daemon stops with waiters and leases: those who wait are told to come again, at
// once; nothing is a 500.
func TestGateRestart(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			s, k := openKiln(t, `budget = 2
per_caller = 0
queue = 100
wait = "25s"`)
			warm(s, k)
			var conns []*nginxtest.Conn
			for i := range 22 {
				conns = append(conns, s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i), proven))
			}
			s.leases(2)
			s.waiting(20)
			s.daemon.kill(sig)
			s.daemon.start()
			var bad atomic.Int32
			for i := range 50 {
				if r := s.visitor().get(fmt.Sprintf("/light%d", i)); r.Status != 200 {
					bad.Add(1)
				}
			}
			k.finishAll()
			codes := map[int]int{}
			for _, c := range conns {
				codes[s.answer(c, "GET").Status]++
			}
			if bad.Load() > 0 || codes[500] > 0 || codes[502] > 0 || codes[503] > 0 {
				t.Errorf("%d of the light ones failed; the heavy ones: %v", bad.Load(), codes)
			}
			if _, most, _ := k.counts(); sig == syscall.SIGTERM && most > 2 || most > 22 {
				t.Errorf("at most %d at once", most)
			}
			t.Logf("%v: %v", sig, codes)
		})
	}
}
