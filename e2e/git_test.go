package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// forge is a site with a repository that can be cloned in both ways, and a visitor's git.
type forge struct {
	*site
	head string // of the repository
}

// gitSite serves /smart/ by git's own program and /dumb/ as files. X-Client says who asks.
const gitSite = `
server {
    listen 80;
    set_real_ip_from 127.0.0.0/8;
    real_ip_header X-Client;
    include snippets/stile.conf;
    client_max_body_size 50m;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`

// openForge starts one with rules of stile's.
func openForge(t *testing.T, rules string) *forge {
	t.Helper()
	backend := filepath.Join(strings.TrimSpace(gitCommand(t, "", "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		need(t, backend) // says that it is not there
	}
	root := t.TempDir()
	work := filepath.Join(root, "work")
	gitCommand(t, "", "init", "-q", work)
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(work, "file"), []byte(strings.Repeat(fmt.Sprintf("line %d\n", i), 2000)), 0o600); err != nil {
			t.Fatal(err)
		}
		gitCommand(t, work, "add", "file")
		gitCommand(t, work, "commit", "-q", "-m", fmt.Sprint("change ", i))
	}
	bare := filepath.Join(root, "r.git")
	gitCommand(t, "", "clone", "-q", "--bare", work, bare)
	gitCommand(t, bare, "update-server-info")

	mux := http.NewServeMux()
	mux.Handle("/smart/", &cgi.Handler{Path: backend, Root: "/smart", Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: testLog{t}})
	mux.Handle("/dumb/", http.StripPrefix("/dumb/", http.FileServer(http.Dir(root))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	s := build(t, rules, nginxtest.Options{Site: gitSite, App: server.Listener.Addr().String()})
	s.daemon.start()
	return &forge{s, strings.TrimSpace(gitCommand(t, bare, "rev-parse", "HEAD"))}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("git-http-backend: %s", b)
	return len(b), nil
}

// gitEnv is git without the machine's or a person's settings.
func gitEnv(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}, more...)
}

func gitCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(need(t, "git"), args...)
	cmd.Dir, cmd.Env = dir, gitEnv()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// clone is what became of a clone.
type clone struct {
	ok    bool   // git says so
	head  string // of what is there
	asked bool   // for a name or a password
	said  string
}

// clone clones a path as somebody with that address.
func (f *forge) clone(t *testing.T, path, client string, env ...string) (c clone) {
	t.Helper()
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	helper := filepath.Join(dir, "askpass")
	if err := os.WriteFile(helper, []byte("#!/bin/sh\necho \"$1\" >> "+asked+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	to := filepath.Join(dir, "clone")
	cmd := exec.CommandContext(ctx, need(t, "git"), "-c", "http.extraHeader=X-Client: "+client, "-c", "core.askPass="+helper, "-c", "credential.helper=",
		"clone", "-q", "http://"+f.Addr(80)+path, to)
	cmd.Env = gitEnv(append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS="+helper, "SSH_ASKPASS="+helper)...)
	out, err := cmd.CombinedOutput()
	c.ok, c.said = err == nil, string(out)
	if _, err := os.Stat(asked); err == nil {
		c.asked = true
	}
	if _, err := os.Stat(filepath.Join(to, "file")); err == nil {
		c.head = strings.TrimSpace(gitCommand(t, to, "rev-parse", "HEAD"))
	}
	return c
}

// right checks the one thing that matters: the right repository, or a failure that says why, and no question.
func (f *forge) right(t *testing.T, what string, c clone) {
	t.Helper()
	if c.ok != (c.head == f.head) {
		t.Errorf("%s: git says ok: %v, and the head is %q, want %q: %s", what, c.ok, c.head, f.head, c.said)
	}
	if c.asked || strings.Contains(c.said, "Username") || strings.Contains(c.said, "Authentication failed") {
		t.Errorf("%s: git asked for a password: %s", what, c.said)
	}
	if !c.ok && !strings.Contains(c.said, "429") && !strings.Contains(c.said, "503") && !strings.Contains(c.said, "403") {
		t.Errorf("%s: git does not say why: %s", what, c.said)
	}
	if strings.Contains(c.said, "redirecting") || strings.Contains(c.said, "<html") {
		t.Errorf("%s: %s", what, c.said)
	}
}

var smart, dumb = []string{}, []string{"GIT_SMART_HTTP=0"}

// C106, C107, C109, C110: under the default policy git clones, in both ways and with each protocol, also for
// somebody who is asked for a proof everywhere else.
func TestC106GitClones(t *testing.T) {
	t.Parallel()
	f := openForge(t, "")
	v := f.visitor(program...)
	v.kept = true
	for range 200 {
		v.get("/page", "X-Client: 192.0.2.1")
	}
	if r := v.get("/page", "X-Client: 192.0.2.1"); r.Status != 503 {
		t.Errorf("a page for somebody over the limit: %d", r.Status)
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		for what, c := range map[string]clone{
			"version 2": f.clone(t, "/smart/r.git", client),
			"version 0": f.clone(t, "/smart/r.git", client, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", "GIT_CONFIG_VALUE_0=0"),
			"dumb":      f.clone(t, "/dumb/r.git", client, dumb...),
			"another's": f.clone(t, "/smart/r.git", client, "GIT_HTTP_USER_AGENT=JGit/6.8"),
			"a browser": f.clone(t, "/smart/r.git", client, "GIT_HTTP_USER_AGENT=Mozilla/5.0"),
		} {
			f.right(t, what, c)
			if !c.ok {
				t.Errorf("%s as %s: %s", what, client, c.said)
			}
		}
	}
	// What only looks like git counts as a page.
	for _, target := range []string{"/r.git/commit/abc", "/r.git/tree/HEAD", "/page?service=git-upload-pack", "/r.git/info/refs?service=other", "/r.git/log/objects/ab/cd"} {
		if r := v.get(target, "X-Client: 192.0.2.1", "User-Agent: git/2.39.5"); r.Status != 503 || !isText(r) {
			t.Errorf("%s: %d", target, r.Status)
		}
	}
}

// C106, C108: whichever of its requests is refused, git fails and says so. It neither makes an empty repository of
// it, nor asks for a password.
func TestC108RefusedGitFails(t *testing.T) {
	t.Parallel()
	f := openForge(t, `include = []
[[meter]]
name = "some"
window = "1h"
stranger = 8
pass = 8
[[rule]]
name = "git"
path = ["/smart/**", "/dumb/**"]
do = "meter"
meter = "some"
proof = "never"
`)
	refused, cloned := 0, 0
	try := func(name, path string, used int, env ...string) {
		client := fmt.Sprintf("198.51.%d.%d", 100+used, len(name))
		v := f.visitor(program...)
		for range used {
			v.get("/dumb/r.git/HEAD", "X-Client: "+client)
		}
		c := f.clone(t, path, client, env...)
		f.right(t, fmt.Sprintf("%s after %d of 8 requests", name, used), c)
		if c.ok {
			cloned++
		} else {
			refused++
		}
	}
	for used := range 9 {
		try("smart", "/smart/r.git", used)
	}
	for _, used := range []int{0, 3, 6, 8} {
		try("dumb", "/dumb/r.git", used, dumb...)
	}
	if cloned == 0 || refused < 4 {
		t.Errorf("%d clones, %d refusals: the test tries nothing", cloned, refused)
	}

	for i, rule := range []string{"do = \"challenge\"", "do = \"deny\"", "do = \"trap\""} {
		f.daemon.configure("include = []\n[[rule]]\nname = \"all\"\npath = \"/**\"\n" + rule + "\n")
		f.daemon.signal(1)
		f.daemon.waitLog("msg=reloaded", i+1)
		for way, env := range map[string][]string{"smart": smart, "dumb": dumb} {
			c := f.clone(t, "/"+way+"/r.git", "203.0.113.9", env...)
			f.right(t, way+" under "+rule, c)
			if c.ok {
				t.Errorf("%s under %s: cloned", way, rule)
			}
		}
	}
}
