package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"stile/config"
	"stile/decide"
	"stile/nginx/lint"
	"stile/server"
)

func check(args []string) int {
	f := flags("check", "[-c FILE] [--nginx FILE|- [--here]]", `Validates a configuration and everything it includes, and runs its [[expect]]s.
Prints every mistake with its line and the way out. Exit status 1: there are some.

With --nginx it also reads what 'nginx -T' has written ("-": stdin) and names the
places where nginx keeps stile from protecting the site: the line, what is seen there,
and what to write.

    nginx -T | stile check --nginx -

Exit status 1: an error is among them, or the output cannot be read.
`)
	file := f.String("c", "", "configuration `file`")
	dump := f.String("nginx", "", "output of nginx -T: a `file`, or - for stdin")
	here := f.Bool("here", false, "with --nginx: it is this machine's nginx, so look at what else listens on this machine")
	if status, done := parse(f, args); done {
		return status
	}
	if f.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "stile: check: unexpected %q; the output of nginx -T is named with --nginx\n", f.Arg(0))
		return 2
	}
	said := false
	f.Visit(func(x *flag.Flag) { said = said || x.Name == "nginx" })
	if said && *dump == "" {
		fmt.Fprintln(os.Stderr, `stile: check: --nginx "": want a file with the output of nginx -T, or - for stdin`)
		return 2
	}
	if *here && *dump == "" {
		fmt.Fprintln(os.Stderr, "stile: --here is about the --nginx beside it")
		return 2
	}
	cfg, name, ok := load(*file)
	if !ok {
		return 1
	}
	if _, err := server.Places(cfg); err != nil {
		return fail(err)
	}
	if failed := decide.Expectations(cfg); len(failed) > 0 {
		for _, err := range failed {
			fmt.Fprintln(os.Stderr, err)
		}
		fmt.Fprintf(os.Stderr, "%d of %d [[expect]]s failed\n", len(failed), len(decide.Expects(cfg)))
		return 1
	}
	if name == "" {
		name = "the built-in defaults (no file at " + defaultFile + ")"
	}
	fmt.Printf("%s: ok: %d rules, %d meters, %d [[expect]]s hold\n", name, len(cfg.Rules), len(cfg.Meters), len(decide.Expects(cfg)))
	sayOldLists(cfg, time.Now())
	if *dump == "" {
		return 0
	}
	return checkNginx(*dump, cfg, *here)
}

// checkNginx prints what there is to say about the output of nginx -T.
func checkNginx(name string, cfg *config.Config, here bool) int {
	text, name, err := readDump(name)
	if err != nil {
		return fail(err)
	}
	o := lint.Options{Stile: cfg, Version: version, CPUs: runtime.NumCPU(), Backlog: backlog()}
	if here {
		o.Listening, o.Addresses = listening()
	}
	report, err := lint.Check(text, o)
	if err != nil {
		return fail(fmt.Errorf("%s %w", name, err))
	}
	fmt.Println()
	if err := report.Write(os.Stdout, colours(os.Stdout)); err != nil {
		return fail(err)
	}
	if report.Count(lint.Error) > 0 {
		return 1
	}
	return 0
}

// readDump reads a file, or stdin, and says what to call it.
func readDump(name string) ([]byte, string, error) {
	in, called := io.Reader(os.Stdin), "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, name, err
		}
		defer f.Close()
		in, called = f, name
	}
	text, err := io.ReadAll(io.LimitReader(in, lint.MaxDump+1))
	if err != nil {
		return nil, called, fmt.Errorf("reading %s: %w", called, err)
	}
	return text, called, nil
}

// backlog is how many connections the kernel keeps waiting. 0: not known.
func backlog() int {
	b, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// listening is what listens on this machine, and its addresses.
func listening() (list []netip.AddrPort, addrs []netip.Addr) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "stile: what listens here is not known: %v\n", err)
		}
		list = append(list, lint.ParseListening(string(b))...)
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		fmt.Fprintf(os.Stderr, "stile: this machine's addresses are not known: %v\n", err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return list, addrs
}

// colours: a person looks at it, and has not said that colours are unwanted (no-color.org).
func colours(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&fs.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
