package e2e

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// anyGit serves every repository under a folder by git's own program, and pages beside.
func anyGit(t *testing.T, preset, rules string) (s *site, root string) {
	t.Helper()
	root = t.TempDir()
	backend := filepath.Join(strings.TrimSpace(gitCommand(t, "", "--exec-path")), "git-http-backend")
	program := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=a"}, Stderr: testLog{t}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") || strings.Contains(r.URL.Path, "/git-") {
			b, err := io.ReadAll(r.Body) // CGI knows no chunks
			if err != nil {
				t.Errorf("%s: %v", r.RequestURI, err)
			}
			r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
			program.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s = build(t, "include = [\"preset:"+preset+"\"]\n"+rules, nginxtest.Options{Site: "forgejo.conf", App: server.Listener.Addr().String()})
	s.daemon.start()
	return s, root
}

// C106, C109: repositories and their owners may be named like pages. Whoever has used up the pages clones them, by an
// address with or without ".git" or a slash at its end, pushes to them, and takes one into another.
func TestGitNamesLikePages(t *testing.T) {
	t.Parallel()
	for preset, names := range map[string][]string{
		"forge":   {"o/src", "src/branch", "raw/commit", "api/raw", "assets/r", "o/archive", "o/search", "my.org/commits", "o/r\u00e9po d\u00fc", "o/issues", "x.pl/compare"},
		"gitlab":  {"tree/blob", "g/raw/p", "g/commits/p", "a/b/c/d/e/f", "explore/p", "api-x/v4"},
		"cgit":    {"log", "tree", "patch", "pub/scm/linux/stats.git", "o/x.git"},
		"generic": {"o/commits", "log", "o/r\u00e9po", "a/b/c/d"},
	} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			s, root := anyGit(t, preset, "")
			s.exhaust("/o/r")
			for _, name := range names {
				makeRepository(t, filepath.Join(root, name))
				address := "http://" + s.Addr(80) + (&url.URL{Path: "/" + name}).EscapedPath()
				for _, end := range []string{"", "/"} {
					dir := filepath.Join(t.TempDir(), "c")
					out, ok := s.git("", nil, "clone", "-q", address+end, dir)
					if _, err := os.Stat(filepath.Join(dir, "a5")); err != nil || !ok {
						t.Errorf("%s%s: git says ok: %v, %v: %s", name, end, ok, err, out)
						continue
					}
					s.mustGit(dir, "commit", "-q", "--allow-empty", "-m", "pushed")
					if out, ok := s.git(dir, nil, "push", "-q", "origin", "main"); !ok {
						t.Errorf("%s%s: %s", name, end, out)
					}
				}
			}
		})
	}
}

// C106, C007: pushes that are larger than git keeps in memory (in chunks, after a question whether that is fine), and
// fetches whose questions git compresses; and another repository inside. Refused in the middle git fails, says why,
// and asks for no password.
func TestGitLargeQuestions(t *testing.T) {
	t.Parallel()
	s, root := anyGit(t, "forge", "")
	s.exhaust("/o/r/src/branch/main")
	makeRepository(t, filepath.Join(root, "o/r.git"))
	makeRepository(t, filepath.Join(root, "o/inner.git"))
	address := "http://" + s.Addr(80) + "/o/r.git"
	work := filepath.Join(t.TempDir(), "w")
	s.mustGit("", "clone", "-q", address, work)
	s.mustGit(work, "submodule", "--quiet", "add", "http://"+s.Addr(80)+"/o/inner", "inner")
	noise := make([]byte, 8<<20)
	rand.Read(noise)
	if err := os.WriteFile(filepath.Join(work, "noise"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	s.mustGit(work, "add", ".")
	s.mustGit(work, "commit", "-q", "-m", "large")
	if out, ok := s.git(work, nil, "-c", "http.postBuffer=65536", "-c", "http.extraHeader=Expect: 100-continue", "push", "-q", "origin", "main"); !ok {
		t.Errorf("a push in chunks: %s", out)
	}
	for range 60 { // what a fetch says it has goes beyond a kilobyte, and is compressed
		s.mustGit(work, "commit", "-q", "--allow-empty", "-m", "mine")
	}
	other := filepath.Join(t.TempDir(), "o")
	s.mustGit("", "clone", "-q", "--recurse-submodules", "--shallow-submodules", "--depth=2", address, other)
	if _, err := os.Stat(filepath.Join(other, "inner", "a5")); err != nil {
		t.Error(err)
	}
	s.mustGit(other, "commit", "-q", "--allow-empty", "-m", "theirs")
	s.mustGit(other, "push", "-q", "origin", "HEAD:refs/heads/a/branch#é")
	s.mustGit(work, "fetch", "-q", "--all", "--tags")
	s.mustGit(work, "ls-remote", "-q")
	s.mustGit(other, "fetch", "-q", "--unshallow")

	rules := "[[meter]]\nname = \"git\"\nwindow = \"1h\"\nstranger = %\npass = 1000\n"
	for n, limit := range []string{"1", "2", "3"} {
		s.daemon.configure("include = [\"preset:forge\"]\n" + strings.NewReplacer("%", limit, "1h", "6"+limit+"m").Replace(rules))
		s.daemon.signal(1)
		s.daemon.waitLog("msg=reloaded", n+1)
		for _, args := range [][]string{{"-c", "http.postBuffer=65536", "push", "origin", "HEAD:refs/heads/x" + limit}, {"fetch", "origin", "main"}, {"ls-remote"}} {
			out, ok := s.git(work, nil, args...)
			if !ok && (!strings.Contains(out, "429") || strings.Contains(out, "Username") || strings.Contains(out, "Authentication")) {
				t.Errorf("%s requests, git %q: %s", limit, args, out)
			}
			if args[0] == "ls-remote" && ok {
				t.Errorf("%s requests, git %q: %v: the test tries nothing", limit, args, ok)
			}
		}
	}
}
