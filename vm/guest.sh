#!/usr/bin/env bash
# shellcheck disable=SC2016 # until_true evaluates its text itself
# What vm/test.sh runs in the virtual machine, as root, in /test: a line for each thing that is
# as it should be, and an end with the reasons at the first that is not.
set -euo pipefail

cd /test
SITE=http://127.0.0.1
ADMIN=http://127.0.0.1:9406
TOML=/etc/stile/stile.toml

passed=0
visitor=''

ok() {
	passed=$((passed + 1))
	printf 'ok %d: %s\n' "$passed" "$*"
}

info() { printf '   %s\n' "$*"; }

wrong() {
	printf 'WRONG: %s\n' "$*"
	exit 1
}

# finish says what can be known when something was wrong.
finish() {
	local status=$?
	set +e
	[ -z "$visitor" ] || kill "$visitor"
	[ "$status" -ne 0 ] || return
	printf -- '--- visitor\n'
	tail -n 20 visitor.txt
	printf -- '--- deploy.sh\n'
	tail -n 40 said.txt
	printf -- '--- journal\n'
	journalctl -q --no-pager -o short-precise -n 60 -u stile.service -u stile.socket -u nginx
	systemctl --no-pager status stile.service stile.socket
	printf -- '--- nginx\n'
	tail -n 20 /var/log/nginx/error.log
	printf 'ended with status %d after %d checks\n' "$status" "$passed"
}
trap finish EXIT
trap 'printf "WRONG: line %d: %s\n" "$LINENO" "$BASH_COMMAND"' ERR

# deploy runs the script; what it says is in said.txt, and its status is the function's.
deploy() {
	printf '   $ ./deploy.sh %s\n' "$*"
	local status=0
	(cd stile && ./deploy.sh "$@") >said.txt 2>&1 || status=$?
	sed 's/^/   | /' said.txt
	return "$status"
}

said() { grep -q -- "$1" said.txt || wrong "deploy.sh did not say \"$1\""; }

show() { systemctl show -p "$1" --value "${2:-stile.service}"; }

# until_true SECONDS COMMAND waits for what other programs are about to do.
until_true() {
	local seconds=$1 tries
	for ((tries = 0; tries < seconds * 5; tries++)); do
		! eval "$2" || return 0
		sleep 0.2
	done
	wrong "not within $seconds s: $2"
}

# status and header ask the site.
status() { curl -s -o /dev/null -w '%{http_code}' --max-time 40 "$@"; }
header() {
	local name=$1
	shift
	curl -s -o /dev/null -D - --max-time 40 "$@" | tr -d '\r' | sed -n "s/^$name: *//Ip"
}
judged() { [ "$(header X-Stile-Status "$SITE/load/page")" = 200 ]; }

self_checks() { curl -s --max-time 5 "$ADMIN/metrics" | sed -n "s/^stile_self_checks_total{result=\"$1\"} //p"; }

begin_visit() {
	./client "$SITE/load/page" 4 >visitor.txt 2>&1 &
	visitor=$!
	sleep 1
}

# end_visit says how the visitor fared. unjudged: how many requests nginx may have let through by
# itself, "none" or "some".
end_visit() {
	local may=$1 summary
	sleep 1
	kill "$visitor"
	wait "$visitor" || true
	visitor=''
	summary=$(tail -n 1 visitor.txt)
	info "visitor: $summary"
	[[ $summary == asked=*' failed=0 '* ]] || wrong "requests failed"
	[[ $summary != asked=0* ]] || wrong "the visitor has asked nothing"
	[ "$may" = some ] || [[ $summary == *' unjudged=0 '* ]] || wrong "requests were let through unjudged"
}

main_pid() { show MainPID; }
installed() { sha256sum </usr/local/bin/stile; }
build() { sha256sum <"$1/stile"; }

the_machine() {
	systemctl is-active -q nginx || wrong "nginx does not run"
	rm -f /etc/nginx/sites-enabled/default
	mkdir -p /srv/site/load /srv/site/closed
	echo hello >/srv/site/index.html
	echo page | tee /srv/site/load/page >/srv/site/closed/page
	cat >/etc/nginx/sites-enabled/site.conf <<-'NGINX'
		server {
		    listen 80;
		    server_name site.test;
		    root /srv/site;
		    location / { }
		}
	NGINX
	nginx -t 2>/dev/null
	systemctl reload nginx
	until_true 10 'curl -sf -o /dev/null $SITE/'
	ok "$(sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release), systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), $(nginx -v 2>&1): the site is served"
	[ "$(sysctl -n net.unix.max_dgram_qlen)" -ge 512 ] || wrong "net.unix.max_dgram_qlen is $(sysctl -n net.unix.max_dgram_qlen)"
	ok "net.unix.max_dgram_qlen is $(sysctl -n net.unix.max_dgram_qlen) on a machine with systemd"
}

fresh_install() {
	deploy install --from ../release/stile --dry-run
	{ [ ! -e /etc/stile ] && [ ! -e /usr/local/bin/stile ] && ! id stile >/dev/null 2>&1; } || wrong "--dry-run has changed something"
	ok "--dry-run changes nothing"

	! deploy install --from ../release/stile --sha256 "$(printf '%064d' 0)" || wrong "a wrong sum was accepted"
	said "wrong sum"
	[ ! -e /usr/local/bin/stile ] || wrong "a binary with a wrong sum was installed"
	ok "a wrong sum ends it before anything has changed"

	deploy install --from ../release/stile
	[ "$(installed)" = "$(build release)" ] || wrong "another binary is installed"
	[ "$(show ActiveState)/$(show SubState)" = active/running ] || wrong "stile.service is $(show ActiveState)"
	said "include snippets/stile.conf;"
	ok "a fresh installation runs, and says which line is missing: $(show StatusText)"
}

the_units() {
	local socket
	for socket in stile.sock lease.sock; do
		[ "$(stat -c '%F %a %U %G' "/run/stile/$socket")" = "socket 660 stile www-data" ] || wrong "$socket is $(stat -c '%F %a %U %G' "/run/stile/$socket")"
	done
	[ "$(ss -Hxl 'src /run/stile/stile.sock' | awk '{ print $4 }')" = 4096 ] || wrong "the backlog is $(ss -Hxl 'src /run/stile/stile.sock')"
	ok "the sockets are nginx's and the daemon's, with a backlog of 4096"

	[ "$(readlink "/proc/$(main_pid)/ns/net")" != "$(readlink /proc/1/ns/net)" ] || wrong "the daemon has the machine's network"
	[ "$(curl -s "$ADMIN/healthz")" = ok ] || wrong "/healthz does not answer"
	ok "the daemon has no network, and answers on the port that it was handed"

	until_true 20 '[ "$(self_checks answered)" -gt 1 ]'
	[ "$(self_checks failed)" -eq 0 ] || wrong "the daemon does not answer itself"
	ok "the watchdog is fed: $(self_checks answered) answers of the daemon to itself"

	info "$(systemd-analyze security --no-pager stile.service | tail -n 1)"
	systemd-analyze security --no-pager --threshold=15 stile.service >/dev/null || wrong "more exposed than 1.5"
	ok "systemd-analyze security says at most 1.5, of the running service"

	! journalctl -q --no-pager -u stile.service -o cat | grep -E 'level=(WARN|ERROR)' || wrong "the daemon has complaints about a fresh installation"
	ok "nothing to complain of in its log"
}

the_line() {
	# shellcheck disable=SC2016 # nginx's own names
	sed -i 's|^    root .*|&\n    include snippets/stile.conf;\n    add_header X-Stile-Status $stile_status always;|' /etc/nginx/sites-enabled/site.conf
	nginx -t 2>/dev/null
	systemctl reload nginx
	until_true 10 '[ -n "$(header X-Stile-Status $SITE/)" ]'
	deploy verify
	said "are decided by this daemon"
	ok "with the include line the site is protected, and verify says so"

	cat >>"$TOML" <<-'RULES'

		[[meter]]
		name = "load"
		window = "1m"
		stranger = 1000000
		pass = 1000000
		user = 1000000
		strangers = 1000000

		[[rule]]
		name = "load"
		path = "/load/**"
		do = "meter"
		meter = ["load"]

		[[rule]]
		name = "closed"
		path = "/closed/**"
		do = "challenge"
	RULES
	systemctl reload stile
	until_true 10 '[ "$(status -H "Accept: text/html" $SITE/closed/page)" = 503 ]'
	curl -s -H 'Accept: text/html' "$SITE/closed/page" >page.html
	grep -q '/.stile/stile.js' page.html || wrong "the page is not the challenge: $(head -c 300 page.html)"
	[ "$(curl -s "$SITE/load/page")" = page ] || wrong "the site is not served"
	ok "after systemctl reload a new rule holds: curl sees the challenge"

	cp "$TOML" kept.toml
	echo 'nonsense = 1' >>"$TOML"
	local before
	before=$(main_pid)
	! systemctl reload stile 2>/dev/null || wrong "a reload of a broken file is said to have worked"
	{ [ "$(main_pid)" = "$before" ] && judged; } || wrong "a broken file has done harm"
	cp kept.toml "$TOML"
	systemctl reload stile
	[ "$(main_pid)" = "$before" ] || wrong "a reload has restarted the daemon"
	ok "systemctl reload of a broken file fails, and changes nothing"
}

again() {
	local daemon master
	daemon=$(main_pid)
	master=$(show MainPID nginx.service)
	deploy install --from ../release/stile
	said unchanged
	{ [ "$(main_pid)" = "$daemon" ] && [ "$(show MainPID nginx.service)" = "$master" ]; } || wrong "something was restarted"
	cmp -s "$TOML" kept.toml || wrong "$TOML was touched"
	ok "a second installation says \"unchanged\" and restarts nothing"
}

restarts() {
	local i
	begin_visit
	for i in 1 2 3 4 5 6; do
		systemctl restart stile
		sleep 1
	done
	end_visit none
	systemctl reset-failed stile.service
	ok "$i restarts under load: no request failed, and none went unjudged"
}

upgrade() {
	local key
	key=$(sha256sum </var/lib/stile/key)
	begin_visit
	deploy install --from ../upgrade/stile
	end_visit none
	[ "$(installed)" = "$(build upgrade)" ] || wrong "the new binary is not installed"
	{ [ "$(sha256sum </var/lib/stile/key)" = "$key" ] && cmp -s "$TOML" kept.toml; } || wrong "key or configuration have changed"
	ok "an upgrade under load: no request failed, and none went unjudged"

	begin_visit
	deploy rollback
	[ "$(installed)" = "$(build release)" ] || wrong "the earlier binary is not back"
	deploy rollback
	[ "$(installed)" = "$(build upgrade)" ] || wrong "the later binary is not back"
	end_visit none
	ok "rollback, and back: no request failed, and none went unjudged"
}

failing_upgrade() {
	begin_visit
	! deploy install --from ../failing/stile || wrong "a binary that ends after three seconds was installed"
	end_visit some
	[ "$(installed)" = "$(build upgrade)" ] || wrong "the binary of before is not back"
	{ [ "$(show ActiveState)" = active ] && judged; } || wrong "the daemon of before does not do its work"
	grep -iqE 'deploy.sh: .*(ended|active|fail)' said.txt || wrong "it does not say what failed"
	ok "an upgrade that ends after three seconds is rolled back by itself; no request failed"
	deploy verify
	ok "and verify is content after it"
}

hanging() {
	local before begun
	before=$(main_pid)
	begun=$SECONDS
	begin_visit
	kill -STOP "$before"
	until_true 40 "judged_by_another $before"
	end_visit some
	journalctl -q --no-pager -u stile.service -o cat | grep -q 'Watchdog timeout' || wrong "it was not the watchdog"
	ok "kill -STOP: ended by the watchdog, and the site judged again after $((SECONDS - begun)) s; no request failed"
}

judged_by_another() { [ "$(main_pid)" != "$1" ] && [ "$(main_pid)" != 0 ] && judged; }

# A daemon that cannot start at all is given up, and nobody waits for it.
given_up() {
	systemctl reset-failed stile.service
	printf '\n[listen]\nadmin = "nonsense"\n' >>"$TOML"
	begin_visit
	systemctl restart stile 2>/dev/null || true
	until_true 120 '[ "$(show ActiveState stile.socket)" = failed ]'
	[ "$(status "$SITE/load/page")" = 200 ] || wrong "the site is not served without the daemon"
	# 502: refused at once. Of a socket that is open, and that nobody reads, it would be 504, after 30 s.
	[ "$(header X-Stile-Status "$SITE/load/page")" = 502 ] || wrong "visitors wait for a daemon that was given up"
	end_visit some
	ok "a daemon that never starts is given up, its sockets close, and the site is open at once; no request failed"
	cp kept.toml "$TOML"
	systemctl reset-failed stile.service stile.socket
	systemctl start stile.socket stile.service
	until_true 10 judged
	ok "started again, it judges"
}

uninstall() {
	begin_visit
	deploy uninstall
	sleep 1
	end_visit some
	[ "$(curl -s "$SITE/load/page")" = page ] || wrong "the site is not served"
	{ [ ! -e /usr/local/bin/stile ] && [ ! -e /etc/systemd/system/stile.service ] && [ ! -e /run/stile/stile.sock ]; } || wrong "something is left"
	{ [ -e "$TOML" ] && [ -e /var/lib/stile/key ]; } || wrong "configuration or key are gone"
	nginx -t 2>/dev/null
	ok "uninstalled: the site is served, no request failed; configuration and key are kept"

	deploy install --from ../release/stile
	until_true 10 judged
	cmp -s "$TOML" kept.toml || wrong "$TOML was touched"
	ok "installed again, with the configuration of before"

	sed -i '/stile/d' /etc/nginx/sites-enabled/site.conf
	systemctl reload nginx
	deploy uninstall --purge
	{ [ ! -e /etc/stile ] && [ ! -e /var/lib/stile ] && ! id stile >/dev/null 2>&1; } || wrong "something is left"
	! find /etc /usr/local /run /var/lib -path /var/lib/systemd -prune -o -name '*stile*' ! -name '*stile-test.service' -print | grep . || wrong "files are left"
	[ "$(curl -s "$SITE/load/page")" = page ] || wrong "the site is not served"
	ok "uninstall --purge leaves nothing, and the site is served"
}

main() {
	local part
	for part in the_machine fresh_install the_units the_line again restarts upgrade failing_upgrade hanging given_up uninstall; do
		"$part"
	done
	printf 'all %d checks passed in %d s\n' "$passed" "$SECONDS"
}

main
