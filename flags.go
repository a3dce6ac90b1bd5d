package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"stile/config"
)

// defaultFile is read when -c is not given; without it the defaults hold.
const defaultFile = "/etc/stile/stile.toml"

// flags is a flag set with a help text of our own.
func flags(name, args, help string) *flag.FlagSet {
	f := flag.NewFlagSet("stile "+name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "usage: stile %s %s\n\n%s\n", name, args, help)
		f.PrintDefaults()
	}
	return f
}

// parse reads a command's flags. done: the command has nothing more to do, and ends
// with status.
func parse(f *flag.FlagSet, args []string) (status int, done bool) {
	for _, a := range args {
		if a == "--" { // what follows is another program's
			break
		}
		if a == "-h" || a == "-help" || a == "--help" {
			f.SetOutput(os.Stdout)
		}
	}
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0, true
	case err != nil:
		return 2, true
	}
	return 0, false
}

// configFile is the file to read: the one that was asked for, else the default one if
// it is there, else "", which means the defaults.
func configFile(given string) string {
	if given != "" {
		return given
	}
	if _, err := os.Stat(defaultFile); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return defaultFile
}

// load reads the configuration and prints what is wrong with it.
func load(given string) (*config.Config, string, bool) {
	file := configFile(given)
	cfg, err := config.Load(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return nil, file, false
	}
	return cfg, file, true
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "stile:", err)
	return 1
}
