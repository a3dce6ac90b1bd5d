package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes the test binary the program itself when it is asked to be.
func TestMain(m *testing.M) {
	if os.Getenv("STILE_TEST_RUN") == "1" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// stile runs the program.
func stile(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "STILE_TEST_RUN=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestUsage(t *testing.T) {
	for _, c := range commands {
		out, errs, status := stile(t, c.name, "--help")
		if c.name == "version" {
			continue
		}
		if status != 0 || !strings.Contains(out, "usage: stile "+c.name) || errs != "" {
			t.Errorf("%s --help: status %d, stdout %q, stderr %q", c.name, status, out, errs)
		}
		if out, errs, status := stile(t, c.name, "--nonsense"); status != 2 || out != "" || !strings.Contains(errs, "nonsense") {
			t.Errorf("%s --nonsense: status %d, stdout %q, stderr %q", c.name, status, out, errs)
		}
	}
	if out, _, status := stile(t, "help"); status != 0 || !strings.Contains(out, "stile serve") {
		t.Errorf("help: %d %s", status, out)
	}
	if _, errs, status := stile(t); status != 2 || !strings.Contains(errs, "usage:") {
		t.Errorf("without arguments: %d %s", status, errs)
	}
	if _, errs, status := stile(t, "serv"); status != 2 || !strings.Contains(errs, `no command "serv"`) {
		t.Errorf("an unknown command: %d %s", status, errs)
	}
	if out, _, status := stile(t, "version"); status != 0 || !strings.HasPrefix(out, "stile ") {
		t.Errorf("version: %d %s", status, out)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stile.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheck(t *testing.T) {
	if out, errs, status := stile(t, "check", "-c", write(t, "")); status != 0 || !strings.Contains(out, "ok:") {
		t.Errorf("an empty file: %d %s %s", status, out, errs)
	}
	_, errs, status := stile(t, "check", "-c", write(t, "mod = 1\n[pass]\nlifetime = 60\n"))
	if status != 1 || !strings.Contains(errs, "stile.toml:1:") || !strings.Contains(errs, "stile.toml:3:") {
		t.Errorf("two mistakes: %d %s", status, errs)
	}
	_, errs, status = stile(t, "check", "-c", write(t, `
[[rule]]
name = "r"
path = "/x"
do = "deny"
[[expect]]
request = "GET /x"
verdict = "allow"
`))
	if status != 1 || !strings.Contains(errs, `stile.toml:6: expect "GET /x": want "allow", got "deny" by rule "r"`) {
		t.Errorf("a broken expectation: %d %s", status, errs)
	}
	if _, errs, status := stile(t, "check", "-c", "/nonexistent/stile.toml"); status != 1 || errs == "" {
		t.Errorf("a missing file: %d %s", status, errs)
	}
}

func TestServeRefusesBrokenPolicy(t *testing.T) {
	_, errs, status := stile(t, "serve", "-c", write(t, "nonsense"))
	if status != 1 || !strings.Contains(errs, "stile.toml:1:") {
		t.Errorf("%d %s", status, errs)
	}
}

func TestExplain(t *testing.T) {
	file := write(t, `
[[rule]]
name = "heavy"
path = "/heavy/**"
method = "GET"
do = "deny"
`)
	out, _, status := stile(t, "explain", "-c", file, "http://www.example.org/static/..;/heavy/x?y=1#z")
	if status != 0 || !strings.Contains(out, "a backend may also read it as /heavy/x") || !strings.HasSuffix(strings.TrimSpace(out), "deny") {
		t.Errorf("%d\n%s", status, out)
	}
	out, _, _ = stile(t, "explain", "-c", file, "-X", "post", "/heavy/x")
	if !strings.Contains(out, `rule "heavy": no: its method does not hold`) {
		t.Error(out)
	}
	if _, errs, status := stile(t, "explain", "-c", file, "-H", "X-Custom: 1", "/"); status != 1 || !strings.Contains(errs, "does not reach stile") {
		t.Errorf("%d %s", status, errs)
	}
	if _, _, status := stile(t, "explain", "-c", file); status != 2 {
		t.Errorf("without a URL: %d", status)
	}
}

func TestKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	conf := write(t, "[key]\nfile = \""+file+"\"\n")
	if out, errs, status := stile(t, "key", "new", "-c", conf); status != 0 || !strings.Contains(out, file) {
		t.Errorf("new: %d %s %s", status, out, errs)
	}
	if _, errs, status := stile(t, "key", "new", "-c", conf); status != 1 || !strings.Contains(errs, "key rotate") {
		t.Errorf("new over an old one: %d %s", status, errs)
	}
	if out, errs, status := stile(t, "key", "rotate", "-c", conf); status != 0 || !strings.Contains(out, "1 older") {
		t.Errorf("rotate: %d %s %s", status, out, errs)
	}
	if _, _, status := stile(t, "key", "-c", conf); status != 2 {
		t.Errorf("without a verb: %d", status)
	}
}

func TestPreset(t *testing.T) {
	if out, _, status := stile(t, "preset"); status != 0 || !strings.Contains(out, "generic") {
		t.Errorf("%d %s", status, out)
	}
	if out, _, status := stile(t, "preset", "generic"); status != 0 || !strings.Contains(out, "[[rule]]") {
		t.Errorf("%d %s", status, out)
	}
	out, _, status := stile(t, "preset", "example")
	if status != 0 || !strings.Contains(out, "every key with its default") {
		t.Errorf("%d %s", status, out)
	}
	if out, errs, status := stile(t, "check", "-c", write(t, out)); status != 0 {
		t.Errorf("the example is not a configuration: %s %s", out, errs)
	}
	if _, errs, status := stile(t, "preset", "forg"); status != 1 || !strings.Contains(errs, "generic") || !strings.Contains(errs, "example") {
		t.Errorf("%d %s", status, errs)
	}
}

func TestSplitURL(t *testing.T) {
	f := func(url, target, host string) {
		t.Helper()
		if gt, gh := splitURL(url); gt != target || gh != host {
			t.Errorf("%q: %q %q, want %q %q", url, gt, gh, target, host)
		}
	}
	f("http://a.example/x?y", "/x?y", "a.example")
	f("https://a.example:8443/", "/", "a.example")
	f("https://a.example", "/", "a.example")
	f("http://a.example?x", "/?x", "a.example")
	f("http://[::1]:80/x", "/x", "::1")
	f("/a//b/%2e", "/a//b/%2e", "")
	f("a", "/a", "")
}
