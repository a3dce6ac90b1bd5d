package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The job that hold runs in these tests is this binary. It says which signals reach it,
// and does what it is told on its standard input: "exit N", "kill N" (itself), "say WORD".
func init() {
	if len(os.Args) != 2 || os.Args[1] != "test-job" {
		return
	}
	signals := make(chan os.Signal, 64)
	for _, s := range passedOn {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		lines <- "exit 0"
	}()
	fmt.Println("pid", os.Getpid())
	for {
		select {
		case s := <-signals:
			fmt.Println("got", s)
		case l := <-lines:
			verb, what, _ := strings.Cut(l, " ")
			n, _ := strconv.Atoi(what)
			switch verb {
			case "exit":
				os.Exit(n)
			case "kill":
				signal.Reset(syscall.Signal(n))
				syscall.Kill(os.Getpid(), syscall.Signal(n))
			default:
				fmt.Println(what)
			}
		}
	}
}

const holdRules = `include = []
[[gate]]
name = "decode"
budget = "16MiB"
cost = "4MiB"
[[gate]]
name = "jobs"
budget = 1
`

// holdSite is a daemon and what a job needs to find it.
type holdSite struct {
	t    *testing.T
	conf string
	http *http.Client
	run  *program
}

func newHoldSite(t *testing.T) *holdSite {
	t.Helper()
	dir := t.TempDir()
	s := &holdSite{t: t, conf: filepath.Join(dir, "stile.toml")}
	admin := filepath.Join(dir, "admin")
	text := holdRules + fmt.Sprintf("[listen]\ncheck = \"unix:%s/check\"\nlease = \"unix:%[1]s/lease\"\nadmin = \"unix:%s\"\n[key]\nfile = \"%[1]s/key\"\n[state]\ndir = \"%[1]s\"\n", dir, admin)
	if err := os.WriteFile(s.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", admin)
		}}}
	s.start()
	return s
}

// start starts the daemon.
func (s *holdSite) start() {
	s.t.Helper()
	s.run = begin(s.t, program{}, "serve", "-c", s.conf)
	s.run.says("msg=ready")
}

// metric is a metric of the daemon's.
func (s *holdSite) metric(name string) float64 {
	s.t.Helper()
	r, err := s.http.Get("http://stile/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		}
	}
	s.t.Fatalf("there is no metric %s", name)
	return 0
}

// until waits for the daemon to have counted something.
func (s *holdSite) until(metric string, is float64) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); s.metric(metric) != is; {
		if time.Now().After(end) {
			s.t.Fatalf("%s is %v, want %v", metric, s.metric(metric), is)
		}
	}
}

// program is this program, running.
type program struct {
	t        *testing.T
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err *transcript
	attr     *syscall.SysProcAttr
	tty      *os.File // its terminal; nil: pipes
}

// begin starts it. It is killed when the test ends.
func begin(t *testing.T, p program, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return p.start(t, exec.Command(self, args...))
}

func (p program) start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p.t, p.cmd = t, cmd
	cmd.Env = append(os.Environ(), "STILE_TEST_RUN=1")
	cmd.SysProcAttr = p.attr
	// Not cmd.StdoutPipe: the job, which may outlive hold, has the pipe as well.
	var ours []*os.File
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	out, err := p.tty, (*os.File)(nil)
	if p.tty == nil {
		var childIn, childOut, in *os.File
		childIn, in = pipe()
		out, childOut = pipe()
		cmd.Stdin, cmd.Stdout, p.in = childIn, childOut, in
		ours = append(ours, childIn, childOut)
	}
	err, childErr := pipe()
	cmd.Stderr = childErr
	ours = append(ours, childErr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range ours {
		f.Close()
	}
	p.out, p.err = newTranscript(out), newTranscript(err)
	t.Cleanup(func() {
		if p.in != nil {
			p.in.Close() // ends the job
		}
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%q said:\n%s", cmd.Args[1:], p.err.all())
		}
	})
	return &p
}

// job runs a job of that cost in the gate decode.
func (s *holdSite) job(cost string, more ...string) *program {
	s.t.Helper()
	return begin(s.t, program{}, s.args(cost, more...)...)
}

func (s *holdSite) args(cost string, more ...string) []string {
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	args := append([]string{"hold", "-c", s.conf, "--gate", "decode", "--cost", cost}, more...)
	return append(args, "--", self, "test-job")
}

func (p *program) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// pid waits for the job to run, and is its process id.
func (p *program) pid() int {
	p.t.Helper()
	line := p.out.until(p.t, "pid ")
	pid, err := strconv.Atoi(strings.TrimSpace(line[len("pid "):]))
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

// says waits for a line on its standard error.
func (p *program) says(what string) { p.t.Helper(); p.err.until(p.t, what) }

// ends waits for it to end with a status.
func (p *program) ends(status int) {
	p.t.Helper()
	late := time.AfterFunc(time.Minute, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("it ended with %d, want %d: %s", got, status, p.err.all())
	}
}

// transcript is what somebody has said, line by line.
type transcript struct {
	lines chan string
	mu    chan struct{} // a mutex
	text  bytes.Buffer
}

func newTranscript(from *os.File) *transcript {
	x := &transcript{lines: make(chan string, 1000), mu: make(chan struct{}, 1)}
	go func() {
		defer close(x.lines)
		defer from.Close()
		for in := bufio.NewScanner(from); in.Scan(); {
			x.mu <- struct{}{}
			fmt.Fprintln(&x.text, in.Text())
			<-x.mu
			x.lines <- in.Text()
		}
	}()
	return x
}

func (x *transcript) all() string {
	x.mu <- struct{}{}
	defer func() { <-x.mu }()
	return x.text.String()
}

// until reads on to a line that has what in it.
func (x *transcript) until(t *testing.T, what string) string {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case l, ok := <-x.lines:
			if !ok {
				t.Fatalf("it has never said %q, but:\n%s", what, x.all())
			}
			if strings.Contains(l, what) {
				return l
			}
		case <-late:
			t.Fatalf("it does not say %q, but:\n%s", what, x.all())
		}
	}
}

// next is the next line.
func (x *transcript) next(t *testing.T, want string) {
	t.Helper()
	select {
	case l, ok := <-x.lines:
		if l = strings.TrimRight(l, "\r"); !ok || l != want {
			t.Fatalf("it says %q, want %q", l, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("it does not say %q", want)
	}
}

func TestHoldIsTheCommand(t *testing.T) {
	s := newHoldSite(t)
	p := s.job("4MiB")
	p.pid()
	s.until(`stile_gate_inflight_bytes{gate="decode"}`, 4<<20)
	p.tell("say hello")
	p.out.next(t, "hello")
	p.tell("exit 7")
	p.ends(7)
	if said := p.err.all(); said != "" {
		t.Errorf("it has said %q", said)
	}
	s.until(`stile_gate_inflight_bytes{gate="decode"}`, 0)

	for _, n := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGHUP} {
		p = s.job("4MiB")
		p.pid()
		p.tell(fmt.Sprint("kill ", int(n)))
		p.ends(128 + int(n))
	}
	p = s.job("4MiB")
	p.in.Close() // the end of standard input reaches it
	p.pid()
	p.ends(0)
}

func TestHoldIsCalledWrongly(t *testing.T) {
	conf := write(t, holdRules)
	f := func(want int, says string, args ...string) {
		t.Helper()
		out, errs, status := stile(t, append([]string{"hold", "-c", conf}, args...)...)
		if status != want || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %d, …%s…", args, status, out, errs, want, says)
		}
	}
	f(2, "usage: stile hold", "--gate", "decode", "--cost", "1MiB")
	f(2, "usage: stile hold", "--gate", "decode", "--", "true", "-h")
	f(2, "usage: stile hold", "--cost", "1MiB", "true")
	f(2, `there is no gate "decod": `+conf+` has "decode", "jobs"`, "--gate", "decod", "--cost", "1MiB", "true")
	f(2, `--cost "1s" for gate "decode": the budget is in bytes`, "--gate", "decode", "--cost", "1s", "true")
	f(2, `--cost "4M" for gate "decode"`, "--gate", "decode", "--cost", "4M", "true")
	f(2, `--cost "0B" for gate "decode": want more than nothing`, "--gate", "decode", "--cost", "0B", "true")
	f(2, `--cost "1MiB" for gate "jobs"`, "--gate", "jobs", "--cost", "1MiB", "true")
	f(2, "want more than 0", "--gate", "jobs", "--cost", "1", "--wait", "0s", "true")
	f(2, "-wait", "--gate", "jobs", "--cost", "1", "--wait", "5", "true")

	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Before it waits.
	f(127, "no such command", "--gate", "jobs", "--cost", "1", "no-such-command")
	f(127, "no such command", "--gate", "jobs", "--cost", "1", "--", filepath.Join(dir, "none"), "-h")
	f(126, "not executable", "--gate", "jobs", "--cost", "1", text)
	f(126, "folder", "--gate", "jobs", "--cost", "1", dir+"/")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	f(126, "not executable", "--gate", "jobs", "--cost", "1", "text")

	if _, errs, status := stile(t, "hold", "-c", write(t, "nonsense"), "--gate", "g", "--cost", "1", "true"); status != 78 || !strings.Contains(errs, "stile.toml:1:") {
		t.Errorf("a broken configuration: %d %s", status, errs)
	}
	if _, errs, status := stile(t, "hold", "-c", write(t, "include = []"), "--gate", "g", "--cost", "1", "true"); status != 2 || !strings.Contains(errs, "none at all") {
		t.Errorf("no gates: %d %s", status, errs)
	}
}

func TestHoldWithoutADaemon(t *testing.T) {
	dir := t.TempDir()
	f := func(admin, says string) {
		t.Helper()
		began := time.Now()
		_, errs, status := stile(t, "hold", "-c", write(t, fmt.Sprintf("%s[listen]\nadmin = %q\n", holdRules, admin)), "--gate", "jobs", "--cost", "1", "--", "echo", "ran")
		if status != 69 || !strings.Contains(errs, says) {
			t.Errorf("%s: status %d, %s", admin, status, errs)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %v to say so", admin, took)
		}
	}
	f("unix:"+dir+"/none", "no such file or directory: does it run")
	ln, err := net.Listen("unix", dir+"/stale")
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	f("unix:"+dir+"/stale", "connection refused: does it run")
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port.Close()
	f(port.Addr().String(), "connection refused: does it run")

	// Something else is there, which hangs up.
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	f(other.Addr().String(), "cannot be reached")
}

func TestHoldWaitsItsTurn(t *testing.T) {
	s := newHoldSite(t)
	first := s.job("16MiB")
	first.pid()
	second := s.job("16MiB")
	second.says(`waiting for its turn in gate "decode"`)

	late := s.job("1MiB", "--wait", "300ms")
	late.says(`no turn in gate "decode" for `)
	late.ends(75)
	if out := late.out.all(); out != "" {
		t.Errorf("its job has run: %s", out)
	}

	first.tell("exit 0")
	first.ends(0)
	second.pid()
	second.says("waited ")
	second.tell("exit 3")
	second.ends(3)
	if said := strings.Count(second.err.all(), "\n"); said != 2 {
		t.Errorf("it has said %d lines:\n%s", said, second.err.all())
	}
}

// The lease ends with hold even if that cannot end it; the job is nobody's then.
func TestHoldIsKilled(t *testing.T) {
	s := newHoldSite(t)
	first := s.job("16MiB")
	job := first.pid()
	second := s.job("16MiB")
	second.says("waiting")
	first.signal(syscall.SIGKILL)
	second.pid()
	if err := syscall.Kill(job, 0); err != nil {
		t.Errorf("the job has ended, too: %v", err)
	}
	// One that is killed while it waits leaves the queue.
	third := s.job("16MiB")
	third.says("waiting")
	third.signal(syscall.SIGTERM)
	third.cmd.Wait()
	fourth := s.job("16MiB")
	fourth.says("waiting")
	second.tell("exit 0")
	fourth.pid()
}

func TestHoldPassesSignalsOn(t *testing.T) {
	s := newHoldSite(t)
	p := begin(t, program{attr: &syscall.SysProcAttr{Setsid: true}}, s.args("1MiB")...) // as cron does
	p.pid()
	for _, n := range passedOn {
		p.signal(n.(syscall.Signal))
		p.out.next(t, "got "+n.String())
	}
	p.tell("exit 9")
	p.ends(9)
}

// What nohup has made them ignore they ignore.
func TestHoldUnderNohup(t *testing.T) {
	s := newHoldSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := program{}.start(t, exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, self}, s.args("1MiB")...)...))
	job := p.pid()
	p.signal(syscall.SIGHUP)
	syscall.Kill(job, syscall.SIGHUP)
	p.signal(syscall.SIGUSR1)
	p.out.next(t, "got user defined signal 1")
	p.tell("exit 0")
	p.ends(0)
}

// A Ctrl-C reaches the job once, not twice.
func TestHoldAtATerminal(t *testing.T) {
	s := newHoldSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, keys := atTerminal(t, exec.Command(self, s.args("1MiB")...))
	p.pid()
	for range 2 {
		press(t, keys, "\x03")
		p.out.until(t, "got interrupt")
		p.signal(syscall.SIGUSR1) // after whatever hold has sent before
		p.out.next(t, "got user defined signal 1")
	}
	press(t, keys, "exit 4\n")
	p.ends(4)
}

// Ctrl-Z stops both, and fg continues both.
func TestHoldUnderJobControl(t *testing.T) {
	s := newHoldSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := s.args("1MiB")
	args = append([]string{"--norc", "-i", "-c", `"$0" "$@"; echo stopped $(jobs -s | wc -l); fg >/dev/null; echo ended $?`, self},
		append(args[:len(args)-2], "cat")...)
	p, keys := atTerminal(t, exec.Command(needed(t, "bash"), args...))
	press(t, keys, "one\n")
	p.out.until(t, "one") // the terminal's echo
	p.out.until(t, "one")
	press(t, keys, "\x1a")
	p.out.until(t, "stopped 1")
	press(t, keys, "two\n")
	p.out.until(t, "two")
	p.out.until(t, "two")
	press(t, keys, "\x04")
	p.out.until(t, "ended 0")
	p.ends(0)
}

// needed finds a program. Where it is missing, CI fails and a laptop skips.
func needed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI must have it", name)
	}
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// atTerminal starts a program at a terminal of its own. Its standard error is a pipe.
func atTerminal(t *testing.T, cmd *exec.Cmd) (p *program, keys *os.File) {
	t.Helper()
	keys, tty := terminal(t)
	cmd.Stdin, cmd.Stdout = tty, tty
	p = program{tty: keys, attr: &syscall.SysProcAttr{Setsid: true, Setctty: true}}.start(t, cmd)
	tty.Close()
	return p, keys
}

func press(t *testing.T, keyboard *os.File, keys string) {
	t.Helper()
	if _, err := keyboard.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// terminal is a new one: the side of its keyboard and screen, and that of programs.
func terminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var n uint32
	for request, to := range map[uintptr]unsafe.Pointer{syscall.TIOCSPTLCK: unsafe.Pointer(new(int32)), syscall.TIOCGPTN: unsafe.Pointer(&n)} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keys.Fd(), request, uintptr(to)); errno != 0 {
			t.Fatal(errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// The daemon goes away: the job goes on, and has a lease again as soon as that can be.
func TestHoldOutlivesTheDaemon(t *testing.T) {
	s := newHoldSite(t)
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		p := s.job("12MiB")
		p.pid()
		waits := s.job("5MiB")
		waits.says("waiting")
		began := time.Now()
		s.run.signal(how)
		s.run.cmd.Wait()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the daemon took %v to end", took)
		}
		p.says("the command goes on without a lease")
		waits.says("asking again")
		p.tell("say still here")
		p.out.next(t, "still here")
		s.start()
		p.tell("exit 5")
		p.ends(5)
		waits.pid()
		waits.tell("exit 6")
		waits.ends(6)
	}
	p := s.job("12MiB")
	p.pid()
	s.run.signal(syscall.SIGKILL)
	s.run.cmd.Wait()
	s.start()
	p.says("the command has a lease again")
	s.until(`stile_gate_inflight_bytes{gate="decode"}`, 12<<20)
	p.tell("exit 7")
	p.ends(7)
	s.until(`stile_gate_inflight_bytes{gate="decode"}`, 0)
}
