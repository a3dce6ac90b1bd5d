// Package install has the tests of deploy.sh install: on a copy of this machine that is
// thrown away afterwards.
package install

import (
	"fmt"
	"strings"
	"testing"
)

const release = "/srv/release/"

// install is deploy.sh install of a release, which must succeed.
func (s *sandbox) install(name string) string {
	s.t.Helper()
	out, status := s.deploy("install --from " + release + name)
	if status != 0 {
		s.t.Fatalf("./deploy.sh install: exit status %d", status)
	}
	return out
}

// protect puts stile's line into the site, as the script says.
func (s *sandbox) protect() {
	s.t.Helper()
	s.write("/etc/nginx/sites-enabled/default", strings.Replace(site, "root", "include snippets/stile.conf;\n    root", 1))
	s.reload()
}

// reload returns when only workers with the new files are left.
func (s *sandbox) reload() {
	s.t.Helper()
	s.do(`nginx -t && pid=$(cat /run/nginx.pid) && old=$(cat /proc/$pid/task/$pid/children) && systemctl reload nginx &&
		for worker in $old; do while kill -0 $worker 2>/dev/null; do :; done; done`)
}

func (s *sandbox) running() string {
	s.t.Helper()
	return s.do("systemctl show -p MainPID --value stile.service; sha256sum /proc/$(systemctl show -p MainPID --value stile.service)/exe")
}

func contains(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: not said: %q", what, want)
		}
	}
}

// All of it in the order in which a user meets it.
func TestInstallUpgradeUninstall(t *testing.T) {
	t.Parallel()
	s := start(t)
	before := s.changes()

	out, status := s.deploy("install --dry-run --preset generic")
	if got := s.changes(); status != 0 || got != before {
		t.Fatalf("--dry-run: %d\n%s", status, got)
	}
	contains(t, "--dry-run", out, "make the user and group stile", "create   /usr/local/bin/stile", "create   /etc/stile/stile.toml", "restart stile.service")

	// The first time, built here.
	out, status = s.deploy("install --preset=generic")
	if status != 0 {
		t.Fatal("the first installation fails")
	}
	contains(t, "install", out, "ok: stile", "is installed", "include snippets/stile.conf;", "/etc/nginx/sites-enabled/default:1  (server www.example.org)")
	s.do(`[ "$(curl -s http://www.example.org/ --connect-to ::127.0.0.1:80)" = "the site" ] && grep '^include = \["preset:generic"\]' /etc/stile/stile.toml`)
	out, status = s.deploy("verify")
	if status != 0 {
		t.Error("verify fails before there is a line")
	}
	contains(t, "verify", out, "all files are as they were installed", "include snippets/stile.conf;")

	s.protect()
	s.do("echo 10 >/proc/sys/net/unix/max_dgram_qlen")
	out, status = s.deploy("verify")
	if status != 0 {
		t.Error("verify fails")
	}
	contains(t, "verify", out, "requests to www.example.org (127.0.0.1:80, /etc/nginx/sites-enabled/default:1) are decided by this daemon", "net.unix.max_dgram_qlen is 10")

	// What nginx keeps from being asked about is named.
	s.write("/etc/nginx/sites-enabled/hole", "server { listen 81; include snippets/stile.conf; root /srv/site; location /gone/ { error_page 404 /404.html; } }")
	s.reload()
	out, status = s.deploy("verify")
	if status != 0 {
		t.Error("verify fails for a hole that is not its own")
	}
	contains(t, "verify", out, "stile check --nginx - has found errors", "/etc/nginx/sites-enabled/hole:1")
	s.do("rm /etc/nginx/sites-enabled/hole")
	s.reload()

	// Nothing new.
	running, files := s.running(), s.changes()
	out, status = s.deploy("install")
	if status != 0 || s.running() != running || s.changes() != files {
		t.Error("the second installation is not without effect")
	}
	contains(t, "install again", out, "unchanged")

	// A newer version, with a configuration that has been written, and a file of nginx's that has been changed.
	s.do(`sed -i '1i # mine' /etc/stile/stile.toml; echo '# mine' >>/etc/nginx/snippets/stile-guard.conf`)
	mine := s.do("cat /etc/stile/stile.toml /var/lib/stile/key")
	out = s.install("newer")
	contains(t, "upgrade", out, "changed by hand", "/etc/nginx/snippets/stile-guard.conf", "./deploy.sh rollback", "are decided by this daemon")
	if got := s.do("cat /etc/stile/stile.toml /var/lib/stile/key"); got != mine {
		t.Errorf("the configuration and the key are\n%s\nwere\n%s", got, mine)
	}
	if got := s.running(); got == running || !strings.Contains(got, releaseSum(t, "newer")) {
		t.Errorf("what runs after the upgrade: %s", got)
	}

	// And back, and forth.
	for i, want := range []string{strings.Fields(running)[1], releaseSum(t, "newer")} {
		out, status = s.deploy("rollback")
		if got := s.running(); status != 0 || !strings.Contains(got, want) {
			t.Errorf("rollback %d: exit status %d; %s runs, want %s", i, status, got, want)
		}
		contains(t, "rollback", out, "runs again")
		s.do(fmt.Sprintf(`[ "$(grep -c mine /etc/nginx/snippets/stile-guard.conf)" = %d ]`, 1-i))
	}

	// Out, while the line is still there, and a log format that uses a name.
	s.write("/etc/nginx/conf.d/log.conf", `log_format stile '$remote_addr $stile_verdict';`)
	out, status = s.deploy("uninstall")
	if status != 0 {
		t.Error("uninstall fails")
	}
	contains(t, "uninstall", out, "/etc/nginx/sites-enabled/default:4: include snippets/stile.conf;", "/etc/nginx/conf.d/log.conf:1: log_format")
	s.do(`nginx -t && [ "$(curl -s http://127.0.0.1/)" = "the site" ] && ! systemctl is-active stile.service && ! systemctl is-active stile.socket`)
	s.do(`! ls -d /usr/local/bin/stile /usr/local/lib/stile /etc/nginx/snippets/stile.d /etc/systemd/system/stile* 2>/dev/null && ls /etc/stile/stile.toml /var/lib/stile/key`)
	out, status = s.deploy("uninstall")
	if status != 0 {
		t.Error("uninstall once more fails")
	}
	contains(t, "uninstall once more", out, "/etc/nginx/sites-enabled/default:4")

	// Installed again over what is left.
	s.install("stile")
	s.do("ls /etc/nginx/snippets/stile.d/server.conf && grep mine /etc/stile/stile.toml")
	s.deploy("uninstall")

	// And without the line.
	s.write("/etc/nginx/sites-enabled/default", site)
	s.do("rm /etc/nginx/conf.d/log.conf")
	s.reload()
	if _, status = s.deploy("uninstall --purge"); status != 0 {
		t.Error("uninstall --purge fails")
	}
	if after := s.changes(); after != before {
		t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
	}
	s.do(`[ "$(curl -s http://127.0.0.1/)" = "the site" ] && ! id stile`)
}

// What is wrong with the machine, the binary or the command is found before anything has changed.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	// f prepares something, calls deploy.sh, and puts it right again.
	f := func(want, prepare, args, restore string) {
		t.Helper()
		s.do(prepare)
		before := s.changes()
		out, status := s.deploy(args)
		if status == 0 || !strings.Contains(out, want) {
			t.Errorf("%s; ./deploy.sh %s: exit status %d, want %q", prepare, args, status, want)
		}
		if after := s.changes(); after != before {
			t.Errorf("%s; ./deploy.sh %s has changed\n%s\nfrom\n%s", prepare, args, after, before)
		}
		s.do(restore)
	}
	good := "install --from " + release + "stile"

	// The machine.
	f("there is no nginx", "mv /usr/sbin/nginx /usr/sbin/nginx.away", good, "mv /usr/sbin/nginx.away /usr/sbin/nginx")
	f("unknown directive \"bogus\"", "echo 'bogus on;' >/etc/nginx/conf.d/x.conf", good, "rm /etc/nginx/conf.d/x.conf")
	f("built without auth_request", "printf '#!/bin/sh\nexec /usr/sbin/nginx \"$@\" 2>&1 | sed s/--with-http_auth_request_module//\n' >/stand-in/bin/nginx; chmod 755 /stand-in/bin/nginx", good, "rm /stand-in/bin/nginx")
	f("systemd does not run here", "rmdir /run/systemd/system", good, "mkdir /run/systemd/system")
	f("127.0.0.1:9406 is in use: by \"nginx\"", "echo 'server { listen 127.0.0.1:9406; }' >/etc/nginx/conf.d/x.conf; nginx -s reload; until curl -s http://127.0.0.1:9406/; do :; done", good, "rm /etc/nginx/conf.d/x.conf; nginx -s reload; while curl -s http://127.0.0.1:9406/; do :; done")
	f("127.0.0.1:9406 is in use", "echo 'server { listen 9406; }' >/etc/nginx/conf.d/x.conf; nginx -s reload; until curl -s http://127.0.0.1:9406/; do :; done", good, "rm /etc/nginx/conf.d/x.conf; nginx -s reload; while curl -s http://127.0.0.1:9406/; do :; done")
	f("/run/stile/stile.sock is in use", "mkdir /run/stile; echo 'server { listen unix:/run/stile/stile.sock; }' >/etc/nginx/conf.d/x.conf; nginx -s reload; until curl -s --unix-socket /run/stile/stile.sock http://x/; do :; done", good, "rm /etc/nginx/conf.d/x.conf; nginx -s reload; while curl -s --unix-socket /run/stile/stile.sock http://x/; do :; done; rm -r /run/stile")
	f("the disk is full: /usr/local/lib", "mount -t tmpfs -o size=4m full /usr/local/lib", good, "umount /usr/local/lib")
	f("No space left on device", "mount -t tmpfs -o size=1m full /usr/local/bin", good, "umount /usr/local/bin")
	f("another ./deploy.sh is at work", "flock /run/deploy.sh.lock sleep 1000 & echo $! >/tmp/flock.pid; until ! flock -n /run/deploy.sh.lock true; do :; done", good, "kill $(pgrep -P $(cat /tmp/flock.pid)); rm /tmp/flock.pid")
	out, status := s.try("setpriv --reuid nobody --regid nogroup --clear-groups ./deploy.sh " + good)
	if status == 0 || !strings.Contains(out, "must be run as root") {
		t.Errorf("as nobody: %d\n%s", status, out)
	}

	// The binary.
	sums := func(name string) string { return release + name + " --sha256 " + releaseSum(t, name) }
	f("wrong sum", ":", "install --from "+release+"stile --sha256 "+strings.Repeat("0", 64), ":")
	f("wrong sum", ":", "install --sha256 "+strings.Repeat("0", 64), ":") // what is built here
	f("want 64 hexadecimal digits", ":", "install --from "+release+"stile --sha256 1234", ":")
	f("wrong sum", ":", "install --from "+release+"short --sha256 "+releaseSum(t, "stile"), ":")
	f("wrong sum", "cp "+release+"SHA256SUMS /tmp/sums; sed -i '/ newer$/s/^..../0000/' "+release+"SHA256SUMS", "install --from "+release+"newer", "mv /tmp/sums "+release+"SHA256SUMS")
	f("has no single sum for stile", "mv "+release+"SHA256SUMS "+release+"away; grep -v ' stile$' "+release+"away >"+release+"SHA256SUMS", good, ":")
	f("has no single sum for stile", "cat "+release+"away "+release+"away >"+release+"SHA256SUMS", good, ":")
	f("there is no "+release+"SHA256SUMS", "rm "+release+"SHA256SUMS", good, "mv "+release+"away "+release+"SHA256SUMS")
	f("there is no file", ":", "install --from "+release+"none", ":")
	f("is no program for this machine", ":", "install --from "+sums("arm"), ":")
	f("is no program for this machine", ":", "install --from "+sums("page.html"), ":")
	f("fails its own 'version'", ":", "install --from "+sums("version"), ":")
	f("says it is \"stile 0.0.9\"", ":", "install --from "+sums("other"), ":")

	// From afar.
	ca := "export CURL_CA_BUNDLE=/stand-in/ca.pem; "
	from := func(url, want string) {
		t.Helper()
		before := s.changes()
		out, status := s.try(ca + "./deploy.sh install --from " + url)
		if after := s.changes(); status == 0 || !strings.Contains(out, want) || after != before {
			t.Errorf("--from %s: exit status %d, want %q:\n%s\n%s", url, status, want, out, after)
		}
	}
	from("https://127.0.0.1:8443/none", "has no single sum for none")
	from("https://127.0.0.1:8443/none/stile", "none/SHA256SUMS failed")
	from("https://127.0.0.1:8443/none --sha256 "+releaseSum(t, "stile"), "failed or broke off")
	from("https://127.0.0.1:8443/cut/stile --sha256 "+releaseSum(t, "stile"), "failed or broke off")
	from("https://127.0.0.1:8443/away/stile --sha256 "+releaseSum(t, "stile"), "failed or broke off")
	from("https://127.0.0.1:8443/short --sha256 "+releaseSum(t, "stile"), "wrong sum")
	from("http://127.0.0.1:8480/stile", "add --sha256")
	from("ftp://127.0.0.1/stile", "want a file, or a URL with https")
	before := s.changes()
	for _, args := range []string{"https://127.0.0.1:8443/stile", "http://127.0.0.1:8480/away/stile --sha256 " + releaseSum(t, "stile")} {
		if out, status := s.try(ca + "./deploy.sh install --dry-run --from " + args); status != 0 || s.changes() != before {
			t.Errorf("--from %s: %d\n%s", args, status, out)
		}
	}

	// What it shall do.
	f("there is no preset \"forum\" in this version: there is ", ":", good+" --preset forum", ":")
	f("there is no preset \".*\"", ":", good+" --preset '.*'", ":")
	f("stile.toml:1:", "mkdir /etc/stile; echo 'mode = 1' >/etc/stile/stile.toml", good, "rm -r /etc/stile")
	f("stile is not installed", ":", "verify", ":")
	f("no earlier version", ":", "rollback", ":")
	f("stile is not installed", ":", "uninstall", ":")
	f("install does not know \"--purge\"", ":", "install --purge", ":")
	f("--from wants a value", ":", "install --from", ":")
	f("verify does not know \"x\"", ":", "verify x", ":")
}
