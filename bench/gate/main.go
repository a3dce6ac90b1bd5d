// Command gate shows what a gate does for a backend that a swarm would kill, in ratios of
// one run. It starts everything itself: nginx with the shipped files, the real stile,
// and a backend that decodes real JSON within a limit that the kernel holds.
//
//	gate swarm  -stile FILE    with and without the gate: deaths, memory, throughput
//	gate starve -stile FILE    a request larger than the budget, beside small ones
//	gate vanish -stile FILE    clients that go away, waiting or admitted, and slow readers
//
// It ends with status 1 if a bound is broken.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

var (
	flags = flag.NewFlagSet("gate", flag.ExitOnError)
	stile = flags.String("stile", "", "the stile to measure")
	seed  = flags.Uint64("seed", 1, "of the files, the addresses and the order")
	keep  = flags.String("keep", "", "a directory for files and logs, which is left; default: a temporary one, removed")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	what := ""
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	var err error
	switch what {
	case "backend":
		err = backendRole(os.Args[2:])
	case "swarm":
		err = figure(ctx, swarmFigure)
	case "starve":
		err = figure(ctx, starveFigure)
	case "vanish":
		err = figure(ctx, vanishFigure)
	default:
		err = errors.New("want swarm, starve or vanish")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// backendRole is what supervise starts.
func backendRole(args []string) error {
	f := flag.NewFlagSet("backend", flag.ExitOnError)
	dir := f.String("dir", "", "the files' directory")
	socket := f.String("socket", "", "where to listen")
	limit := f.Int64("limit", 0, "of memory, in bytes")
	f.Parse(args)
	return serveBackend(*dir, *socket, *limit)
}

// figure runs one of the figures in a directory of its own.
func figure(ctx context.Context, run func(ctx context.Context, dir string) error) error {
	flags.Parse(os.Args[2:])
	dir := *keep
	if dir == "" {
		temp, err := os.MkdirTemp("", "stile-gate-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, %d processors, %s; load average before: %s\n\n", runtime.Version(), runtime.NumCPU(), runtime.GOARCH, strings.Join(strings.Fields(string(load))[:3], " "))
	err := run(ctx, dir)
	fmt.Printf("again: bench/gate.sh %s\n", strings.Join(again(), " "))
	return err
}

// again is the arguments of this run, without the files of its own.
func again() (args []string) {
	args = append(args, os.Args[1])
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "stile" && f.Name != "keep" {
			args = append(args, "-"+f.Name, "'"+f.Value.String()+"'")
		}
	})
	return args
}

// bounds collects what was to hold and did not.
type bounds struct{ broken []error }

// hold prints one line of a table: what was measured, and whether it is as it should be.
func (b *bounds) hold(ok bool, format string, args ...any) {
	line, mark := fmt.Sprintf(format, args...), "  "
	if !ok {
		mark = "! "
		b.broken = append(b.broken, errors.New(line))
	}
	fmt.Println(mark + line)
}

func (b *bounds) err() error {
	if len(b.broken) == 0 {
		return nil
	}
	return fmt.Errorf("%d bounds are broken:\n%w", len(b.broken), errors.Join(b.broken...))
}
