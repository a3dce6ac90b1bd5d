package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stile/cookie"
	"stile/key"
	"stile/nginx"
)

// TestMain makes the test binary the program itself when it is asked to be.
func TestMain(m *testing.M) {
	if os.Getenv("STILE_TEST_RUN") == "1" {
		os.Exit(run(os.Args[1:]))
	}
	// Tests send signals to what they start: a run under nohup must not hand on that they are
	// ignored. What is caught here has its default there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
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

// The output of nginx -T, from a file and from stdin.
func TestCheckNginx(t *testing.T) {
	conf := write(t, "")
	dump := func(server string) string {
		text := "# configuration file /etc/nginx/nginx.conf:\nhttp {\naccess_log /var/log/nginx/access.log;\ninclude conf.d/stile.conf;\n" + server + "\n}\n"
		for name, file := range nginx.Files(nginx.Prefix) {
			if !strings.HasPrefix(name, "sites/") {
				text += "\n# configuration file /etc/nginx/" + name + ":\n" + file
			}
		}
		file := filepath.Join(t.TempDir(), "nginx.txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const good = "server {\nlisten 80;\nserver_name a.example;\ninclude snippets/stile.conf;\nlocation / { include snippets/stile-gate.conf; proxy_pass http://127.0.0.1:3000; }\n%s}\n"
	out, errs, status := stile(t, "check", "-c", conf, "--nginx", dump(strings.Replace(good, "%s", "", 1)))
	if status != 0 || errs != "" || !strings.Contains(out, "stile.toml: ok:") || !strings.HasSuffix(out, "\n0 errors, 0 warnings, 0 notes\n") || strings.Contains(out, "\x1b") {
		t.Errorf("a good one: %d %s %s", status, out, errs)
	}
	bad := dump(strings.Replace(good, "%s", "location /x { error_page 404 /y; proxy_pass http://127.0.0.1:3000; }\n", 1))
	out, errs, status = stile(t, "check", "-c", conf, "--nginx", bad)
	if status != 1 || errs != "" || !strings.Contains(out, "error: /etc/nginx/nginx.conf:9: ") || !strings.Contains(out, "write: include snippets/stile-guard.conf;") {
		t.Errorf("a bad one: %d %s %s", status, out, errs)
	}
	in, err := os.Open(bad)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(os.Args[0], "check", "-c", conf, "--nginx", "-", "--here")
	cmd.Env, cmd.Stdin = append(os.Environ(), "STILE_TEST_RUN=1"), in
	if b, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(b), "/etc/nginx/nginx.conf:9: ") {
		t.Errorf("from stdin: %s", b)
	}
	f := func(status int, want string, args ...string) {
		t.Helper()
		_, errs, got := stile(t, append([]string{"check", "-c", conf}, args...)...)
		if got != status || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: %d %q, want %d %q", args, got, errs, status, want)
		}
	}
	f(1, "no such file", "--nginx", "/nonexistent")
	f(1, conf+" is empty", "--nginx", conf)
	f(1, "stdin is empty", "--nginx", "-")
	f(1, "is one file of a configuration", "--nginx", write(t, "http { }"))
	f(2, "want a file with the output of nginx -T", "--nginx", "")
	f(2, "--here is about", "--here")
	f(2, `unexpected "nginx.txt"`, "nginx.txt")
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
	if status != 0 || !strings.Contains(out, "a backend may also read it as /heavy/x") || !strings.Contains(out, "\nverdict    deny\n") {
		t.Errorf("%d\n%s", status, out)
	}
	out, _, _ = stile(t, "explain", "-c", file, "-X", "post", "/heavy/x")
	if !strings.Contains(out, `rule "heavy": no: its method does not hold`) {
		t.Error(out)
	}
	out, _, _ = stile(t, "explain", "-c", file, "--addr", "2001:db8::1", "/other")
	if !strings.Contains(out, "2 caller   a stranger from 2001:db8::1: one with all of 2001:db8::/64") {
		t.Error(out)
	}
	if out, _, _ = stile(t, "explain", "-c", file, "--pass", "1", "/other"); !strings.Contains(out, "2 caller   holds a pass of level 1") {
		t.Error(out)
	}
	if out, _, _ = stile(t, "explain", "-c", file, "--user", "ann", "/other"); !strings.Contains(out, "2 caller   a user that nginx knows") {
		t.Error(out)
	}
	if _, errs, status := stile(t, "explain", "-c", file, "--pass", "4", "/"); status != 2 || !strings.Contains(errs, "--pass 1, 2 or 3") {
		t.Errorf("%d %s", status, errs)
	}
	if _, errs, status := stile(t, "explain", "-c", file, "/%zz"); status != 1 || strings.Count(errs, "nginx answers 400") != 1 {
		t.Errorf("%d %s", status, errs)
	}
	if _, errs, status := stile(t, "explain", "-c", file, "-H", "X-Custom: 1", "/"); status != 1 || !strings.Contains(errs, "does not reach stile") {
		t.Errorf("%d %s", status, errs)
	}
	if _, _, status := stile(t, "explain", "-c", file); status != 2 {
		t.Errorf("without a URL: %d", status)
	}
}

// The pass of a visitor who complains is read with the site's own key.
func TestExplainCookie(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	conf := "[key]\nfile = \"" + file + "\"\n[[rule]]\nname = \"closed\"\npath = \"/closed\"\ndo = \"challenge\"\nlevel = 2\n"
	f := func(conf, cookies string, want ...string) {
		t.Helper()
		out, errs, status := stile(t, "explain", "-c", write(t, conf), "-H", "cookie: "+cookies, "/closed")
		for _, w := range want {
			if status != 0 || !strings.Contains(out, w) {
				t.Errorf("%q: want …%s…, got %d\n%s%s", cookies, w, status, out, errs)
			}
		}
	}
	f(conf, "stile=x", "2 cookie   not read: reading keys: ", "a stranger", "verdict    challenge 2\n")
	if err := key.Create(file); err != nil {
		t.Fatal(err)
	}
	ring, err := key.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	pass := func(level uint8, lasts time.Duration) string {
		return "a=b; stile=" + string(cookie.New(ring).Append(nil, &cookie.Pass{Level: level, Expires: uint32(time.Now().Add(lasts).Unix())}))
	}
	f(conf, "a=b", "2 cookie   stile: no cookie of that name\n", "a stranger")
	f(conf, "stile=x", "2 cookie   stile: not a pass\n", "a stranger")
	f(conf, pass(2, -time.Hour), "2 cookie   stile: pass has expired\n", "a stranger")
	f(conf, pass(2, time.Hour), "2 cookie   stile: a valid pass of level 2, until 20", "holds a pass of level 2", "verdict    allow\n")
	f(conf, pass(1, time.Hour), "2 cookie   stile: a valid pass of level 1", "verdict    challenge 2\n")
	f(conf+"[pass]\nbind = \"network\"\n", pass(2, time.Hour), "but not proven from 192.0.2.1", "a stranger", "verdict    challenge 2\n")
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
