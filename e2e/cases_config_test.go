package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// C150, C033, C003: a mistake in the configuration stops the program before it serves anybody, with the file, the
// line and what to write instead, all of them at once; `stile check` says the same.
func TestC150MistakesStopTheProgram(t *testing.T) {
	t.Parallel()
	f := func(text string, want ...string) {
		t.Helper()
		out, ok := stile(t, text, "check")
		if ok {
			t.Errorf("accepted:\n%s", text)
		}
		served, ok := stile(t, text, "serve")
		if ok || strings.Contains(served, "msg=ready") {
			t.Errorf("served:\n%s\n%s", text, served)
		}
		for _, out := range []string{out, served} {
			for _, w := range want {
				if !strings.Contains(out, w) {
					t.Errorf("for\n%s\n%q is not said in\n%s", text, w, out)
				}
			}
			if strings.Contains(out, "goroutine ") || strings.Contains(out, "panic") {
				t.Errorf("a panic: %s", out)
			}
		}
	}
	const rule = "[[rule]]\nname = \"x\"\npath = \"/x\"\n"
	f(rule+"do = \"allow\"\nlimitt = 10\n", "stile.toml:5", "limitt")
	f("[[meter]]\nname = \"m\"\nwindow = \"1m\"\nstrangers = 1\nstrangger = 2\npass = 3\n", "stile.toml:5", "strangger", "stranger")
	f("[pass]\n[pass.lifetime]\nx = 1\n", "stile.toml:2", "lifetime")
	f("mode = \"observe\"\nmode = \"enforce\"\n", "stile.toml:2")
	f("[[meter]]\nname = \"m\"\nwindow = 60\nstranger = 1\npass = 1\n", "stile.toml:3", `"60s"`)
	f("[challenge]\nstatus = 200\n", "stile.toml:2", "503")
	f("[[rule]]\nname = \"x\"\npath = '''~^/x$\n'''\ndo = \"allow\"\n", "stile.toml:3", "line")
	f("[[rule]]\nname = \"x\"\npath = \"~^/(x\"\ndo = \"allow\"\n", "stile.toml:3")
	f("[[rule]]\nname = \"x\"\npath = \"/x?y=z\"\ndo = \"allow\"\n", "stile.toml:3", "query")
	f(rule+"do = \"meter\"\nmeter = \"nothing\"\n", "stile.toml:5", "nothing")
	f(rule+"do = \"alow\"\n", "stile.toml:4", "allow")
	f("[listen]\nadmin = \"0.0.0.0:9406\"\n", "stile.toml:2")
	f("mode = \"enforced\"\n[challenge]\nstatus = 204\n[pass]\nlifetime = \"1\"\n", "stile.toml:1", "stile.toml:3", "stile.toml:5")
	f("this is not TOML", "stile.toml:1")
	f(rule+"do = \"deny\"\n[[expect]]\nrequest = \"GET /x\"\nverdict = \"allow\"\n", "stile.toml:5", "expect", "deny")

	if out, ok := stile(t, "", "check"); !ok {
		t.Errorf("an empty file: %s", out)
	}
	if out, err := exec.Command(built, "check", "-c", "/nowhere/stile.toml").CombinedOutput(); err == nil || !strings.Contains(string(out), "/nowhere/stile.toml") {
		t.Errorf("a file that is not there: %v %s", err, out)
	}
}

// Rules and meters of the operator's own may want something else than the preset below them: that is no mistake.
func TestOwnRulesMayDisagreeWithThePreset(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[[rule]]\nname = \"search is cheap here\"\npath = \"/search\"\ndo = \"allow\"\n",
		"[[meter]]\nname = \"pages\"\nwindow = \"1m\"\nstranger = 2\npass = 100\n",
		"[[rule]]\nname = \"all\"\npath = \"/**\"\ndo = \"challenge\"\n",
	} {
		if out, ok := stile(t, text, "check"); !ok {
			t.Errorf("for\n%s\n%s", text, out)
		}
		s := open(t, text, "")
		s.visitor().get("/")
	}
	out, ok := stile(t, "[[rule]]\nname = \"r\"\npath = \"/search\"\ndo = \"allow\"\n[[expect]]\nrequest = \"GET /search\"\nverdict = \"deny\"\n", "check")
	if ok || !strings.Contains(out, "stile.toml:5") || !strings.Contains(out, "1 of 1 ") {
		t.Errorf("an expectation of one's own: %s", out)
	}
	if out, ok := stile(t, "", "check"); !ok || strings.Contains(out, " 0 [[expect]]") {
		t.Errorf("the preset alone: %s", out)
	}
}

// In observe mode everybody is let through, and the metrics say what would have become of them.
func TestObserveModeLetsEverybodyThrough(t *testing.T) {
	t.Parallel()
	s := open(t, "mode = \"observe\"\n"+houseRules, "")
	for target, series := range map[string]string{
		"/heavy/x": `verdict="challenge",reason="demand"`, "/denied/x": `verdict="refuse",reason="deny"`, "/trap/x": `verdict="refuse",reason="trap"`,
	} {
		s.expect(target, s.visitor().get(target), 200, 1)
		if n := s.daemon.metric("stile_checks_total", series); n != 1 {
			t.Errorf("%s: %s counted %v times, want 1", target, series, n)
		}
	}
	v := s.visitor(program...)
	for range 10 {
		s.expect("over the limit", v.get("/machines/x"), 200, 1)
	}
	if n := s.daemon.metric("stile_checks_total", `verdict="refuse",reason="meter"`); n != 7 {
		t.Errorf("%v would have been refused, want 7", n)
	}
}

// C004, C011, C005: where nginx does not ask, nothing is decided: a location that answers by itself, and one that lets
// an address in by `satisfy any`. With the guard a location with its own error page shows ours.
func TestC004WhereNobodyIsAsked(t *testing.T) {
	t.Parallel()
	s := build(t, houseRules, nginxtest.Options{Site: `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
    location /heavy/return { return 200 "by itself\n"; }
    location /heavy/any { satisfy any; allow 127.0.0.0/8; deny all; proxy_pass http://127.0.0.1:8080; }
    location /heavy/bare { error_page 404 /404; proxy_pass http://127.0.0.1:8080; }
    location /heavy/guarded { error_page 404 /404; include snippets/stile-guard.conf; proxy_pass http://127.0.0.1:8080; }
}
`})
	s.daemon.start()
	s.expect("return", s.visitor().get("/heavy/return"), 200, 0)
	s.expect("satisfy any", s.visitor().get("/heavy/any"), 200, 1)
	if n := s.daemon.metric("stile_rule_hits_total", `"heavy"`); n > 1 {
		t.Errorf("%v asked", n)
	}
	s.expect("an error page of its own", s.visitor().get("/heavy/bare"), 401, 0)
	r := s.visitor().get("/heavy/guarded")
	s.expect("guarded", r, 503, 0)
	if _, ok := readPuzzle(r.Body); !ok {
		t.Errorf("guarded: %.200q", r.Body)
	}
}
