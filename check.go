package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"stile/config"
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
	if failed := runExpects(cfg, func(line string) { fmt.Fprintln(os.Stderr, line) }); failed > 0 {
		fmt.Fprintf(os.Stderr, "%d of %d [[expect]]s failed\n", failed, len(expects(cfg)))
		return 1
	}
	if name == "" {
		name = "the built-in defaults (no file at " + defaultFile + ")"
	}
	fmt.Printf("%s: ok: %d rules, %d meters, %d [[expect]]s hold\n", name, len(cfg.Rules), len(cfg.Meters), len(expects(cfg)))
	return 0
}

// runExpects asks the rules each [[expect]], and says which do not hold.
func runExpects(cfg *config.Config, say func(line string)) (failed int) {
	e, err := decide.New(cfg)
	if err != nil {
		say(err.Error())
		return 1
	}
	for _, x := range expects(cfg) {
		if err := runExpect(e.Policy(), x); err != nil {
			say(fmt.Sprintf("%s:%d: expect %q: %v", x.Pos.File, x.Pos.Line, x.Method+" "+x.Target, err))
			failed++
		}
	}
	return failed
}

// expects are the [[expect]]s that must hold. A preset's are about the preset alone: who
// has a rule or a meter of his own may well want something else of the same request.
func expects(cfg *config.Config) (xs []*config.Expect) {
	preset := func(p config.Pos) bool { return strings.HasPrefix(p.File, "preset:") }
	own := slices.ContainsFunc(cfg.Rules, func(r config.Rule) bool { return !preset(r.Pos) }) ||
		slices.ContainsFunc(cfg.Meters, func(m config.Meter) bool { return !preset(m.Pos) })
	for i := range cfg.Expects {
		if x := &cfg.Expects[i]; !own || !preset(x.Pos) {
			xs = append(xs, x)
		}
	}
	return xs
}

func runExpect(p *decide.Policy, x *config.Expect) error {
	header := map[string]string{"User-Agent": x.Agent}
	for k, v := range x.Header {
		header[k] = v
	}
	r, err := decide.NewRequest(x.Method, x.Target, x.Addr, header)
	if err != nil {
		return err
	}
	got, rule := p.Classify(r)
	if decide.Satisfies(got, x.Verdict) {
		return nil
	}
	if rule == "" {
		return fmt.Errorf("want %q, got %q: no rule matches", x.Verdict, got)
	}
	return fmt.Errorf("want %q, got %q by rule %q: 'stile explain' shows why", x.Verdict, got, rule)
}
