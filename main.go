// Command stile keeps scraper swarms from flattening small sites: nginx asks it about
// every request, and it answers go on, prove first, or not now.
package main

import (
	"fmt"
	"io"
	"os"
)

// version is set by the release build: -ldflags "-X main.version=…".
var version = "0.1.0-dev"

// command is one subcommand. run returns the exit status: 0 done, 1 it failed, 2 it was
// called wrongly.
type command struct {
	name, args, help string
	run              func(args []string) int
}

var commands []command

func init() {
	commands = []command{
		{"serve", "[-c FILE]", "run the daemon", serve},
		{"check", "[-c FILE] [--nginx FILE|- [--here]]", "validate a configuration and run its [[expect]]s; find the holes in nginx's", check},
		{"explain", "[-c FILE] [-X METHOD] [-H 'K: V'] [--addr IP] [--pass LEVEL] [--user NAME] URL", "every step of one decision, and its verdict", explain},
		{"replay", "[-c FILE] [--format FORMAT] [--html OUT] LOG...", "run access logs through the decision: what would have been asked, refused, queued", replayLogs},
		{"crawlers", "[-c FILE] | update [-c FILE] [--from FILE] [NAME...]", "list the crawlers that can be verified, or renew their address lists", crawlers},
		{"hold", "--gate NAME --cost SIZE [-c FILE] [--wait DURATION] -- COMMAND [ARG...]", "run a batch job inside a gate's budget", hold},
		{"key", "new|rotate [-c FILE]", "make the key file, or put a new key in front", keys},
		{"preset", "[NAME]", "list the presets, or print one", preset},
		{"try", "[--listen ADDR]", "a protected demo site on this machine: no root, nothing installed", try},
		{"version", "", "print the version", printVersion},
	}
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		usage(os.Stderr)
		return 2
	}
	switch args[0] {
	case "help", "-h", "--help":
		usage(os.Stdout)
		return 0
	case "-v", "--version":
		return printVersion(nil)
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(args[1:])
		}
	}
	fmt.Fprintf(os.Stderr, "stile: there is no command %q\n\n", args[0])
	usage(os.Stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "stile keeps scraper swarms from flattening small sites, beside nginx.\n\nusage:\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  stile %-8s %s\n  %14s%s\n", c.name, c.args, "", c.help)
	}
	fmt.Fprint(w, "\n'stile COMMAND --help' says more. FILE is /etc/stile/stile.toml unless given;\nwithout that file the built-in defaults are used.\n")
}

func printVersion([]string) int {
	fmt.Println("stile", version)
	return 0
}
