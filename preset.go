package main

import (
	"fmt"
	"strings"

	"stile/config"
)

func preset(args []string) int {
	f := flags("preset", "[NAME]", `Lists the presets, or prints one: an ordinary rule file, to read or to copy from.
"stile preset example" prints no preset but a configuration: every key, with its
default and what it is for.
`)
	if status, done := parse(f, args); done {
		return status
	}
	switch f.NArg() {
	case 0:
		fmt.Println(strings.Join(config.Presets(), "\n"))
	case 1:
		text, ok := config.Preset(f.Arg(0))
		if f.Arg(0) == "example" {
			text, ok = config.Example(), true
		}
		if !ok {
			return fail(fmt.Errorf("there is no preset %q: there are %s, and the configuration \"example\"", f.Arg(0), strings.Join(config.Presets(), ", ")))
		}
		fmt.Print(text)
	default:
		f.Usage()
		return 2
	}
	return 0
}
