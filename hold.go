package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stile/config"
)

// Exit statuses of hold's own, besides 2; every other one is the command's. They are those
// of sysexits.h and of a shell.
const (
	exitUnavailable = 69  // EX_UNAVAILABLE: the daemon cannot be reached
	exitTempFail    = 75  // EX_TEMPFAIL: --wait is over
	exitConfig      = 78  // EX_CONFIG: the configuration is broken, or not the daemon's
	exitNotRunnable = 126 // the command is there, but is no program, or not for us
	exitNoCommand   = 127
	exitSignal      = 128 // and the number of the signal that the command died of
)

func hold(args []string) int {
	f := flags("hold", "--gate NAME --cost SIZE [-c FILE] [--wait DURATION] -- COMMAND [ARG...]", `Runs a batch job inside a gate's budget: waits its turn, then runs COMMAND and holds a
lease of that size until COMMAND has ended. Visitors' requests have the rest meanwhile.

Signals are passed on to COMMAND, and its exit status is that of hold: 128 and the
signal's number if it died of one. If the daemon goes away, COMMAND goes on, and hold
asks for another lease until it has one. The lease ends with hold, however that ends:
after kill -9 COMMAND goes on without one.

Exit statuses of hold's own: 69 the daemon cannot be reached; 75 --wait is over; 78 the
configuration is broken, or not the one that the daemon runs with; 126 and 127 COMMAND
cannot be run; 2 hold was called wrongly.
`)
	file := f.String("c", "", "configuration `file`")
	gate := f.String("gate", "", "`name` of the gate")
	cost := f.String("cost", "", "what the job costs: a `size` in the unit of the gate's budget, such as 4MiB, 2s or 1")
	var patience time.Duration
	f.Func("wait", "give up after this `duration`, such as 10m; default: never", func(s string) (err error) {
		if patience, err = time.ParseDuration(s); err == nil && patience <= 0 {
			err = errors.New("want more than 0")
		}
		return err
	})
	if status, done := parse(f, args); done {
		return status
	}
	if *gate == "" || *cost == "" || f.NArg() == 0 {
		f.Usage()
		return 2
	}
	cfg, name, ok := load(*file)
	if !ok {
		return exitConfig
	}
	if err := checkHold(cfg, cmp.Or(name, defaultFile), *gate, *cost); err != nil {
		fmt.Fprintln(os.Stderr, "stile:", err)
		return 2
	}
	path, status, err := findCommand(f.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "stile:", err)
		return status
	}
	ctx := context.Background()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	l := newLine(cfg.Listen.Admin, *gate, *cost)
	lease, status := l.wait(ctx)
	if lease == nil {
		return status
	}
	ctx, over := context.WithCancel(context.Background())
	defer over()
	go l.keep(ctx, lease)
	return runCommand(path, f.Args())
}

// checkHold finds what is wrong with a gate's name and a cost without asking the daemon.
func checkHold(cfg *config.Config, file, gate, cost string) error {
	names := []string{}
	for i := range cfg.Gates {
		g := &cfg.Gates[i]
		if g.Name != gate {
			names = append(names, fmt.Sprintf("%q", g.Name))
			continue
		}
		n, err := g.Unit.Parse(cost)
		if err == nil && n < 1 {
			err = errors.New("want more than nothing")
		}
		if err != nil {
			return fmt.Errorf("--cost %q for gate %q: %w", cost, gate, err)
		}
		return nil
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no gate %q: %s has none at all", gate, file)
	}
	return fmt.Errorf("there is no gate %q: %s has %s", gate, file, strings.Join(names, ", "))
}

// findCommand is the program that a shell would run, or a shell's status if there is none.
func findCommand(name string) (path string, status int, err error) {
	path, err = exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // who has . in PATH means it
		return path, 0, nil
	case errors.Is(err, fs.ErrPermission):
		return "", exitNotRunnable, fmt.Errorf("%s: it is not executable", name)
	case !strings.Contains(name, "/"):
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
				return "", exitNotRunnable, fmt.Errorf("%s: it is not executable", filepath.Join(dir, name))
			}
		}
	}
	if st, err := os.Stat(name); err == nil && st.IsDir() && strings.Contains(name, "/") {
		return "", exitNotRunnable, fmt.Errorf("%s: it is a folder", name)
	}
	return "", exitNoCommand, fmt.Errorf("%s: there is no such command", name)
}

// line is where to stand in line for a gate.
type line struct {
	network, address string
	gate, target     string
}

func newLine(admin, gate, cost string) *line {
	l := &line{network: "tcp", address: admin, gate: gate}
	if file, ok := strings.CutPrefix(admin, "unix:"); ok {
		l.network, l.address = "unix", file
	}
	l.target = "/hold?" + url.Values{"gate": {gate}, "cost": {cost}}.Encode()
	return l
}

// dialTime bounds the way to the daemon, not the wait in its line.
const dialTime = 5 * time.Second

// errLost: the daemon was there, and went away without an answer.
var errLost = errors.New("the daemon has gone away")

// refusal is an answer that is no lease.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// later: to ask again may help.
func (r *refusal) later() bool { return r.status >= 500 }

// ask stands in line until there is a lease. That lasts until the connection ends.
func (l *line) ask(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, l.network, l.address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r, err := l.exchange(c)
	if err == nil && r.StatusCode == http.StatusOK && stop() {
		return c, nil
	}
	if err == nil && r.StatusCode != http.StatusOK {
		c.SetReadDeadline(time.Now().Add(dialTime))
		text, _ := io.ReadAll(io.LimitReader(r.Body, 500))
		err = &refusal{r.StatusCode, cmp.Or(strings.TrimSpace(string(text)), r.Status)}
	}
	c.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, err
}

func (l *line) exchange(c net.Conn) (*http.Response, error) {
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: stile\r\nX-Stile: hold\r\nUser-Agent: stile/%s\r\nContent-Length: 0\r\n\r\n", l.target, version)
	if err != nil {
		return nil, errLost
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, errLost
	}
	return r, nil
}

const (
	// A wait that takes longer is said, sooner if somebody looks.
	quietTime    = time.Second
	quietLooking = 200 * time.Millisecond

	// outage is how long the daemon may be away while a job waits, as for a restart.
	outage = 30 * time.Second

	// lossesAtOnce is how often it may go away right after it was asked.
	lossesAtOnce = 5
)

// wait stands in line until there is a lease, or for none returns an exit status.
func (l *line) wait(ctx context.Context) (net.Conn, int) {
	began, quiet := time.Now(), quietTime
	if st, err := os.Stderr.Stat(); err == nil && st.Mode()&fs.ModeCharDevice != 0 {
		quiet = quietLooking
	}
	said := time.AfterFunc(quiet, func() { say("waiting for its turn in gate %q", l.gate) })
	defer said.Stop()
	waited := func() time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
	var (
		b     backOff
		seen  time.Time // when the daemon was there
		short int       // times in a row that it went away at once
		last  string    // what was said
	)
	for {
		asked := time.Now()
		c, err := l.ask(ctx)
		if err == nil {
			if !said.Stop() {
				say("waited %v", waited())
			}
			return c, 0
		}
		if ctx.Err() != nil {
			say("no turn in gate %q for %v", l.gate, waited())
			return nil, exitTempFail
		}
		no, refused := errors.AsType[*refusal](err)
		switch lost := errors.Is(err, errLost); {
		case refused && !no.later():
			say("the daemon at %s says: %v: does it run with this configuration?", l.address, no)
			return nil, exitConfig
		case lost && short == lossesAtOnce && time.Since(asked) < time.Second,
			!lost && !refused && time.Since(seen) > outage:
			say("the daemon cannot be reached: %v%s", err, wayOut(err))
			return nil, exitUnavailable
		case lost || refused:
			seen = time.Now()
			if time.Since(asked) > time.Second {
				short, b = 0, backOff{}
			}
			if lost {
				short++
			}
			if err.Error() != last {
				last = err.Error()
				say("%v: asking again", err)
			}
		}
		b.pause(ctx)
	}
}

// wayOut is what to do about a daemon that cannot be reached.
func wayOut(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ": run this as root, or as the user that the daemon runs as"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return ": does it run, and has it this [listen] admin?"
	}
	return ""
}

// keep watches over the lease while the job runs. If that ends early it stands in line
// again: the job goes on meanwhile.
func (l *line) keep(ctx context.Context, c net.Conn) {
	for {
		io.Copy(io.Discard, c) // until it ends
		c.Close()
		if ctx.Err() != nil {
			return
		}
		say("the daemon has gone away: the command goes on without a lease, and another is asked for")
		var err error
		for b := (backOff{}); ; {
			b.pause(ctx)
			if c, err = l.ask(ctx); err == nil {
				break
			}
			if no, ok := errors.AsType[*refusal](err); ok && !no.later() {
				say("the daemon says: %v: the command goes on without a lease", no)
				return
			}
			if ctx.Err() != nil {
				return
			}
		}
		say("the command has a lease again")
	}
}

// backOff spaces attempts: a quarter of a second at first, up to 10 s, and never all
// jobs' at once.
type backOff struct{ next time.Duration }

func (b *backOff) pause(ctx context.Context) {
	b.next = min(max(b.next*2, 250*time.Millisecond), 10*time.Second)
	t := time.NewTimer(b.next/2 + rand.N(b.next))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func say(format string, a ...any) {
	fmt.Fprintf(os.Stderr, "stile: "+format+"\n", a...)
}

// runCommand runs a program to its end, and returns the status to exit with.
//
// It stays in our process group: so a terminal's keys, job control and a pipeline's other
// programs do with it as if we were not there.
func runCommand(path string, argv []string) int {
	cmd := &exec.Cmd{Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	// A message that nobody reads any more must not end us; and to ignore SIGPIPE would be
	// for the command, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 64)
	for _, s := range passedOn {
		if !signal.Ignored(s) { // under nohup it stays so, for both
			signal.Notify(signals, s)
		}
	}
	if err := cmd.Start(); err != nil {
		say("running %v", err)
		if errors.Is(err, fs.ErrNotExist) {
			return exitNoCommand
		}
		return exitNotRunnable
	}
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- await(cmd.Process.Pid) }()
	for {
		select {
		case s := <-signals:
			switch s {
			case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP:
				if p := where(); p.group == p.foreground {
					continue // it was a key, and the command has the signal already
				}
			}
			cmd.Process.Signal(s)
		case w := <-ended:
			if w.Signaled() {
				return exitSignal + int(w.Signal())
			}
			return w.ExitStatus()
		}
	}
}

var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGTSTP, syscall.SIGCONT}

// await waits for the command to end. Under a shell that has job control we stop when the
// command stops, or the shell would not notice; it continues both.
func await(pid int) syscall.WaitStatus {
	for {
		var w syscall.WaitStatus
		_, err := syscall.Wait4(pid, &w, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			panic("BUG: waiting for the command: " + err.Error())
		case !w.Stopped():
			return w
		case where().terminal != 0:
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	}
}

// place is where a process is among the others.
type place struct {
	group      int
	terminal   int // 0: it has none
	foreground int // the group that the terminal's Ctrl-C, Ctrl-\ and Ctrl-Z are for
}

// where is our place. Go does not tell who has sent a signal: so what a key may have sent
// to our whole group is taken for that, as a second Ctrl-C often means more than the first.
func where() (p place) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return place{group: -1}
	}
	// pid (name) state ppid pgrp session tty_nr tpgid: proc(5)
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) > 5 {
		p.group, _ = strconv.Atoi(f[2])
		p.terminal, _ = strconv.Atoi(f[4])
		p.foreground, _ = strconv.Atoi(f[5])
	}
	return p
}
