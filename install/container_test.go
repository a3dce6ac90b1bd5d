package install

import "testing"

// Without systemd: the README's container. No network, a read-only root that has nothing in it but the binary and its
// configuration, some user that no file knows, and two folders that can be written to.
func TestContainer(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do(`set -e
		mkdir -p /srv/container /srv/state
		install -d -m 750 -o 12345 -g www-data /run/stile
		chown 12345 /srv/state
		mount -t tmpfs container /srv/container
		mkdir -p /srv/container/run/stile /srv/container/var/lib/stile /srv/container/etc/stile
		cp /srv/release/stile /srv/container/stile
		printf '[listen]\nadmin = "unix:/run/stile/admin.sock"\n' >/srv/container/etc/stile/stile.toml
		mount --bind /run/stile /srv/container/run/stile
		mount --bind /srv/state /srv/container/var/lib/stile
		mount -o remount,ro container /srv/container
		! touch /srv/container/x 2>/dev/null`)
	s.do(`cat >/tmp/serve.sh <<'END'
exec unshare --net --root=/srv/container --setuid 12345 --setgid 12345 -- /stile serve
END
		(sh /tmp/serve.sh >/tmp/serve.log 2>&1 </dev/null & echo $! >/tmp/serve.pid)
		until grep -q msg=ready /tmp/serve.log; do kill -0 $(cat /tmp/serve.pid) || { cat /tmp/serve.log; exit 1; }; done`)

	// nginx beside it: as the README says, by hand.
	s.do(`cp -r nginx/snippets/. /etc/nginx/snippets/ && cp nginx/stile.conf /etc/nginx/conf.d/stile.conf`)
	s.protect()
	f := func(what string) {
		t.Helper()
		s.do(`[ "$(curl -s http://127.0.0.1/)" = "the site" ]`)
		if got := s.do(`curl -sf --unix-socket /run/stile/admin.sock http://stile/metrics | awk '/^stile_checks_total/ && !/misconfigured|repeat/ { n += $2 } END { print n }'`); got != "1\n" {
			t.Errorf("%s: of one request %s were decided", what, got)
		}
	}
	f("at first")
	s.do(`stat -c '%a %u %n' /srv/state/key | grep '^600 12345 '`)

	// Its end leaves the site open, and the next one finds the key.
	s.do(`cp /srv/state/key /tmp/key; kill $(cat /tmp/serve.pid); while kill -0 $(cat /tmp/serve.pid) 2>/dev/null; do :; done
		[ "$(curl -s http://127.0.0.1/)" = "the site" ]
		>/tmp/serve.log; (sh /tmp/serve.sh >/tmp/serve.log 2>&1 </dev/null & echo $! >/tmp/serve.pid)
		until grep -q msg=ready /tmp/serve.log; do :; done; cmp /srv/state/key /tmp/key`)
	f("after a restart")

	// The same machine with systemd after all: what was put there by hand is kept.
	s.do(`kill $(cat /tmp/serve.pid); rm -r /run/stile; echo '# by hand' >>/etc/nginx/snippets/stile-gate.conf`)
	s.install("stile")
	s.do(`tail -n 1 /usr/local/lib/stile/replaced/etc/nginx/snippets/stile-gate.conf | grep 'by hand' && ! grep 'by hand' /etc/nginx/snippets/stile-gate.conf`)
}
