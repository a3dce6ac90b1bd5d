// Command replay measures how much access log stile replay processes in a second of one
// core: the processor's time, which on a busy machine says more than the clock on the wall.
//
// What a core does in a second differs by machine and, on a shared one, by the minute. So a
// plain count of the same log, of addresses and targets in two Go maps, takes turns with it,
// and the ratio of the two is printed as well.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"stile/replay/replaytest"
)

var (
	program = flag.String("stile", "stile", "the program")
	policy  = flag.String("c", os.DevNull, "configuration; that of an empty file is the defaults, whatever this machine has")
	lines   = flag.Int("lines", 600_000, "of each log that is made")
	rounds  = flag.Int("rounds", 7, "how often each log is replayed: the median is printed")
	keep    = flag.String("keep", "", "keep the logs that are made in this `folder`")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(logs []string) error {
	if len(logs) == 0 {
		dir := *keep
		if dir == "" {
			var err error
			if dir, err = os.MkdirTemp("", "stile-bench-"); err != nil {
				return err
			}
			defer os.RemoveAll(dir)
		} else if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		var err error
		if logs, err = makeLogs(dir); err != nil {
			return err
		}
	}
	fmt.Printf("%-14s %7s %10s %9s %9s  %14s  %20s\n", "log", "MB", "lines", "targets", "addresses", "MB/core-second", "of a plain count's")
	for _, name := range logs {
		if err := measure(name); err != nil {
			return err
		}
	}
	return nil
}

func makeLogs(dir string) (names []string, err error) {
	for _, l := range []struct {
		name string
		log  replaytest.Log
	}{
		{"forge.log", replaytest.Log{}},
		{"distinct.log", replaytest.Log{Distinct: true}},
		{"timed.log", replaytest.Log{Timed: true}},
	} {
		l.log.Lines, l.log.Addresses, l.log.Seed = *lines, 20_000, 1
		name := filepath.Join(dir, l.name)
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		b := bufio.NewWriter(f)
		if err := l.log.Write(b); err != nil {
			return nil, err
		}
		if err := b.Flush(); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// measure replays and counts one log in turns.
func measure(name string) error {
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	size := float64(st.Size()) / 1e6
	var n counted
	var speeds, ratios []float64
	for range *rounds {
		spent, err := replayed(name)
		if err != nil {
			return err
		}
		before := own()
		if n, err = count(name); err != nil {
			return err
		}
		speeds = append(speeds, size/spent.Seconds())
		ratios = append(ratios, (own()-before).Seconds()/spent.Seconds())
	}
	fmt.Printf("%-14s %7.0f %10d %9d %9d  %14.0f  %20.2f\n", filepath.Base(name), size, n.lines, n.targets, n.addresses, median(speeds), median(ratios))
	return nil
}

// replayed is the processor's time of one replay.
func replayed(name string) (time.Duration, error) {
	c := exec.Command(*program, "replay", "-c", *policy, name)
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w", c, err)
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}

type counted struct{ lines, targets, addresses int }

// count is what is compared with: the lines of combined, taken apart no further than to
// count what is in them.
func count(name string) (n counted, err error) {
	f, err := os.Open(name)
	if err != nil {
		return n, err
	}
	defer f.Close()
	targets, addresses := map[string]int{}, map[string]int{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for {
		if !s.Scan() {
			n.targets, n.addresses = len(targets), len(addresses)
			return n, s.Err()
		}
		n.lines++
		address, rest, _ := bytes.Cut(s.Bytes(), []byte(" "))
		addresses[string(address)]++
		_, rest, _ = bytes.Cut(rest, []byte(`"`))
		_, rest, _ = bytes.Cut(rest, []byte(" "))
		target, _, _ := bytes.Cut(rest, []byte(" "))
		targets[string(target)]++
	}
}

// own is the processor's time of this program.
func own() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
