// Package e2e tests the whole as its users meet it: the built binary, the shipped nginx
// files in a real nginx, and real clients: curl, git, text browsers, Chromium.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// built is the program under test.
var built string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stile-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = filepath.Join(dir, "stile")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", built, "..")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building stile:", err)
		return 1
	}
	return m.Run()
}

// plainSite protects everything and hands it to the app.
const plainSite = `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`

// site is a protected site: nginx, the daemon, and an app behind them.
type site struct {
	*nginxtest.Nginx
	t      testing.TB
	app    *nginxtest.App
	daemon *daemon
}

// open starts a site with stile's rules (the default policy for "") and nginx's
// configuration (plainSite for ""). Everything ends with the test.
func open(t testing.TB, rules, conf string) *site {
	t.Helper()
	s := build(t, rules, nginxtest.Options{Site: conf})
	s.daemon.start()
	return s
}

// build is open with all of nginx's options, and without starting the daemon.
func build(t testing.TB, rules string, o nginxtest.Options) *site {
	t.Helper()
	if o.Site == "" {
		o.Site = plainSite
	}
	app := nginxtest.StartApp(t)
	if o.App == "" {
		o.App = app.Addr
	}
	s := &site{Nginx: nginxtest.Start(t, o), t: t, app: app}
	s.daemon = newDaemon(t, s.Socket(), rules)
	return s
}

// daemon is the program, running or not.
type daemon struct {
	t      testing.TB
	dir    string
	socket string
	admin  string // a socket too: a port might be taken between asking and listening
	lease  string
	cmd    *exec.Cmd
	done   chan struct{}
	mu     sync.Mutex
	log    strings.Builder
}

func newDaemon(t testing.TB, socket, rules string) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir(), socket: socket, admin: socket + ".admin", lease: socket + ".lease"}
	if name, ok := strings.CutSuffix(socket, "stile.sock"); ok {
		d.lease = name + "lease.sock" // where the shipped files look for it
	}
	d.configure(rules)
	t.Cleanup(func() {
		d.kill(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.output())
		}
	})
	return d
}

func (d *daemon) file() string { return filepath.Join(d.dir, "stile.toml") }

// configure writes the configuration. rules may begin with top-level keys, and may hold
// any table but [listen], [key] and [state].
func (d *daemon) configure(rules string) {
	d.t.Helper()
	text := rules + fmt.Sprintf("\n[listen]\ncheck = \"unix:%s\"\nadmin = \"unix:%s\"\nlease = \"unix:%s\"\n[key]\nfile = \"%s/key\"\n[state]\ndir = \"%s\"\n", d.socket, d.admin, d.lease, d.dir, d.dir)
	if err := os.WriteFile(d.file(), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// start runs the daemon and waits until it is ready.
func (d *daemon) start() {
	d.t.Helper()
	cmd := exec.Command(built, "serve", "-c", d.file())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		said := false
		for lines.Scan() {
			d.mu.Lock()
			d.log.WriteString(lines.Text() + "\n")
			d.mu.Unlock()
			if !said && strings.Contains(lines.Text(), "msg=ready") {
				said = true
				close(ready)
			}
		}
		cmd.Wait()
		close(done)
	}()
	d.cmd, d.done = cmd, done
	select {
	case <-ready:
	case <-done:
		d.t.Fatalf("the daemon ended at once:\n%s", d.output())
	case <-time.After(20 * time.Second):
		d.t.Fatalf("the daemon is not ready:\n%s", d.output())
	}
}

// kill ends the daemon with a signal and waits for its end.
func (d *daemon) kill(sig syscall.Signal) {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Signal(sig)
	select {
	case <-d.done:
	case <-time.After(20 * time.Second):
		d.cmd.Process.Kill()
		<-d.done
		d.t.Errorf("the daemon did not end within 20 s of signal %v", sig)
	}
	d.cmd = nil
}

func (d *daemon) signal(sig syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
	if sig == syscall.SIGSTOP { // until then another processor may still run it
		for end := time.Now().Add(10 * time.Second); !d.stopped(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				d.t.Fatal("the daemon does not stop")
			}
		}
	}
}

// stopped tells whether no thread of the daemon runs any more.
func (d *daemon) stopped() bool {
	d.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		d.t.Fatalf("no threads: %v", err)
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		// pid (name) state …, see proc(5)
		if end := bytes.LastIndexByte(stat, ')'); end < 0 || !bytes.HasPrefix(stat[end:], []byte(") T")) {
			return false
		}
	}
	return true
}

func (d *daemon) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// waitLog waits until the daemon has logged a text n times.
func (d *daemon) waitLog(text string, n int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("the log says %q %d times", text, n), func() bool { return strings.Count(d.output(), text) >= n })
}

// metrics is the daemon's metrics page.
func (d *daemon) metrics() string {
	d.t.Helper()
	c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", d.admin)
		},
	}}
	resp, err := c.Get("http://admin/metrics")
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// metric sums the values of a metric over those of its series that contain a text.
func (d *daemon) metric(name, with string) (sum float64) {
	d.t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(d.metrics(), -1) {
		if strings.Contains(m[1], with) {
			var x float64
			fmt.Sscan(m[2], &x)
			sum += x
		}
	}
	return sum
}

// eventually waits for something that others bring about. It polls: what it waits for
// has no other way to tell.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}

// need finds a program. In CI a missing one is a failure.
func need(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not on this machine", name)
		}
		t.Skipf("%s is not on this machine", name)
	}
	return path
}

// curl runs curl against the site: args come before the URL of target.
func (s *site) curl(target string, args ...string) (out string, status int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	args = append([]string{"-sS", "--path-as-is", "-w", "\n%{http_code}"}, append(args, "http://"+s.Addr(80)+target)...)
	b, _ := exec.CommandContext(ctx, need(s.t, "curl"), args...).CombinedOutput()
	i := strings.LastIndexByte(string(b), '\n')
	if i < 0 {
		s.t.Fatalf("curl %q: %s", args, b)
	}
	fmt.Sscan(string(b[i+1:]), &status)
	return string(b[:i]), status
}
