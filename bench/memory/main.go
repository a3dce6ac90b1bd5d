// Command memory sprays a running stile with distinct addresses and prints its resident
// memory on the way: it must be flat.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"stile/bench/child"
)

var (
	program = flag.String("stile", "stile", "the program")
	number  = flag.Int("n", 1_000_000, "distinct addresses for each of /check and /challenge")
	conns   = flag.Int("c", 64, "connections, as many as nginx keeps")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "stile-memory-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	file := filepath.Join(dir, "stile.toml")
	text := fmt.Sprintf("[listen]\ncheck = \"unix:%s\"\nadmin = \"unix:%s/a\"\nlease = \"unix:%s/l\"\n[key]\nfile = \"%s/key\"\n[state]\ndir = \"%s\"\n", socket, dir, dir, dir, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	var programs child.Group
	defer programs.Stop()
	pid, err := programs.Start(io.Discard, *program, "serve", "-c", file)
	if err != nil {
		return err
	}
	if err := child.Listening("unix", socket); err != nil {
		return err
	}
	report := func(what string, done int) error {
		mb, err := resident(pid)
		if err != nil {
			return err
		}
		fmt.Printf("%-12s %9d addresses %7.1f MB resident\n", what, done, mb)
		return nil
	}
	if err := report("at start", 0); err != nil {
		return err
	}
	for _, path := range []string{"/check", "/challenge"} {
		const steps = 5
		for step := range steps {
			from, to := *number*step/steps, *number*(step+1)/steps
			if err := spray(socket, path, from, to); err != nil {
				return err
			}
			if err := report(path, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// spray sends one request for each number from an address of its own.
func spray(socket, path string, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	var group sync.WaitGroup
	errs := make(chan error, *conns)
	for range *conns {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := client(socket, path, &next, to); err != nil {
				errs <- err
			}
		}()
	}
	group.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func client(socket, path string, next *atomic.Int64, to int) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		n := int(next.Add(1) - 1)
		if n >= to {
			return nil
		}
		addr := fmt.Sprintf("%d.%d.%d.%d", 1+n>>24, n>>16&255, n>>8&255, n&255)
		if n%2 == 1 {
			addr = fmt.Sprintf("2001:db8:%x:%x::1", n>>16, n&0xFFFF)
		}
		_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: stile\r\nX-Original-URI: /page/%d\r\nX-Original-Method: GET\r\nX-Real-IP: %s\r\nX-Request-ID: %032x\r\n"+
			"X-Stile-Verdict: challenge;level=1\r\nAccept: text/html\r\nUser-Agent: spray\r\n\r\n", path, n, addr, n)
		if err != nil {
			return err
		}
		if err := answer(r); err != nil {
			return err
		}
	}
}

// answer reads one answer to its end.
func answer(r *bufio.Reader) error {
	length := 0
	status, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 ") {
		return errors.New("no answer: " + status)
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\r\n" {
			break
		}
		if v, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(v)); err != nil {
				return err
			}
		}
	}
	_, err = io.CopyN(io.Discard, r, int64(length))
	return err
}

// resident is the resident memory of a process in MB.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("no VmRSS")
}
