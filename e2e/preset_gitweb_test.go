package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// openGitweb is Debian's gitweb through fcgiwrap, behind rules of stile's. git's files beside it come from the disk, as
// git's manual has it.
func openGitweb(t *testing.T, rules string) *site {
	t.Helper()
	const program = "/usr/share/gitweb/gitweb.cgi"
	if _, err := os.Stat(program); err != nil {
		need(t, "gitweb")
	}
	dir := shortDir(t)
	repos := filepath.Join(dir, "srv")
	makeRepository(t, filepath.Join(repos, "r.git"))
	makeRepository(t, filepath.Join(repos, "pub", "log.git"))
	conf := filepath.Join(dir, "gitweb.conf")
	err := os.WriteFile(conf, []byte("$projectroot = '"+repos+"';\n$feature{'pathinfo'}{'default'} = [1];\n$feature{'blame'}{'default'} = [1];\n"+
		"$feature{'snapshot'}{'default'} = ['tgz'];\n@git_base_url_list = ();\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "fcgi")
	helperProgram(t, socket, "fcgiwrap", "-c", "4", "-s", "unix:"+socket)
	s := build(t, rules, nginxtest.Options{Site: `
server {
    listen 80;
    include snippets/stile.conf;
    location ~ \.git/(HEAD|info/refs|objects/.+)$ { root ` + repos + `; }
    location / {
        fastcgi_pass  unix:` + socket + `;
        fastcgi_param SCRIPT_FILENAME ` + program + `;
        fastcgi_param GITWEB_CONFIG   ` + conf + `;
        fastcgi_param PATH_INFO       $uri;
        fastcgi_param QUERY_STRING    $args;
        fastcgi_param REQUEST_METHOD  $request_method;
        fastcgi_param REQUEST_URI     $request_uri;
        fastcgi_param SCRIPT_NAME     "";
        fastcgi_param SERVER_NAME     site.example;
        fastcgi_param SERVER_PORT     80;
        fastcgi_param SERVER_PROTOCOL $server_protocol;
    }
}
`})
	s.daemon.start()
	return s
}

// What people look at goes through, and is counted; beyond the limits it is refused, and programs go on.
func TestPresetGitweb(t *testing.T) {
	t.Parallel()
	s := openGitweb(t, "include = [\"preset:gitweb\"]\n")

	v := s.visitorFrom("127.0.0.1", append(firefox[:3:3], "Accept-Encoding: identity")...)
	v.kept = true
	has := v.sees
	has("/", "pub/log.git")
	has("/?p=r.git", "change 5")
	has("/?p=r.git;a=log", "change 0")
	has("/?p=r.git&a=commitdiff&h=HEAD", "change 5")
	has("/r.git/shortlog/refs/heads/main", "change 0")
	has("/r.git/blob_plain/main:/a3", "a 3")
	has("/?p=r.git;a=snapshot;h=HEAD;sf=tgz", "\x1f\x8b")
	has("/?p=r.git;a=rss", "<rss")
	for rule, want := range map[string]float64{"gitweb/query": 2, "gitweb/words": 2, "gitweb/snapshot-query": 1, "gitweb/feeds": 1, "generic/pages": 2} {
		if n := s.daemon.metric("stile_rule_hits_total", rule); n != want {
			t.Errorf("rule %s was hit %v times, want %v", rule, n, want)
		}
	}

	// C030: beyond the limit for expensive pages those are refused, however their questions are parted, spelled and
	// dressed, wherever gitweb would answer with them; feeds and git go on.
	p := s.exhaust("/?p=r.git;a=log")
	for _, target := range []string{
		"/?p=r.git;a=commitdiff;h=HEAD", "/?p=r.git&a=commitdiff&h=HEAD", "/?a=commitdiff;p=r.git", "/?p=r.git;%61=log", "/?p=r.git;a=%6cog", "/?p=r.git&&;a=log",
		"/?a=log&p=r.git&a=summary", "/?p=r.git;a=rss;f=a0", "/?p=r.git;h=HEAD", "/r.git/log", "/r.git/%6cog", "/r.git//log/main", "/r.git/main", "/r.git/main:/a0", "/r.git/HEAD:/a0",
		"/pub/log.git/log/x.css", "/r.git/tree/x.png?v=1", "/r.git/log/info/refs", "/static/..;/r.git/log", "/r.git/log?go-get=1", "/gitweb.css?p=r.git;a=log",
	} {
		if r := p.get(target); r.Status != 503 || !isText(r) {
			t.Errorf("%s: %d %.80s", target, r.Status, r.Body)
		}
	}
	if r := p.get("/?p=r.git;a=atom"); r.Status != 200 || !strings.Contains(r.Body, "<feed") {
		t.Errorf("the feed: %d", r.Status)
	}
	c := filepath.Join(t.TempDir(), "c")
	out, ok := s.git("", dumb, "clone", "-q", "http://"+s.Addr(80)+"/pub/log.git", c)
	if _, err := os.Stat(filepath.Join(c, "a5")); err != nil || !ok {
		t.Errorf("git says ok: %v, %v: %s", ok, err, out)
	}
}
