package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stile/nginx/nginxtest"
)

// helperProgram runs a program that listens on a unix socket, until the end of the test.
func helperProgram(t *testing.T, socket, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = need(t, filepath.Base(name))
	}
	var log strings.Builder
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, log.String())
		}
	})
	eventually(t, name+" listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// openCgit is Debian's cgit and git's own program, through fcgiwrap, as sites/cgit.conf has them, behind rules of
// stile's. repos is where the repositories are.
func openCgit(t *testing.T, rules string) (s *site, repos string) {
	t.Helper()
	if _, err := os.Stat("/usr/lib/cgit/cgit.cgi"); err != nil {
		need(t, "cgit")
	}
	dir := shortDir(t)
	repos = filepath.Join(dir, "srv")
	makeRepository(t, filepath.Join(repos, "r.git"))
	makeRepository(t, filepath.Join(repos, "pub", "log.git"))
	rc := filepath.Join(dir, "cgitrc")
	err := os.WriteFile(rc, []byte("virtual-root=/\nenable-http-clone=1\nenable-blame=1\nsnapshots=tar.gz\ncache-size=0\nremove-suffix=0\nscan-path="+repos+"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "fcgi")
	helperProgram(t, socket, "fcgiwrap", "-c", "4", "-s", "unix:"+socket)
	s = build(t, rules, nginxtest.Options{Site: "cgit.conf", Replace: []string{
		"unix:/run/fcgiwrap.socket", "unix:" + socket, "GIT_PROJECT_ROOT  /srv/git;", "GIT_PROJECT_ROOT " + repos + "; fastcgi_param CGIT_CONFIG " + rc + ";",
	}})
	s.daemon.start()
	return s, repos
}

// sees asks for a page, which must be there, with a text in it.
func (v *visitor) sees(target, text string) {
	v.t.Helper()
	if r := v.get(target); r.Status != 200 || !strings.Contains(r.Body, text) {
		v.t.Errorf("%s: %d, without %q: %.300s", target, r.Status, text, r.Body)
	}
}

// What people look at goes through, and is counted; beyond the limits it is refused, and programs go on.
func TestPresetCgit(t *testing.T) {
	t.Parallel()
	s, repos := openCgit(t, "include = [\"preset:cgit\"]\n")

	v := s.visitorFrom("127.0.0.1", append(firefox[:3:3], "Accept-Encoding: identity")...)
	v.kept = true
	has := v.sees
	has("/", "pub/log.git")
	has("/cgit.css", "cgit")
	has("/r.git/", "change 5")
	has("/r.git/log/", "change 0")
	has("/r.git/tree/", "a0")
	has("/r.git/blame/a0", "a 0")
	has("/r.git/commit/", "change 5")
	has("/r.git/plain/a3", "a 3")
	has("/r.git/snapshot/r-main.tar.gz", "\x1f\x8b")
	has("/r.git/atom/?h=main", "<feed")
	has("/pub/log.git/log/", "change 0")
	for rule, want := range map[string]float64{"cgit/browse": 5, "cgit/files": 1, "cgit/snapshot": 1, "cgit/atom": 1} {
		if n := s.daemon.metric("stile_rule_hits_total", rule); n != want {
			t.Errorf("rule %s was hit %v times, want %v", rule, n, want)
		}
	}

	// Beyond the limit for expensive pages: those are refused however they are dressed, and git and feeds go on.
	p := s.exhaust("/r.git/log/")
	for _, target := range []string{
		"/r.git/log/a0?service=git-upload-pack", "/?url=r.git/log/", "/cgit.css?url=r.git/log/", "/r.git/atom/?h=main&p=log", "/r.git/log/info/refs", "/r.git//%6cog/",
		"/r.git/refs/../log/", "/r.git/tree/x.css", "/pub/log.git/log/objects/ab/0123456789abcdef0123456789abcdef012345",
	} {
		if r := p.get(target); r.Status != 503 || !isText(r) {
			t.Errorf("%s: %d %.80s", target, r.Status, r.Body)
		}
	}
	if r := p.get("/r.git/atom/?h=main"); r.Status != 200 || !strings.Contains(r.Body, "<feed") {
		t.Errorf("the feed: %d", r.Status)
	}
	head := strings.TrimSpace(gitCommand(t, filepath.Join(repos, "r.git"), "rev-parse", "HEAD"))
	for what, env := range map[string][]string{"smart": smart, "dumb, by cgit": dumb} {
		c := filepath.Join(t.TempDir(), "c")
		before := s.daemon.metric("stile_rule_hits_total", "cgit/git-fetch")
		out, ok := s.git("", env, "clone", "-q", "http://"+s.Addr(80)+"/r.git", c)
		if fetched := s.daemon.metric("stile_rule_hits_total", "cgit/git-fetch") > before; fetched != (len(env) == 0) {
			t.Errorf("%s: fetched by git's own program: %v", what, fetched)
		}
		if !ok {
			t.Errorf("%s: %s", what, out)
		} else if got := strings.TrimSpace(s.mustGit(c, "rev-parse", "HEAD")); got != head {
			t.Errorf("%s: head %s, want %s", what, got, head)
		}
	}
	c := filepath.Join(t.TempDir(), "c")
	s.mustGit("", "clone", "-q", "--filter=blob:none", "http://"+s.Addr(80)+"/pub/log.git", c)
	s.mustGit(c, "log", "-p", "--", "a2")
}

// openWiki is Debian's MediaWiki through php-fpm, as sites/mediawiki.conf has it, behind rules of stile's.
func openWiki(t *testing.T, rules string) *site {
	t.Helper()
	const install = "/usr/share/mediawiki/maintenance/install.php"
	if _, err := os.Stat(install); err != nil {
		need(t, "mediawiki")
	}
	fpm := "php-fpm"
	if found, _ := filepath.Glob("/usr/sbin/php-fpm*"); len(found) > 0 {
		fpm = found[0]
	}
	dir := shortDir(t)
	php := need(t, "php")
	out, err := exec.Command(php, install, "--dbtype", "sqlite", "--dbname", "wiki", "--dbpath", dir, "--confpath", dir, "--scriptpath", "/w",
		"--server", "http://site.example", "--lang", "en", "--pass", "correct-horse-battery", "Wiki", "Admin").CombinedOutput()
	if err != nil {
		t.Fatalf("installing MediaWiki: %v: %s", err, out)
	}
	settings := filepath.Join(dir, "LocalSettings.php")
	add, err := os.OpenFile(settings, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(add, "\n$wgArticlePath = '/wiki/$1';\n$wgJobRunRate = 0;\n$wgCacheDirectory = '%s';\n$wgMainCacheType = CACHE_DB;\n", dir)
	add.Close()
	socket := filepath.Join(dir, "fpm")
	pool := fmt.Sprintf("[global]\nerror_log = %s/log\ndaemonize = no\n[www]\nlisten = %s\npm = static\npm.max_children = 4\n", dir, socket)
	if os.Geteuid() == 0 {
		pool += "user = root\ngroup = root\n"
	}
	conf := filepath.Join(dir, "fpm.conf")
	if err := os.WriteFile(conf, []byte(pool), 0o600); err != nil {
		t.Fatal(err)
	}
	helperProgram(t, socket, fpm, "-F", "-R", "-y", conf)
	s := build(t, rules, nginxtest.Options{Site: "mediawiki.conf", Replace: []string{
		"unix:/run/php/php-fpm.sock", "unix:" + socket, "    fastcgi_param PATH_INFO ", "    fastcgi_param MW_CONFIG_FILE " + settings + ";\n    fastcgi_param PATH_INFO ",
	}})
	s.daemon.start()
	return s
}

// What readers do goes through; what MediaWiki makes anew is counted, and beyond its limit refused.
func TestPresetWiki(t *testing.T) {
	t.Parallel()
	s := openWiki(t, "include = [\"preset:wiki\"]\n")

	v := s.visitorFrom("127.0.0.1", append(firefox[:3:3], "Accept-Encoding: identity")...)
	v.kept = true
	has := v.sees
	token := func(kind string) string {
		t.Helper()
		var a struct {
			Query struct{ Tokens map[string]string }
		}
		r := v.get("/w/api.php?action=query&format=json&meta=tokens&type=" + kind)
		if err := json.Unmarshal([]byte(r.Body), &a); err != nil {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		return strings.NewReplacer("+", "%2B", `\`, "%5C").Replace(a.Query.Tokens[kind+"token"])
	}
	form := "Content-Type: application/x-www-form-urlencoded"
	edit := token("csrf")
	for i := range 3 {
		r := v.ask("POST", "/w/api.php", fmt.Sprintf("action=edit&format=json&title=Stile&text=words+of+version+%d&token=%s", i, edit), form)
		if !strings.Contains(r.Body, `"Success"`) {
			t.Fatalf("edit: %d %s", r.Status, r.Body)
		}
	}
	has("/wiki/Stile", "words of version 2")
	has("/w/index.php?title=Stile", "words of version 2")
	has("/w/load.php?lang=en&modules=site.styles&only=styles&skin=vector", "")
	has("/w/index.php?title=Stile&action=history", "mw-history")
	has("/w/index.php?title=Stile&diff=prev", "version 2")
	has("/w/index.php?title=Stile&action=raw", "words of version 2")
	has("/w/index.php?title=Special:Search&search=words&fulltext=1", "Search results")
	has("/wiki/Special:RecentChanges", "Stile")
	r := v.get("/w/index.php?title=Special:RecentChanges&feed=atom")
	feed, ok := strings.CutPrefix(r.Header.Get("Location"), "http://site.example")
	if r.Status != 302 || !ok {
		t.Fatalf("the feed of changes: %d %v", r.Status, r.Header)
	}
	has(feed, "<feed")
	has("/w/api.php?action=opensearch&search=Sti", "Stile")
	has("/w/rest.php/v1/page/Stile", "version 2")
	for rule, want := range map[string]float64{"wiki/articles": 2, "wiki/load": 1, "wiki/query": 4, "wiki/colon": 1, "wiki/feeds": 2, "wiki/api": 6} {
		if n := s.daemon.metric("stile_rule_hits_total", rule); n != want {
			t.Errorf("rule %s was hit %v times, want %v", rule, n, want)
		}
	}

	// Beyond the limit for expensive pages: articles are read, and nothing else is, however it is dressed.
	for range 60 {
		if v.get("/w/index.php?title=Stile&action=history").Status == 503 {
			break
		}
	}
	for _, target := range []string{
		"/wiki/Stile?action=history", "/wiki/Special:Search?search=words", "/wiki/special:search", "/wiki/:Special:RecentChanges", "/wiki/Spe%E2%80%8Ecial:RecentChanges",
		"/w/index.php/x.css?title=Stile&action=history", "/w/load.php/../index.php?title=Stile&action=history", "/wiki/x.css?oldid=2", "/wiki/Stile?service=git-upload-pack&action=history",
		"/?title=Special%3ARecentChanges", "/wiki/Special:RecentChanges/info/refs", "/w/index.php?title=Stile&title=Special:RecentChanges", "/robots.txt?title=Stile&action=history",
	} {
		if r := v.get(target); r.Status != 503 || !isPage(r) || strings.Contains(r.Body, "mediawiki") {
			t.Errorf("%s: %d %.80s", target, r.Status, r.Body)
		}
	}
	has("/wiki/Stile", "words of version 2")
	has("/w/load.php?lang=en&modules=site.styles&only=styles&skin=vector", "")
	has("/w/api.php?action=opensearch&search=Sti", "Stile")
}
