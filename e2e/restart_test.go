package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

func sum(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:])
}

// hurried shortens nginx's patience with a daemon that hangs, so that a test can wait for it.
var hurried = []string{"proxy_read_timeout 30s", "proxy_read_timeout 1s", "proxy_read_timeout 10s", "proxy_read_timeout 1s"}

// C017: without a daemon (absent, killed, stopped) the site is served with its bodies intact, and protected again as
// soon as the daemon is back.
func TestC017SiteWithoutDaemon(t *testing.T) {
	t.Parallel()
	s := build(t, houseRules, nginxtest.Options{Replace: hurried})
	body := strings.Repeat("0123456789abcdef", 1<<16)
	isOpen := func(what string) time.Duration {
		t.Helper()
		begin := time.Now()
		r := s.visitor().ask("POST", "/heavy", body)
		took := time.Since(begin)
		if r.Status != 200 {
			t.Errorf("%s: %d", what, r.Status)
		}
		if hits := s.hits(what, 1); len(hits) == 1 && (hits[0].Method != "POST" || hits[0].Length != int64(len(body)) || hits[0].SHA256 != sum(body)) {
			t.Errorf("%s: arrived as %+v", what, hits[0])
		}
		if r := s.visitor().get("/.stile/stile.js"); r.Status != 503 || r.Header.Get("Retry-After") == "" || !strings.HasPrefix(r.Header.Get("Cache-Control"), "no-store") {
			t.Errorf("%s: our own file: %d %v", what, r.Status, r.Header)
		}
		return took
	}
	isShut := func(what string) {
		t.Helper()
		s.expect(what, s.visitor().get("/heavy"), 503, 0)
	}
	isOpen("absent")
	s.daemon.start()
	isShut("started")

	s.daemon.kill(syscall.SIGKILL)
	isOpen("killed")
	s.daemon.start()
	isShut("started again")

	s.daemon.signal(syscall.SIGSTOP)
	if took := isOpen("stopped"); took < time.Second {
		t.Errorf("served after %s by a daemon that says nothing", took)
	}
	s.daemon.signal(syscall.SIGCONT)
	isShut("continued")

	s.daemon.kill(syscall.SIGTERM)
	isOpen("ended")
	s.daemon.start()
	isShut("started a third time")
}

// C020: of two daemons in one directory one may come and go; the other's socket stays.
func TestC020SocketOfTheOtherStays(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	other := newDaemon(t, filepath.Join(s.Dir(), "other.sock"), houseRules)
	other.start()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		other.kill(sig)
		s.expect("the other has ended", s.visitor().get("/heavy"), 503, 0)
		other.start()
		s.expect("the other has started", s.visitor().get("/heavy"), 503, 0)
		if r := (&site{t: t, daemon: other}).direct(nginxtest.Request("GET", "/.stile/stile.js", "")); r.Status != 200 {
			t.Errorf("the other: %d", r.Status)
		}
	}
	// A second one on the same socket is refused, and the first lives on.
	second := newDaemon(t, s.daemon.socket, houseRules)
	second.admin += "2"
	second.configure(houseRules)
	out, err := exec.Command(built, "serve", "-c", second.file()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another process listens") {
		t.Errorf("a second daemon on one socket: %v %s", err, out)
	}
	s.expect("after that", s.visitor().get("/heavy"), 503, 0)
	for _, sock := range []string{s.daemon.socket, other.socket} {
		st, err := os.Stat(sock)
		if err != nil {
			t.Fatal(err)
		}
		if m := st.Mode().Perm(); m != 0o660 && m != 0o666 {
			t.Errorf("%s: mode %v", sock, m)
		}
	}
}

// load asks for targets over kept connections, from several addresses at once, until the test says stop.
type load struct {
	t      *testing.T
	stop   atomic.Bool
	all    sync.WaitGroup
	mu     sync.Mutex
	counts map[string]int // "target status"
	done   atomic.Int64
}

func (s *site) load(t *testing.T, clients int, targets []string, prepare func(v *visitor)) *load {
	l := &load{t: t, counts: map[string]int{}}
	for range clients {
		v := s.visitor()
		v.kept = true
		if prepare != nil {
			prepare(v)
		}
		l.all.Go(func() {
			defer v.hangUp()
			for i := 0; !l.stop.Load(); i++ {
				target := targets[i%len(targets)]
				r, err := v.try("GET", target, "")
				what := target + " "
				if err != nil {
					what += err.Error()
				} else {
					what += fmt.Sprint(r.Status)
				}
				l.mu.Lock()
				l.counts[what]++
				l.mu.Unlock()
				l.done.Add(1)
			}
		})
	}
	return l
}

// more waits until so many more requests have been answered.
func (l *load) more(n int64) {
	l.t.Helper()
	want := l.done.Load() + n
	eventually(l.t, fmt.Sprintf("%d more answers", n), func() bool { return l.done.Load() >= want })
}

// end stops the load and checks that it saw nothing but what is allowed.
func (l *load) end(allowed ...string) map[string]int {
	l.t.Helper()
	l.stop.Store(true)
	l.all.Wait()
	for what, n := range l.counts {
		if !slices.Contains(allowed, what) {
			l.t.Errorf("%q %d times; %v", what, n, l.counts)
		}
	}
	return l.counts
}

// C021: ten restarts under load, and nobody sees an error; those with a pass are served all the while.
func TestC021TenRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	member := s.member()
	l := s.load(t, 4, []string{"/", "/robots.txt", "/heavy/x"}, func(v *visitor) { v.jar["stile"] = member.jar["stile"] })
	for i := range 10 {
		l.more(100)
		begin := time.Now()
		s.daemon.kill([]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL}[i%3])
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("restart %d: the daemon took %s to end", i, took)
		}
		s.daemon.start()
	}
	l.more(30)
	l.end("/ 200", "/robots.txt 200", "/heavy/x 200")
	s.app.Reset()
	s.expect("a stranger afterwards", s.visitor().get("/heavy"), 503, 0)
}

// C021, C153: reloads under load let nobody in who should not be, and keep nobody out.
func TestC153ReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	limited := s.visitor()
	for range 4 {
		limited.get("/machines/x")
	}
	s.expect("limited before", limited.get("/machines/x"), 429, 3)
	l := s.load(t, 4, []string{"/", "/heavy/x", "/denied/x"}, nil)
	for i := range 10 {
		l.more(20)
		s.daemon.configure(houseRules + strings.Repeat("\n", i))
		s.daemon.signal(syscall.SIGHUP)
		s.daemon.waitLog("msg=reloaded", i+1)
	}
	checks := s.daemon.metric("stile_checks_total", "")
	for i, broken := range []string{"this is no TOML", houseRules + "[[rule]]\nname = \"x\"\nlimitt = 10\n", "mode = \"enforced\"\n"} {
		l.more(20)
		s.daemon.configure(broken)
		s.daemon.signal(syscall.SIGHUP)
		s.daemon.waitLog("reload failed", i+1)
	}
	l.more(20)
	l.end("/ 200", "/heavy/x 503", "/denied/x 403")
	for _, hit := range s.app.Hits() {
		if hit.Target != "/" {
			t.Errorf("the application was asked for %s", hit.Target)
		}
	}
	s.app.Reset()

	if n := strings.Count(s.daemon.output(), "level=ERROR"); n != 3 {
		t.Errorf("%d errors in the log, want one for each broken file:\n%s", n, s.daemon.output())
	}
	s.expect("limited after", limited.get("/machines/x"), 429, 0)
	if got := s.daemon.metric("stile_checks_total", ""); got <= checks || checks < 200 {
		t.Errorf("checks counted: %v before the broken files, %v after", checks, got)
	}
	for name, want := range map[string]float64{
		"stile_config_reloads_total": 11, "stile_config_reload_errors_total": 3, "stile_config_last_reload_successful": 0,
	} {
		if got := s.daemon.metric(name, ""); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	s.daemon.configure(houseRules)
	s.daemon.signal(syscall.SIGHUP)
	s.daemon.waitLog("msg=reloaded", 11)
	if got := s.daemon.metric("stile_config_last_reload_successful", ""); got != 1 {
		t.Errorf("the last reload: %v, want 1", got)
	}
	s.daemon.configure(strings.Replace(houseRules, "100ms", "5s", 1))
	s.daemon.signal(syscall.SIGHUP)
	s.daemon.waitLog("takes effect at the next start", 1)
}

// C083, C084: the rules change, a header disappears, the daemon restarts, or the key is rotated between a challenge
// and its solution: the solution is good all the same.
func TestC084SolutionOutlivesARestart(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	f := func(what string, meanwhile func(v *visitor)) {
		t.Helper()
		v := s.visitor()
		p := v.puzzle(v.get("/heavy/x"))
		meanwhile(v)
		if r := v.post(p); r.Status != 200 {
			t.Errorf("%s: %d %s", what, r.Status, r.Body)
		}
		s.expect(what, v.get("/heavy/x"), 200, 1)
	}
	reloads := 0
	reload := func() {
		s.daemon.signal(syscall.SIGHUP)
		reloads++
		s.daemon.waitLog("msg=reloaded", reloads)
	}
	f("the rule has gone", func(*visitor) {
		s.daemon.configure(strings.NewReplacer(`"heavy"`, `"costly"`).Replace(houseRules))
		reload()
	})
	f("there are no rules", func(*visitor) {
		s.daemon.configure("include = []\n")
		reload()
	})
	s.daemon.configure(houseRules)
	reload()
	f("headers have gone", func(v *visitor) { v.header = nil })
	f("the agent is another", func(v *visitor) { v.header = program })
	f("the key was rotated", func(*visitor) {
		if out, err := exec.Command(built, "key", "rotate", "-c", s.daemon.file()).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		reload()
	})
	f("a restart", func(*visitor) {
		s.daemon.kill(syscall.SIGTERM)
		s.daemon.start()
	})
	f("a crash", func(*visitor) {
		s.daemon.kill(syscall.SIGKILL)
		s.daemon.start()
	})
	// While it is away the script hears 503, and tries again.
	v := s.visitor()
	p := v.puzzle(v.get("/heavy/x"))
	s.daemon.kill(syscall.SIGTERM)
	if r := v.post(p); r.Status != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("a solution for nobody: %d %v", r.Status, r.Header)
	}
	s.daemon.start()
	if r := v.post(p); r.Status != 200 {
		t.Errorf("the same solution later: %d %s", r.Status, r.Body)
	}
	if n := s.daemon.metric("stile_panics_total", ""); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// C021: connections that nginx keeps do not hold the daemon up, idle or half-way through a request.
func TestC021EndsInTime(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	for range 8 {
		c, err := net.Dial("unix", s.daemon.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /check HTTP/1.1\r\nHost: x\r\n")
	}
	l := s.load(t, 2, []string{"/"}, nil)
	l.more(50)
	l.end("/ 200")
	begin := time.Now()
	s.daemon.kill(syscall.SIGTERM)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %s to end", took)
	}
}

// N3: a flood of connections, even while the daemon stands still for a moment, opens nothing.
func TestN3FloodOpensNothing(t *testing.T) {
	t.Parallel()
	s := build(t, houseRules, nginxtest.Options{Connections: 8192, Site: `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
    location = /free { auth_request off; return 204; }
}
`})
	s.daemon.start()
	const clients = 1500
	flood := func(what string, stop, resume func()) {
		stop()
		var all []*visitor
		for range clients {
			v := s.visitor(program...)
			if err := v.dial(); err != nil {
				t.Fatalf("%s: %s", what, err)
			}
			defer v.hangUp()
			if _, err := io.WriteString(v.conn, nginxtest.Request("GET", "/heavy", "", program...)); err != nil {
				t.Fatalf("%s: %s", what, err)
			}
			all = append(all, v)
		}
		// nginx takes its work in turn: with this answer it has asked about all the others.
		s.expect(what, s.visitor().get("/free"), 204, 0)
		resume()
		got := map[int]int{}
		for _, v := range all {
			r, err := v.exchange("GET", "")
			if err != nil {
				t.Fatalf("%s: %s", what, err)
			}
			got[r.Status]++
		}
		s.hits(what, 0)
		if got[503] != clients {
			t.Errorf("%s: answers by status: %v, want only 503", what, got)
		}
	}
	flood("the daemon runs", func() {}, func() {})
	flood("the daemon stands still", func() { s.daemon.signal(syscall.SIGSTOP) }, func() { s.daemon.signal(syscall.SIGCONT) })
	if strings.Contains(s.Errors(), "connect() to unix:") {
		t.Error("nginx could not connect to the daemon at some time")
	}
}

// C129, C128: a certificate is renewed and robots.txt is read, whatever the daemon does and whoever asks.
func TestC129RenewalAlwaysWorks(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	f := func(what string, v *visitor) {
		t.Helper()
		for _, target := range []string{"/.well-known/acme-challenge/tok", "/robots.txt", "/favicon.ico", "/sitemap.xml", "/.well-known/security.txt"} {
			s.expect(what+": "+target, v.get(target), 200, 1)
		}
	}
	f("at first", s.visitor(program...))
	v := s.visitor(program...)
	v.kept = true
	over := 0
	for range 200 {
		if v.get("/page").Status == 503 {
			over++
		}
	}
	if over == 0 {
		t.Error("200 pages and no challenge")
	}
	s.app.Reset()
	f("over the limit", v)
	s.daemon.kill(syscall.SIGKILL)
	f("without a daemon", v)
}
