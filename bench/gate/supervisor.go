package main

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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// render is one page that a backend has begun, as it has said itself.
type render struct {
	client, size string
	from, to     time.Time // to is zero if it never ended: the backend died of it
}

func (r *render) bytes() int64 { return bytesOf(r.size) }

func bytesOf(size string) int64 {
	for _, s := range sizes {
		if s.name == size {
			return s.bytes
		}
	}
	return 0
}

// supervisor keeps a backend running: one that dies is counted and started again.
type supervisor struct {
	dir, socket string
	limit       int64

	mu       sync.Mutex
	cmd      *exec.Cmd
	heard    chan struct{} // closed when all that it said has been read
	stopping bool
	deaths   int
	words    string // the last words of the last one that died
	peak     int64  // resident bytes, of all that ran
	renders  []*render
	open     map[string]*render // by client
	done     chan struct{}
}

// supervise starts a backend of the files in dir and waits until it serves.
func supervise(dir, socket string, limit int64) (*supervisor, error) {
	s := &supervisor{dir: dir, socket: socket, limit: limit, done: make(chan struct{})}
	if err := s.start(); err != nil {
		return nil, err
	}
	go s.keep()
	return s, s.ready()
}

func (s *supervisor) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "backend", "-dir", s.dir, "-socket", s.socket, "-limit", strconv.FormatInt(s.limit, 10))
	cmd.Env = append(os.Environ(), "GOGC=100", "GOMEMLIMIT=off")
	if _, err := cmd.StdinPipe(); err != nil { // it ends when this program does
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd.Stdout, cmd.Stderr = in, new(firstBytes)
	if err := cmd.Start(); err != nil {
		out.Close()
		return err
	}
	heard := make(chan struct{})
	s.mu.Lock()
	s.cmd, s.heard, s.open = cmd, heard, map[string]*render{}
	if s.stopping { // since the last one died
		cmd.Process.Kill()
	}
	s.mu.Unlock()
	go s.watch(cmd)
	go func() {
		defer close(heard)
		defer out.Close()
		s.listen(out)
	}()
	return nil
}

// keep waits for the end of each backend, and starts the next.
func (s *supervisor) keep() {
	defer close(s.done)
	for {
		s.mu.Lock()
		cmd, heard := s.cmd, s.heard
		s.mu.Unlock()
		err := cmd.Wait()
		<-heard
		s.mu.Lock()
		if s.stopping {
			s.mu.Unlock()
			return
		}
		s.deaths++
		s.words = lastWords(cmd, err)
		s.mu.Unlock()
		if err := s.start(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: starting the backend again:", err)
			return
		}
	}
}

// lastWords is why a process died: its own words, or a signal.
func lastWords(cmd *exec.Cmd, err error) string {
	if b, ok := cmd.Stderr.(*firstBytes); ok {
		if m := reFatal.FindString(b.String()); m != "" {
			return m
		}
	}
	return fmt.Sprint(err)
}

var reFatal = regexp.MustCompile(`(?m)^(fatal error|panic|runtime): .*$`)

// firstBytes keeps the beginning of what is written.
type firstBytes struct{ bytes.Buffer }

func (f *firstBytes) Write(b []byte) (int, error) {
	f.Buffer.Write(b[:min(len(b), 4096-min(f.Len(), 4096))])
	return len(b), nil
}

// listen reads what a backend says, until it is gone.
func (s *supervisor) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 4 {
			continue // it died in the middle of it
		}
		if n, err := strconv.ParseInt(f[3], 10, 64); err == nil {
			s.note(f[0], f[1], f[2], time.Unix(0, n))
		}
	}
}

func (s *supervisor) note(what, client, size string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := s.open[client]; {
	case what == "begin":
		r := &render{client: client, size: size, from: at}
		s.open[client] = r
		s.renders = append(s.renders, r)
	case r != nil:
		r.to = at
		delete(s.open, client)
	}
}

// watch notes how much memory a backend has ever held, until it is gone.
func (s *supervisor) watch(cmd *exec.Cmd) {
	for {
		peak, _, err := memory(cmd.Process.Pid)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.peak = max(s.peak, peak)
		over := s.cmd != cmd
		s.mu.Unlock()
		if over {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// memory is the most that a process has ever held resident, and what RLIMIT_DATA counts
// now, in bytes.
func memory(pid int) (peak, data int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for _, m := range reMemory.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseInt(string(m[2]), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if string(m[1]) == "VmHWM" {
			peak = n << 10
		} else {
			data = n << 10
		}
	}
	if peak == 0 {
		return 0, 0, fmt.Errorf("process %d is over", pid)
	}
	return peak, data, nil
}

var reMemory = regexp.MustCompile(`(?m)^(VmHWM|VmData):\s+(\d+) kB$`)

// memoryNow is memory of the backend that runs.
func (s *supervisor) memoryNow() (peak, data int64, err error) {
	s.mu.Lock()
	pid := s.cmd.Process.Pid
	s.mu.Unlock()
	return memory(pid)
}

// ready waits until the backend answers.
func (s *supervisor) ready() error {
	for range 500 {
		if _, err := s.get("/ready", ""); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("the backend does not answer: %s", s.words)
}

// get asks the backend itself, without nginx.
func (s *supervisor) get(path, client string) (string, error) {
	c := http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.socket)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequest("GET", "http://backend"+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Real-IP", client)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(body), err
}

// account is what a supervisor has seen.
type account struct {
	deaths  int
	words   string
	peak    int64
	renders []*render
}

// account is complete after stop.
func (s *supervisor) account() account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return account{s.deaths, s.words, s.peak, slices.Clone(s.renders)}
}

// stop ends the backend, and then tells what it saw.
func (s *supervisor) stop() account {
	if peak, _, err := s.memoryNow(); err == nil {
		s.mu.Lock()
		s.peak = max(s.peak, peak)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.stopping = true
	s.cmd.Process.Kill()
	s.mu.Unlock()
	<-s.done
	return s.account()
}
