package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stile/nginx/nginxtest"
)

// weigh is an application whose pages are as large as their path says, /heavy/NAME/BYTES,
// and that says what each cost it if the query asks for that.
func weigh(s *site) {
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		var n int
		parts := strings.Split(r.URL.Path, "/")
		fmt.Sscan(parts[len(parts)-1], &n)
		if c := r.URL.Query().Get("cost"); c != "" {
			w.Header().Set("X-Stile-Cost", c)
		}
		w.Header().Set("Content-Length", fmt.Sprint(n))
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Length", "1")
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-0/%d", n))
			w.WriteHeader(206)
			n = 1
		}
		if r.URL.Query().Has("missing") {
			w.WriteHeader(404)
		}
		if r.Method != "HEAD" {
			io.WriteString(w, strings.Repeat("x", n))
		}
	})
}

// inFlight is what one request is charged with: it is held at the application meanwhile.
func (s *site) inFlight() float64 {
	s.t.Helper()
	return s.daemon.metric("stile_gate_inflight_(?:bytes|seconds|requests)", "")
}

// charged is what a request to a target costs in the gate's unit, found out by holding it
// at the application. It waits until the lease is over.
func charged(s *site, k *kiln, method, target string, headers ...string) float64 {
	s.t.Helper()
	c := s.ask(200, method, target, append(headers, proven)...)
	k.next(s.t)
	cost := s.inFlight()
	k.finish(target)
	s.answer(c, method)
	s.leases(0)
	return cost
}

// What a page has cost is what it costs the next time; a page that nobody has seen costs
// as much as the dearest of its rule, once enough of them are known. Heads, ranges, errors and those who leave teach
// nothing; what is learned outlives the daemon.
func TestGateLearnsCosts(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = "1MiB"
unseen = "300KB"`)
	size := map[string]int{}
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		wait, n := k.gateLocked(r.RequestURI), size[r.RequestURI]
		k.mu.Unlock()
		k.arrived <- r.RequestURI
		<-wait
		if r.URL.Query().Has("error") {
			w.WriteHeader(500)
		}
		if r.Header.Get("Range") != "" {
			w.WriteHeader(206)
		}
		if r.Method != "HEAD" {
			w.Write(make([]byte, n))
		}
	})
	f := func(what, method, target string, bytes int, want float64, headers ...string) {
		t.Helper()
		k.mu.Lock()
		size[target] = bytes
		k.open[target] = nil
		k.mu.Unlock()
		got := charged(s, k, method, target, headers...)
		// What nginx counts has the header too, and is rounded up to 256 bytes.
		if got < want || got > want+1024 {
			t.Errorf("%s: %s %s was charged %g, want %g", what, method, target, got, want)
		}
	}
	f("nothing is known", "HEAD", "/heavy/a", 0, 300e3)
	f("a head has taught nothing", "GET", "/heavy/a?error", 10, 300e3)
	f("an error has taught nothing", "GET", "/heavy/a", 50e3, 300e3, "Range: bytes=0-9")
	f("a range has taught nothing", "GET", "/heavy/a", 50e3, 300e3)
	f("it is known", "GET", "/heavy/a", 50e3, 50e3)
	f("also for a head", "HEAD", "/heavy/a", 0, 50e3)
	f("of another that tells little", "GET", "/heavy/b", 200e3, 300e3)
	for i := range 29 {
		f("as long as few are known", "GET", fmt.Sprintf("/heavy/few/%d", i), 1e3, 300e3)
	}
	f("when enough are, it is as the dearest", "GET", "/heavy/c", 1e3, 300e3)
	f("and with another query", "GET", "/heavy/c?x", 1e3, 200e3)
	f("it is cheap itself", "GET", "/heavy/c", 20e3, 1e3)
	f("it rises at once", "GET", "/heavy/c", 1e3, 20e3)
	f("and falls slowly", "GET", "/heavy/c", 1e3, 20e3-19e3/16-512)

	s.daemon.kill(syscall.SIGTERM)
	s.daemon.start()
	f("after a restart", "GET", "/heavy/b", 200e3, 200e3)
	f("after a restart, of what nobody has seen", "HEAD", "/heavy/d", 0, 200e3)
	if n := s.daemon.metric("stile_table_entries", `"costs"`); n != 33 {
		t.Errorf("%g entries", n)
	}

	// A broken file is no reason not to start.
	s.daemon.kill(syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(s.daemon.dir, "learned"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.daemon.start()
	s.daemon.waitLog("learned anew", 1)
	f("all is forgotten", "GET", "/heavy/b", 200e3, 300e3)
}

// One tiny page, the first that anybody has asked for, is no reason to let in all the others.
func TestGateFirstLesson(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = "16MiB"
free_below = "1MiB"
per_caller = 0`)
	warm(s, k)
	for i := range 100 {
		defer s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i)).Close()
	}
	eventually(t, "all have asked", func() bool {
		refused := s.daemon.metric("stile_gate_refused_total", "")
		return s.daemon.metric("stile_gate_queue_length", "")+s.daemon.metric("stile_gate_leases", "")+refused == 100
	})
	if _, most, _ := k.counts(); most > 2 {
		t.Errorf("%d of them are at work at once, by a budget for two", most)
	}
	k.finishAll()
}

// The cost is a file's size times a factor; there is no way out of the folder; a file that
// is not there costs what nothing is known of.
func TestGateCostByFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, n := range map[string]int{"srv/purs/aff.json": 1000, "srv/purs/halogen.json": 40_000, "secret.json": 100_000} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, make([]byte, n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, k := openKiln(t, fmt.Sprintf(`budget = "1MiB"
free_below = "25KB"
cost = "file:%s/srv/{2}/{3}.json"
scale = 24
unseen = "77KB"`, dir))
	f := func(target string, want float64) {
		t.Helper()
		if got := charged(s, k, "GET", target); got != want {
			t.Errorf("%s was charged %g, want %g", target, got, want)
		}
	}
	f("/heavy/purs/aff", 24_000)
	f("/heavy/purs/halogen", 960_000)
	f("/heavy/purs/missing", 77_000)
	f("/heavy/..%2fsecret/x", 77_000)
	f("/heavy/purs/..%2f..%2fsecret", 77_000)
	if n := s.daemon.metric("stile_gate_free_total", ""); n != 1 {
		t.Errorf("%g were free", n)
	}
}

// The backend says what a page cost it; that is what it costs the next time.
func TestGateCostByHeader(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = "10s"
cost = "header"
unseen = "2s"`)
	told := ""
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		wait := k.gateLocked(r.RequestURI)
		w.Header().Set("X-Stile-Cost", told)
		k.mu.Unlock()
		k.arrived <- r.RequestURI
		<-wait
		io.WriteString(w, "page")
	})
	f := func(target, says string, want float64) {
		t.Helper()
		k.mu.Lock()
		k.open[target] = nil
		told = says
		k.mu.Unlock()
		if got := charged(s, k, "GET", target); got != want {
			t.Errorf("%s was charged %g, want %g", target, got, want)
		}
	}
	f("/heavy/a", "4500", 2)
	f("/heavy/a", "", 4.5)
	f("/heavy/a", "rubbish 12", 4.5)
	f("/heavy/a", "6000", 4.5)
	f("/heavy/b", "100", 6) // as the dearest
	f("/heavy/b", "100", 0.1)
}

// A stranger who wants more than half the budget needs a pass; one who has it, and a
// machine client that cannot get one, do not.
func TestGateStrangerAndTheLargest(t *testing.T) {
	t.Parallel()
	s := open(t, strings.Replace(gateRules(`budget = "1MiB"
cost = "600KiB"`), "[[rule]]", `[[rule]]
name = "machines"
path = "/heavy/api/**"
do = "meter"
meter = "many"
proof = "never"
gate = "kiln"
[[rule]]`, 1), gateSite)
	weigh(s)
	v := s.visitor()
	r := v.get("/heavy/x/100")
	if r.Status != 503 || !strings.Contains(r.Body, "stile.js") {
		t.Fatalf("a stranger: %d %s", r.Status, r.Body)
	}
	if n := len(s.app.Hits()); n != 0 {
		t.Errorf("%d hits", n)
	}
	if r := s.visitor().ask("POST", "/heavy/x/100", "a=b"); r.Status != 429 {
		t.Errorf("a stranger's POST: %d", r.Status)
	}
	v.prove(r)
	if r := v.get("/heavy/x/100"); r.Status != 200 {
		t.Errorf("with a pass: %d", r.Status)
	}
	if r := s.visitor().get("/heavy/api/100"); r.Status != 200 {
		t.Errorf("a machine: %d", r.Status)
	}
	if n := s.daemon.metric("stile_checks_total", `verdict="challenge",reason="gate"`); n != 1 {
		t.Errorf("%g challenges by the gate", n)
	}
}

// 32 cheap addresses cannot fill a queue of 32 against visitors who are known.
func TestGateCheapAddressesDoNotFillTheQueue(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 1
queue = 32`)
	first := s.ask(0, "GET", "/heavy/first", proven)
	k.next(t)
	var kept []*nginxtest.Conn
	for i := range 40 {
		kept = append(kept, s.ask(100+i, "GET", fmt.Sprintf("/heavy/stranger%d", i)))
	}
	s.waiting(16)
	eventually(t, "24 are refused", func() bool { return s.daemon.metric("stile_gate_refused_total", `"strangers"`) == 24 })
	mine := s.ask(300, "GET", "/heavy/mine", proven)
	s.waiting(17)
	k.finishAll()
	codes := map[int]int{}
	for _, c := range kept {
		codes[s.answer(c, "GET").Status]++
	}
	if codes[200] != 16 || codes[503] != 24 {
		t.Errorf("the strangers: %v", codes)
	}
	if r := s.answer(mine, "GET"); r.Status != 200 {
		t.Errorf("the known one: %d", r.Status)
	}
	s.answer(first, "GET")
}

// One caller has its places and no more, waiting and in flight together.
func TestGatePerCaller(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 2
per_caller = 3`)
	var conns []*nginxtest.Conn
	for i := range 2 {
		conns = append(conns, s.ask(7, "GET", fmt.Sprintf("/heavy/%d", i)))
		k.next(t)
	}
	conns = append(conns, s.ask(7, "GET", "/heavy/2"))
	s.waiting(1)
	r := s.answer(s.ask(7, "GET", "/heavy/3"), "GET")
	if r.Status != 503 {
		t.Errorf("the fourth: %d", r.Status)
	}
	other := s.ask(8, "GET", "/heavy/other")
	s.waiting(2)
	k.finishAll()
	for _, c := range append(conns, other) {
		if r := s.answer(c, "GET"); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}
}

// In observe mode nobody waits and nobody is refused, but it is counted who would be.
func TestGateObserves(t *testing.T) {
	t.Parallel()
	s := open(t, `mode = "observe"
`+gateRules(`budget = 1`), gateSite)
	k := newKiln(s)
	var conns []*nginxtest.Conn
	for i := range 3 {
		conns = append(conns, s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i)))
		k.next(t)
	}
	if n := s.daemon.metric("stile_checks_total", `verdict="refuse",reason="gate"`); n != 2 {
		t.Errorf("%g would have been refused or have waited", n)
	}
	k.finishAll()
	for _, c := range conns {
		if r := s.answer(c, "GET"); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}
	s.leases(0)
}

// A reload changes the budget of a gate in use, keeps who waits, and counts on.
func TestGateReload(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 1
per_caller = 0`)
	var conns []*nginxtest.Conn
	for i := range 4 {
		conns = append(conns, s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i)))
		s.waiting(i)
	}
	k.next(t)
	s.daemon.configure(gateRules(`budget = 3
per_caller = 0`))
	s.daemon.signal(syscall.SIGHUP)
	if a, b := k.next(t), k.next(t); a != "/heavy/1" && b != "/heavy/1" {
		t.Errorf("the application works on %s and %s", a, b)
	}
	s.waiting(1)
	// The gate goes: who waits is told to come again, and what comes now is not gated.
	rest := strings.Replace(gateRules("budget = 1"), `gate = "kiln"`, "", 1)
	s.daemon.configure(strings.Replace(rest, "kiln", "other", 1))
	s.daemon.signal(syscall.SIGHUP)
	if r := s.answer(conns[3], "GET"); r.Status != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("who waited: %d", r.Status)
	}
	for i := range 5 {
		conns = append(conns, s.ask(10+i, "GET", fmt.Sprintf("/heavy/1%d", i)))
		k.next(t)
	}
	k.finishAll()
	for i, c := range conns {
		if i != 3 {
			if r := s.answer(c, "GET"); r.Status != 200 {
				t.Errorf("%d: %d", i, r.Status)
			}
		}
	}
}

// A server with an access_log of its own never tells of an end: its leases end by
// themselves, soon, and that is said. With snippets/stile-lease.conf it does.
func TestGateServerThatDoesNotTell(t *testing.T) {
	t.Parallel()
	s := open(t, gateRules(`budget = 1
lease = "60s"`), strings.Replace(gateSite, "listen 80;", "listen 80; access_log own.log;", 1)+
		strings.NewReplacer("listen 80;", "listen 81; access_log own.log; include snippets/stile-lease.conf;", "kiln.test", "tells.test").Replace(gateSite))
	k := newKiln(s)
	k.finishAll()
	for i := range 3 {
		if r := s.visitor().get(fmt.Sprintf("/heavy/%d", i)); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}
	if n := s.daemon.metric("stile_gate_lease_expired_total", ""); n < 2 {
		t.Errorf("%g leases have ended by themselves", n)
	}
	if n := s.daemon.metric("stile_gate_unreleased_servers", ""); n != 1 {
		t.Errorf("%g servers do not tell", n)
	}
	s.leases(0)
	before := s.daemon.metric("stile_gate_lease_expired_total", "")
	for i := range 3 {
		v := s.visitor()
		v.port = 81
		if r := v.get(fmt.Sprintf("/heavy/%d", i)); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}
	s.leases(0)
	if n := s.daemon.metric("stile_gate_lease_expired_total", ""); n != before {
		t.Errorf("%g leases of the server that tells ended by themselves", n-before)
	}
}
