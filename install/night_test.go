package install

import (
	"strings"
	"testing"
)

// A configuration that the running version does not accept is one that it could not be started with again:
// that is seen before it is stopped.
func TestNoWayBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.install("stile")
	s.protect()
	s.do(`printf '[future]\nx = 1\n' >>/etc/stile/stile.toml`)
	before := s.state()
	out, status := s.deploy("install --from " + release + "keys")
	if status == 0 || s.state() != before {
		t.Errorf("exit status %d, leaves\n%s\nwas\n%s", status, s.state(), before)
	}
	contains(t, "install", out, "could not be started again", "nothing has been changed", "stile.toml:")
}

// What cannot be said any more is no reason to leave things half done: here the reader of a pipe goes, as
// tee does at Ctrl-C.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	s := start(t)
	before := s.state()
	out, _ := s.try("./deploy.sh install --from " + release + "dies 2>&1 | sed '/asking the running/q'")
	s.do("flock /run/deploy.sh.lock true") // until the script has ended, too
	if after := s.state(); after != before {
		t.Errorf("leaves\n%s\nwas\n%s\nsaid\n%s", after, before, out)
	}
}

// Other users of the machine cannot keep the script from working.
func TestLock(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do(`touch /tmp/held; for file in /etc/nginx /run/deploy.sh.lock; do
		setpriv --reuid nobody --regid nogroup --clear-groups flock $file sh -c 'echo >>/tmp/held; exec sleep 1000' 2>/dev/null & done; sleep 1`)
	s.install("stile")
	s.do("stat -c %a /run/deploy.sh.lock | grep -x 600")
}

// How nginx's user may be written.
func TestGroup(t *testing.T) {
	t.Parallel()
	s := start(t)
	f := func(user, want string) {
		t.Helper()
		s.do("sed -i 's/^user .*/" + user + "/' /etc/nginx/nginx.conf")
		s.install("stile")
		s.do("grep -x SocketGroup=" + want + " /etc/systemd/system/stile.socket")
		s.deploy("uninstall")
	}
	f("user www-data; # as Debian has it", "www-data")
	f("user www-data nogroup;# both", "nogroup")
	f(`user "www-data";`, "www-data")
}

// A site whose front page is answered by return is protected all the same.
func TestFrontPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.install("stile")
	s.write("/etc/nginx/sites-enabled/default", strings.Replace(site, "root", "include snippets/stile.conf;\n    location = / { return 302 /wiki/; }\n    root", 1))
	s.reload()
	out, status := s.deploy("verify")
	if status != 0 {
		t.Error("verify fails")
	}
	contains(t, "verify", out, "requests to www.example.org (127.0.0.1:80, /etc/nginx/sites-enabled/default:1) are decided by this daemon")
}

// A site may name parts of stile by itself. Without them nginx would start, and answer 500.
func TestUninstallNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.install("stile")
	s.write("/etc/nginx/sites-enabled/default", strings.Replace(site, "root", `include snippets/stile.conf;
    location = /a { auth_request /.stile/check; try_files /index.html =404; }
    location = /b { error_page 401 = @stile_challenge; auth_basic x; auth_basic_user_file /dev/null; }
    root`, 1))
	s.reload()
	s.do(`[ "$(curl -s http://127.0.0.1/a)" = "the site" ]`)
	before := s.state()
	out, status := s.deploy("uninstall")
	if status == 0 || s.state() != before {
		t.Errorf("uninstall: exit status %d, leaves\n%s\nwas\n%s", status, s.state(), before)
	}
	contains(t, "uninstall", out, "/etc/nginx/sites-enabled/default:5: location = /a", "/etc/nginx/sites-enabled/default:6: location = /b")
}

// --dry-run installs no packages either.
func TestDryPackages(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do(`mv /usr/bin/curl /usr/bin/curl.away; printf '#!/bin/sh\necho "$*" >>/tmp/apt\nexit 1\n' >/stand-in/bin/apt-get; chmod 755 /stand-in/bin/apt-get`)
	out, status := s.deploy("install --dry-run --from " + release + "stile")
	if status == 0 {
		t.Error("it goes on without curl")
	}
	contains(t, "install", out, "curl")
	s.do("! cat /tmp/apt")
}

// What other visitors ask meanwhile is not taken for an answer to the script's own question.
func TestVerifyUnderTraffic(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.install("stile")
	s.write("/etc/nginx/sites-enabled/default", strings.Replace(site, "root", "include snippets/stile.conf;\n    root", 1)+
		"server { listen 81; server_name aside.example; include snippets/stile.conf; location / { auth_request off; } }\n")
	s.reload()
	s.do(`(while :; do curl -s -o /dev/null http://127.0.0.1/; done) >/dev/null 2>&1 </dev/null & echo $! >/tmp/visitor`)
	out, status := s.deploy("verify")
	s.do("kill $(cat /tmp/visitor)")
	if status != 0 {
		t.Error("verify fails")
	}
	contains(t, "verify", out, "requests to www.example.org", "of aside.example (127.0.0.1:81")
}
