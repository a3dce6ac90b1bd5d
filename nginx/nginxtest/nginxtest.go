// Package nginxtest runs a real nginx with the shipped files in tests, and has the
// parts around it: an application that writes down what reaches it (App), a scripted
// stand-in for the daemon (Daemon), and clients that send whatever bytes a test likes.
//
//	app := nginxtest.StartApp(t)
//	n := nginxtest.Start(t, nginxtest.Options{Site: "plain-proxy.conf", App: app.Addr})
//	d := nginxtest.StartDaemon(t, n.Socket())
//	d.Script(func(c nginxtest.Call) *nginxtest.Answer { return nginxtest.Challenge })
//	r := n.Raw(80, "GET /x HTTP/1.1\r\nHost: site.example\r\n\r\n")
//
// nginx does not care what listens on Socket, or since when: the real daemon, a
// Daemon, or nothing. In CI (CI=true) a missing nginx fails a test, elsewhere it skips it.
package nginxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for nginx. It is far more than a busy machine needs.
const patience = 20 * time.Second

// Options says what to start. The zero value is an nginx without a server.
type Options struct {
	// Site is the name of a shipped site ("plain-proxy.conf"), or text for the http
	// level of nginx.conf: upstreams, servers, maps.
	//
	// Every port in it, in `listen 80` as in `127.0.0.1:8081`, stands for a free one of
	// this machine (see Nginx.Addr), but for 127.0.0.1:8080, which stands for App.
	Site string

	// App is the host:port of the application. Default: an address that refuses connections.
	App string

	// HTTP is text for the http level that comes before stile's files.
	HTTP string

	// Replace is a list of old and new texts, replaced in the shipped files and in Site, in that order.
	// Each old text must be somewhere, or the test fails.
	Replace []string

	// Warns is what nginx -t is expected to warn of, if anything. Any other warning fails the test.
	Warns string

	// Files is more files for nginx, by their path under Dir.
	Files map[string]string

	// Workers is the number of worker processes. Default: 1.
	Workers int

	// Shutdown is how long an old worker may take for its requests after a reload. Default: 1s.
	Shutdown time.Duration

	// Connections is the number of connections of a worker, to clients, to the daemon and to the application. Default: 1024.
	Connections int
}

// Nginx is a running nginx. It is stopped at the end of the test.
type Nginx struct {
	t     testing.TB
	dir   string
	warns string
	addrs map[int]string // by the port in the site's text
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process has ended
}

// Start starts nginx with the shipped files and o.Site, and returns when a worker runs.
// An alert in the error log (a crashed worker, a leaked connection) fails the test at its end.
func Start(t testing.TB, o Options) *Nginx {
	t.Helper()
	n, listeners := prepare(t, o)
	n.test()
	n.start(listeners)
	return n
}

// Test writes the same files as Start and runs `nginx -t` on them. It returns what
// nginx wrote, and an error if nginx would not start.
func Test(t testing.TB, o Options) (output string, err error) {
	t.Helper()
	n, listeners := prepare(t, o)
	for _, l := range listeners {
		l.Close()
	}
	return n.configTest()
}

// Dir is the directory that stands for /run/stile: site files and caches are under it.
func (n *Nginx) Dir() string { return n.dir }

// Socket is where nginx looks for the daemon.
func (n *Nginx) Socket() string { return filepath.Join(n.dir, "stile.sock") }

// Addr is the host:port that stands for a port of the site's text.
func (n *Nginx) Addr(port int) string {
	n.t.Helper()
	addr, ok := n.addrs[port]
	if !ok {
		n.t.Fatalf("nginxtest: the site does not mention port %d", port)
	}
	return addr
}

// Errors is the error log so far, from level info up.
func (n *Nginx) Errors() string { return n.read("error.log") }

// Access is the site's access log so far, in the combined format. Lines are written when a
// request has ended, so a client may have its answer before the line is there: see AccessLines.
func (n *Nginx) Access() string { return n.read("access.log") }

// AccessLines waits until the access log has at least want lines, and returns them.
func (n *Nginx) AccessLines(want int) []string {
	n.t.Helper()
	var lines []string
	n.wait(fmt.Sprintf("%d lines in the access log", want), func() bool {
		lines = strings.Split(strings.TrimSuffix(n.Access(), "\n"), "\n")
		return len(lines) >= want && lines[0] != ""
	})
	return lines
}

// Reload makes nginx read its configuration again and returns when the old workers are leaving.
func (n *Nginx) Reload() {
	n.t.Helper()
	n.test()
	before := strings.Count(n.Errors(), "gracefully shutting down")
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		n.t.Fatalf("nginxtest: cannot signal nginx: %s", err)
	}
	n.wait("a reload", func() bool { return strings.Count(n.Errors(), "gracefully shutting down") > before })
}

// Stop ends nginx at once. Calling it again does nothing.
func (n *Nginx) Stop() {
	n.t.Helper()
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.done:
	case <-time.After(patience):
		_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL) // the whole group: it is ours
		<-n.done
		n.t.Errorf("nginxtest: nginx had to be killed")
	}
	n.cmd = nil
	var log strings.Builder
	for line := range strings.Lines(n.Errors()) {
		alert := strings.Contains(line, "[alert]") && !noLeaseSocket.MatchString(line) && !leftOpen.MatchString(line)
		if alert || strings.Contains(line, "[emerg]") {
			n.t.Errorf("nginx: %s", line)
		}
		if !strings.Contains(line, "[notice]") && !strings.Contains(line, "closed keepalive connection") {
			log.WriteString(line)
		}
	}
	if n.t.Failed() {
		n.t.Logf("nginx's error log ends in:\n%s", log.String()[max(0, log.Len()-4000):])
	}
}

// leftOpen is what nginx 1.22 writes when it is told to end at once while a connection of HTTP/2 is open.
var leftOpen = regexp.MustCompile(`\[alert\] \d+#\d+: (\*\d+ open socket #\d+ left in connection \d+|aborting)\n$`)

// noLeaseSocket is what nginx writes for each line of its lease log while nobody reads: many tests have no daemon.
var noLeaseSocket = regexp.MustCompile(`\[alert\] \d+#\d+: connect\(\) failed \((2|111): [^)]*\)\n$`)

// test runs `nginx -t`. A warning fails the test too: what we ship gives none.
func (n *Nginx) test() {
	n.t.Helper()
	out, err := n.configTest()
	if err == nil {
		for line := range strings.Lines(out) {
			if strings.Contains(line, "[warn]") && (n.warns == "" || !strings.Contains(line, n.warns)) {
				err = errors.New("a warning")
			}
		}
	}
	if err != nil {
		n.t.Fatalf("nginxtest: nginx -t: %v\n%s", err, out)
	}
}

func (n *Nginx) configTest() (string, error) {
	if err := os.MkdirAll(filepath.Join(n.dir, "temp"), 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, find(n.t), "-t", "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf"), "-e", "stderr")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *Nginx) start(listeners []*net.TCPListener) {
	n.t.Helper()
	cmd := exec.Command(find(n.t), "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf"), "-e", filepath.Join(n.dir, "error.log"))
	inherit := ""
	for i, l := range listeners {
		f, err := l.File()
		if err != nil {
			n.t.Fatalf("nginxtest: %s", err)
		}
		defer f.Close()
		l.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		inherit += fmt.Sprintf("%d;", 3+i)
	}
	cmd.Env = append(os.Environ(), "NGINX="+inherit)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stderr, &stderr
	// A group of its own, so that Stop can end what is left of it; and nginx goes when the test's process dies.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		n.t.Fatalf("nginxtest: %s", err)
	}
	n.cmd, n.done = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(n.done)
	}()
	n.t.Cleanup(n.Stop)
	n.wait("the first worker", func() bool {
		select {
		case <-n.done:
			n.t.Fatalf("nginxtest: nginx ended: %s\n%s%s", cmd.ProcessState, stderr.String(), n.Errors())
		default:
		}
		return strings.Contains(n.Errors(), "start worker process ")
	})
}

// wait polls until something about nginx is true.
func (n *Nginx) wait(what string, ok func() bool) {
	n.t.Helper()
	if !poll(ok) {
		n.t.Fatalf("nginxtest: no sign of %s after %s:\n%s", what, patience, n.Errors())
	}
}

func poll(ok func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

func (n *Nginx) read(name string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatalf("nginxtest: %s", err)
	}
	return string(text)
}

// find returns nginx's path. Without one it ends the test.
func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("nginx is not installed")
	}
	t.Skip("nginx is not installed")
	return ""
}
