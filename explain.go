package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"stile/decide"
)

func explain(args []string) int {
	f := flags("explain", "[-c FILE] [-X METHOD] [-H 'K: V'] [--addr IP] URL", `Says how one request would be decided, step by step, for a caller that has used
nothing yet: which rules do not apply and why, which does, and what it allows.
URL is a whole one, or a path.
`)
	file := f.String("c", "", "configuration `file`")
	method := f.String("X", "GET", "request `method`")
	addr := f.String("addr", "192.0.2.1", "client's `address`")
	header := map[string]string{}
	f.Func("H", "a `header` of the client's, such as 'Accept: text/html'; may be repeated", func(s string) error {
		k, v, ok := strings.Cut(s, ":")
		if !ok {
			return fmt.Errorf("want 'Name: value'")
		}
		header[strings.TrimSpace(k)] = strings.TrimSpace(v)
		return nil
	})
	if status, done := parse(f, args); done {
		return status
	}
	if f.NArg() != 1 {
		f.Usage()
		return 2
	}
	cfg, _, ok := load(*file)
	if !ok {
		return 1
	}
	target, host := splitURL(f.Arg(0))
	if host != "" && header["Host"] == "" {
		header["Host"] = host
	}
	r, err := decide.NewRequest(strings.ToUpper(*method), target, *addr, header)
	if err != nil {
		return fail(err)
	}
	e, err := decide.New(cfg)
	if err != nil {
		return fail(err)
	}
	for _, step := range e.Policy().Explain(r) {
		fmt.Fprintf(os.Stdout, "%-10s %s\n", step.What, step.Outcome)
	}
	return 0
}

// splitURL is the raw request target of a URL, and its host ("" for a mere path).
// The target stays as it was typed: how it is spelled may matter.
func splitURL(s string) (target, host string) {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "http://")
	}
	if !ok {
		if !strings.HasPrefix(s, "/") {
			s = "/" + s
		}
		return s, ""
	}
	i := strings.IndexAny(rest, "/?#")
	if i < 0 {
		return "/", hostname(rest)
	}
	target = rest[i:]
	if target[0] != '/' {
		target = "/" + target
	}
	return target, hostname(rest[:i])
}

func hostname(hostport string) string {
	u := url.URL{Host: hostport}
	return u.Hostname()
}
