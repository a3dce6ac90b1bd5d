package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// C106, C110: git reads a repository's files by itself where no program serves it, HEAD among them. To git a refused
// HEAD is a repository that has none: it warns, checks nothing out, and ends with 0. So whoever may have info/refs may
// have HEAD, whatever else is used up, wherever the repository is and whether or not its name ends in ".git".
func TestDumbCloneIsCheckedOut(t *testing.T) {
	t.Parallel()
	for preset, c := range map[string]struct {
		dear  string // uses up what a page is counted in
		repos []string
	}{
		"generic": {"/page", []string{"r", "r.git", "o/r", "pub/scm/r", "pub/scm/linux/r.git"}},
		"cgit":    {"/r.git/log/", []string{"r", "pub/scm/linux/r"}},
		"gitweb":  {"/r.git/log/x", []string{"r.git", "pub/r.git"}},
		"gitlab":  {"/g/p/-/tree/main", []string{"g/p.git"}},
		"forge":   {"/o/r/src/branch/main", []string{"o/r", "o/r.git"}},
	} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			work := filepath.Join(root, "work")
			gitCommand(t, "", "init", "-q", "-b", "trunk", work) // not what git takes for granted
			if err := os.WriteFile(filepath.Join(work, "file"), []byte("text\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			gitCommand(t, work, "add", "file")
			gitCommand(t, work, "commit", "-q", "-m", "a change")
			files := http.FileServer(http.Dir(filepath.Join(root, "srv")))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/page") || r.URL.Path == c.dear {
					return
				}
				files.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			s := build(t, "include = [\"preset:"+preset+"\"]\n", nginxtest.Options{App: server.Listener.Addr().String()})
			s.daemon.start()
			for _, target := range []string{c.dear, "/page"} {
				s.exhaust(target)
			}
			for _, name := range c.repos {
				bare := filepath.Join(root, "srv", name)
				gitCommand(t, "", "clone", "-q", "--bare", work, bare)
				gitCommand(t, bare, "update-server-info")
				to := filepath.Join(t.TempDir(), "c")
				out, ok := s.git("", dumb, "clone", "-q", "http://"+s.Addr(80)+"/"+name, to)
				if _, err := os.Stat(filepath.Join(to, "file")); err != nil || !ok {
					t.Errorf("%s: git says ok: %v, and there is no file: %v; %s", name, ok, err, out)
				}
			}
		})
	}
}
