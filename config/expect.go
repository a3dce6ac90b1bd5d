package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

func (in *reading) readExpect(t *table) {
	e := Expect{Pos: Pos{t.file, t.node.line}}
	t.request("request", &e)
	if s, ok := t.text("agent"); ok {
		e.Agent = s
	}
	if s, ok := t.text("addr"); ok {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			t.wrong("addr", "want one address, such as %q", "192.0.2.1")
		} else {
			e.Addr = a.Unmap().String()
		}
	}
	t.expectHeaders("header", &e)
	t.expectCrawler(&e)
	if s, ok := t.text("host"); ok {
		if s == "" || strings.ContainsAny(s, "/ ") {
			t.wrong("host", "want a host's name, such as %q", "www.example.org")
		}
		e.setHeader("Host", s)
	}
	t.verdict("verdict", &e)
	t.finish()
	in.config.Expects = append(in.config.Expects, e)
	in.expects = append(in.expects, t)
}

func (e *Expect) setHeader(name, value string) {
	if e.Header == nil {
		e.Header = map[string]string{}
	}
	e.Header[name] = value
}

// request reads "GET /path?query".
func (t *table) request(key string, e *Expect) {
	s, ok := t.text(key)
	if !ok {
		if !t.has(key) {
			t.report(t.node, "it has no request", `write one, such as request = "GET /search?q=x"`)
		}
		return
	}
	t.call("expect", s)
	method, target, _ := strings.Cut(s, " ")
	switch {
	case strings.HasPrefix(s, "/"):
		t.wrong(key, "want the method too: %q", "GET "+s)
	case strings.Contains(s, "://"):
		t.wrong(key, "want a method and the part after the host, such as %q; the host is a key of its own", "GET /search?q=x")
	case method != strings.ToUpper(method) || method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" ||
		!strings.HasPrefix(target, "/") || strings.ContainsAny(target, " \t"):
		t.wrong(key, "want a method in capital letters and a target without blanks, such as %q", "GET /search?q=x")
	default:
		e.Method, e.Target = method, target
	}
}

func (t *table) expectHeaders(key string, e *Expect) {
	h, ok := t.table(key, key, t.where+": header")
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(h.keys)) {
		canonical, why := canonicalHeader(name)
		if why != "" {
			h.report(h.node.at(name), name, why)
			continue
		}
		if s, ok := h.text(name); ok {
			e.setHeader(canonical, s)
		}
	}
}

// verdict checks the words of a verdict; meters are looked up when all are known.
func (t *table) verdict(key string, e *Expect) {
	s, ok := t.text(key)
	if !ok {
		if !t.has(key) {
			t.report(t.node, "it has no verdict", `write one, such as verdict = "meter pages"`)
		}
		return
	}
	words := strings.Fields(s)
	switch {
	case s == "allow" || s == "deny" || s == "trap" || s == "challenge" || s == "challenge 2" || s == "challenge 3":
	case len(words) > 1 && words[0] == "meter":
	case s == "meter":
		t.wrong(key, "want the meters' names too, such as %q", "meter pages")
		return
	default:
		t.wrong(key, `want "allow", "meter NAME", "challenge", "challenge 2", "deny" or "trap"`)
		return
	}
	e.Verdict = strings.Join(words, " ")
}

// resolveExpects finds the meters that expects name.
func (in *reading) resolveExpects() {
	names := in.meterNames()
	for i := range in.config.Expects {
		t := in.expects[i]
		meters, ok := strings.CutPrefix(in.config.Expects[i].Verdict, "meter ")
		if !ok {
			continue
		}
		for _, name := range strings.Fields(meters) {
			if !slices.Contains(names, name) {
				t.wrong("verdict", "meter %q: %s", name, in.noMeter(name))
			}
		}
	}
	if n := len(in.config.Expects); n > maxTables {
		in.report(in.config.Expects[maxTables].Pos, "[[expect]]", fmt.Sprintf("there are %d", n), fmt.Sprintf("want at most %d", maxTables))
	}
}
