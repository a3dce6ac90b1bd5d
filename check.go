package main

import (
	"fmt"
	"os"

	"stile/decide"
)

func check(args []string) int {
	f := flags("check", "[-c FILE]", `Validates a configuration and everything it includes, and runs its [[expect]]s.
Prints every mistake with its line and the way out. Exit status 1: there are some.
`)
	file := f.String("c", "", "configuration `file`")
	if status, done := parse(f, args); done {
		return status
	}
	cfg, name, ok := load(*file)
	if !ok {
		return 1
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
	return 0
}
