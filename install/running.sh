# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of the other parts, which deploy.sh puts together
# Starting the daemon, and asking the running system whether it does its work.

SETTLE=5 # seconds after which a daemon that started counts as one that runs

# start_units starts the daemon anew. Its sockets stay open meanwhile, unless they change themselves.
start_units() {
	systemctl daemon-reload
	systemctl reset-failed stile.service stile.socket 2>/dev/null || true # earlier starts do not count
	if ! systemctl -q is-active stile.socket || has_changed "$UNITS/stile.socket"; then
		systemctl stop stile.service stile.socket 2>/dev/null || true
		systemctl start stile.socket || return 1
	fi
	systemctl restart stile.service
}

# stop_units ends the daemon for good, and removes its sockets, which systemd leaves.
stop_units() {
	local socket
	systemctl -q disable --now stile.service stile.socket 2>/dev/null || true
	while read -r socket; do rm -f "$socket"; done < <(sed -n 's,^Listen[A-Za-z]*=/,/,p' systemd/stile.socket)
	[ ! -d /run/stile ] || rmdir --ignore-fail-on-non-empty /run/stile
}

# listens prints what stile.socket listens on, drop-ins included: "/run/stile/stile.sock Stream".
listens() { systemctl show -p Listen --value stile.socket | sed -n 's/^\(.*\) (\([A-Za-z]*\))$/\1 \2/p'; }

# need_free_sockets ends the script when something else listens where stile will.
need_free_sockets() {
	local kind address
	if systemctl -q is-active stile.socket || systemctl -q is-active stile.service; then
		return 0
	fi
	while IFS='=' read -r kind address; do
		! in_use "$kind" "$address" ||
			die "$address is in use: by $(who_listens "$address"). Stop that first; nothing has been changed"
	done < <(grep '^Listen' systemd/stile.socket)
}

# in_use tells whether something listens on an address of a socket unit.
in_use() {
	local bytes own port
	case $2 in
	/*) awk -v path="$2" '$8 == path && ($4 == "00010000" || $5 == "0002") { found = 1 } END { exit !found }' /proc/net/unix ;;
	*)
		port=$(printf '%04X' "${2##*:}")
		mapfile -t bytes < <(tr . '\n' <<<"${2%:*}" | tac)
		own=$(printf '%02X' "${bytes[@]}"):$port # 127.0.0.1 is 0100007F there
		cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
			awk -v own="$own" -v port="$port" '$4 == "0A" && ($2 == own || $2 ~ "^0+:" port "$" || $2 ~ ("^0+FFFF0000" own "$")) { found = 1 } END { exit !found }'
		;;
	esac
}

# who_listens names the process, where that can be found out.
who_listens() {
	local who
	case $1 in
	/*) who=$(ss -Hlxp "src $1" 2>/dev/null) ;;
	*) who=$(ss -Hltnp "sport = :${1##*:}" 2>/dev/null) ;;
	esac
	who=$(sed -n 's/.*users:((\("[^"]*"\),\(pid=[0-9]*\).*/\1 (\2)/p' <<<"$who" | head -n 1)
	printf '%s' "${who:-another process}"
}

# admin asks the daemon's admin listener for a path.
admin() {
	local address
	address=$(listens | awk '$2 == "Stream" && $1 !~ /stile\.sock$/ { print $1; exit }')
	case $address in
	/*) curl -gsf --max-time 5 --unix-socket "$address" "http://stile$1" ;;
	*) curl -gsf --max-time 5 --noproxy '*' "http://$address$1" ;;
	esac
}

AGENT='stile deploy.sh verify' # which the daemon counts apart

# checks prints how many of this script's own questions have reached the daemon by way of nginx; those that it could not
# judge because nginx said too little do not count. A binary from before this count, after a rollback, has only that of all.
checks() {
	admin /metrics | awk '
		$1 == "stile_verify_checks_total" { own = $2; counted = 1 }
		/^stile_checks_total\{/ && !/reason="misconfigured"/ { all += $2 }
		END { printf "%d\n", counted ? own : all }'
}

# verify_daemon: the service runs, still runs some seconds later, and is the binary that was installed.
verify_daemon() {
	local main i waiting
	systemctl -q is-active stile.service || {
		fail "stile.service is not active"
		return 1
	}
	main=$(systemctl show -p MainPID --value stile.service)
	for ((i = 0; i < SETTLE; i++)); do
		sleep 1
		if ! systemctl -q is-active stile.service || [ "$(systemctl show -p MainPID --value stile.service)" != "$main" ]; then
			fail "stile.service started, and ended within $((i + 1)) s"
			return 1
		fi
	done
	[ "$(readlink "/proc/$main/exe")" = "$BINARY" ] || {
		fail "stile.service runs another program than $BINARY: $(readlink "/proc/$main/exe")"
		return 1
	}
	good "stile.service is active, and was so for $SETTLE s"
	[ "$(admin /healthz)" = ok ] || {
		fail "/healthz does not answer ok"
		return 1
	}
	good "/healthz answers"
	waiting=$(cat /proc/sys/net/unix/max_dgram_qlen)
	[ "$waiting" -ge 512 ] || warn "net.unix.max_dgram_qlen is $waiting: lines that give places in a gate back may be lost. Set it to 512 (sysctl), then restart stile.socket"
}

# verify_socket: nginx's workers can open the socket, and what they ask is answered.
verify_socket() {
	local socket before verdict
	socket=$(listens | awk '$2 == "Stream" && /stile\.sock / { print $1; exit }')
	before=$(checks)
	verdict=$(setpriv --reuid "$nginx_user" --regid "$nginx_group" --init-groups -- \
		curl -gsS --max-time 30 -A "$AGENT" -o /dev/null -D - --unix-socket "$socket" \
		-H 'X-Original-URI: /' -H 'X-Original-Method: GET' -H 'X-Real-IP: 127.0.0.1' -H "X-Request-ID: $(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')" \
		-H 'X-Forwarded-Proto: http' -H 'X-Forwarded-Host: localhost' http://stile/check | sed -n 's/^X-Stile-Verdict: *//Ip') || {
		fail "nginx's user $nginx_user cannot ask at $socket"
		return 1
	}
	if [ -z "$verdict" ] || [ "$(checks)" -le "$before" ]; then
		fail "a question at $socket was not decided by this daemon"
		return 1
	fi
	good "a question at $socket is answered, to nginx's user: ${verdict%$'\r'}"
}

# verify_sites: a request through nginx to each server with stile's line is decided by this daemon. That the
# site answers is not enough: it would also do so without stile. A path that nginx answers by return does not reach
# stile, and often that is the front page: there are others.
verify_sites() {
	local with at listen flags name before tries asked=0 decided=0 answer paths=(/ /robots.txt /stile-verify)
	while IFS=$'\t' read -r with at listen flags name; do
		[ -n "$with" ] || continue
		asked=$((asked + 1))
		answer=no
		for ((tries = 0; tries < 10; tries++)); do # workers of before the reload may take the first ones
			before=$(checks)
			if ask_server "$listen" "$flags" "$name" "${paths[tries % 3]}" && [ "$(checks)" -gt "$before" ]; then
				answer=yes
				break
			fi
			sleep 0.2
		done
		if [ "$answer" = yes ]; then
			decided=$((decided + 1))
			good "requests to $name ($listen, $at) are decided by this daemon"
		else
			warn "none of ${paths[*]} of $name ($listen, $at) was asked about: does it answer by return, or has it an auth_request of its own?"
		fi
	done < <(servers 1)
	if [ "$asked" -eq 0 ]; then
		unprotected=yes
		return 0
	fi
	[ "$decided" -gt 0 ] || {
		systemctl -q is-active nginx || fail "nginx.service is not active: start it first"
		fail "no request through nginx was decided by this daemon"
		return 1
	}
}

# say_holes repeats what stile itself finds in nginx's files: places that look protected and are not. They are
# the site's own, so nothing fails for them.
say_holes() {
	local said
	said=$("$BINARY" check -c "$CONFIG" --nginx "$work/nginx" 2>&1) || warn "nginx -T | stile check --nginx - has found errors:
$said"
}

# say_where names the line that protects a site, and where it goes, when there is none yet.
say_where() {
	local with at listen flags name
	[ -n "$unprotected" ] || return 0
	say
	say "No site is protected yet. Put this line into each server block that is to be:"
	say
	say "    include snippets/stile.conf;"
	say
	servers 0 | while IFS=$'\t' read -r with at listen flags name; do say "  in $at  (server $name)"; done 2>&1 | LC_ALL=C sort -u >&2
	say
	say "then: nginx -t && systemctl reload nginx && ./deploy.sh verify"
}

# verify_files: what was installed is what is there.
verify_files() {
	local bad
	bad=$(edited_files)
	if [ -n "$bad" ]; then
		warn "changed by hand since it was installed: ${bad//$'\n'/ }"
	else
		good "all files are as they were installed"
	fi
}

# why_not shows the service's last words.
why_not() {
	say "  its last words:"
	journalctl -q -u stile.service -n 15 --no-pager -o cat 2>/dev/null | sed 's/^/    /' >&2 || true
}
