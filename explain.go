package main

import (
	"fmt"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"stile/config"
	"stile/cookie"
	"stile/decide"
	"stile/key"
)

func explain(args []string) int {
	f := flags("explain", "[-c FILE] [-X METHOD] [-H 'K: V'] [--addr IP] [--pass LEVEL | --user NAME] URL", `Says how one request would be decided, step by step, for a caller that has used
nothing yet: which rules do not apply and why, which does, what it allows, and what
the visitor sees. URL is a whole one, or a path.

Browsers send more headers than this does unless told: to ask as one that opens a
page, add -H 'Accept: text/html'; as one that loads a part of a page, add
-H 'Sec-Fetch-Dest: image'. The pass in a -H 'Cookie: …' is read with the configured
key file, if you may read that.
`)
	file := f.String("c", "", "configuration `file`")
	method := f.String("X", "GET", "request `method`")
	addr := f.String("addr", "192.0.2.1", "client's `address`")
	level := f.Int("pass", 0, "a caller with a pass of this `level`: 1 (earned by waiting), 2 or 3 (by work)")
	user := f.String("user", "", "a caller whom nginx names `name` in $stile_user")
	var assume assumed
	assume.flags(f)
	header, cookies := map[string]string{}, ""
	f.Func("H", "a `header` of the client's, such as 'Accept: text/html'; may be repeated", func(s string) error {
		k, v, ok := strings.Cut(s, ":")
		if !ok {
			return fmt.Errorf("want 'Name: value'")
		}
		k, v = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(k)), strings.TrimSpace(v)
		if k == "Cookie" {
			cookies += v + "; " // nginx joins several too
			return nil
		}
		header[k] = v
		return nil
	})
	if status, done := parse(f, args); done {
		return status
	}
	if f.NArg() != 1 {
		f.Usage()
		return 2
	}
	if *level != 0 && (*level < 1 || *level > 3 || *user != "") {
		fmt.Fprintln(os.Stderr, "stile: want --pass 1, 2 or 3, or --user, not both")
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
	if err := assume.tell(cfg, r); err != nil {
		fmt.Fprintln(os.Stderr, "stile:", err)
		return 2
	}
	e, err := decide.New(cfg)
	if err != nil {
		return fail(err)
	}
	if cookies != "" {
		found := ""
		r.Caller, found = readPass(cfg, []byte(cookies), r, time.Now())
		printStep("2 cookie", found)
	}
	switch {
	case *user != "":
		r.Caller = decide.Caller{Kind: decide.User}
	case *level != 0:
		r.Caller = decide.Caller{Kind: decide.Holder, Level: uint8(*level)}
	}
	for _, step := range e.Policy().Explain(r, cfg.Challenge.Status) {
		printStep(step.What, step.Outcome)
	}
	return 0
}

func printStep(what, outcome string) { fmt.Printf("%-10s %s\n", what, outcome) }

// readPass is the caller that a Cookie header makes of a request, and what is to be said
// about its pass. What cannot be read is no pass, as for the daemon.
func readPass(cfg *config.Config, cookies []byte, r *decide.Request, now time.Time) (c decide.Caller, found string) {
	ring, err := key.Load(cfg.Key.File)
	if err != nil {
		return c, fmt.Sprintf("not read: %v (--pass LEVEL does without)", err)
	}
	passes := cookie.New(ring)
	var p cookie.Pass
	if !passes.Find(cookies, cfg.Pass.Cookie, uint32(now.Unix()), &p) {
		return c, fmt.Sprintf("%s: %v", cfg.Pass.Cookie, passes.Why(cookies, cfg.Pass.Cookie, uint32(now.Unix())))
	}
	found = fmt.Sprintf("%s: a valid pass of level %d, until %s", cfg.Pass.Cookie, p.Level, time.Unix(int64(p.Expires), 0).UTC().Format(time.RFC3339))
	if cfg.Pass.Bind == config.BindNetwork && !passes.ProvenFrom(&p, r.From) {
		return c, found + fmt.Sprintf(", but not proven from %s ([pass] bind = \"network\")", r.Addr)
	}
	return decide.Caller{Kind: decide.Holder, Level: p.Level}, found
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
