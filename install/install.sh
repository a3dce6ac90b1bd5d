# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of the other parts, which deploy.sh puts together
# install, verify, rollback, uninstall: the order of things. The tools are in the files beside.

BINARY=/usr/local/bin/stile
LIB=/usr/local/lib/stile # the list of installed files, and what was there before
CONFIG=/etc/stile/stile.toml
STATE=/var/lib/stile
NGINX=/etc/nginx
UNITS=/etc/systemd/system
LOCK=/run/deploy.sh.lock

from='' sum='' preset='' dry='' purge='' # of the command line
work='' tree='' unprotected='' changed=()
nginx_version='' nginx_user='' nginx_group=''

# guarded runs a command in a process of its own, so that this one has nothing to do but to see how it ends:
# when it fails, or when somebody presses Ctrl-C, what it has done until then is undone here. (bash 5.2
# cannot be trusted with a trap in the middle of a command substitution.)
guarded() {
	local status=0 signal='' worker
	need_machine
	umask 077
	exec 9>>"$LOCK" # root's alone: what others may read they can lock, too
	umask 022
	flock -n 9 || die "another ./deploy.sh is at work"
	rm -rf "${BINARY%/*}"/.stile-deploy.* # of a run that was killed
	work=$(mktemp -d "${BINARY%/*}/.stile-deploy.XXXXXX") || die "nothing has been changed"
	tree=$work/tree
	mkdir "$tree"
	trap 'signal=129' HUP
	trap 'signal=130' INT
	trap 'signal=143' TERM
	set -m # a process group of its own: Ctrl-C on the terminal is for this process alone
	{
		trap farewell EXIT
		trap - INT TERM HUP
		"$1"
	} </dev/null &
	worker=$!
	set +m
	while :; do
		if [ -n "$signal" ]; then
			kill -TERM -- "-$worker" 2>/dev/null || true
			while kill -0 -- "-$worker" 2>/dev/null; do sleep 0.05; done # a command of its may still be writing
		fi
		status=0
		wait "$worker" 2>/dev/null || status=$?
		kill -0 "$worker" 2>/dev/null || break
	done
	trap '' INT TERM HUP PIPE # PIPE: "| tee" is gone at Ctrl-C, too
	set +e
	if [ "$status" -ne 0 ] && [ -n "$signal" ]; then status=$signal; fi
	if [ "$status" -ne 0 ] && [ "$1" != cmd_verify ] && [ -z "$dry" ] && [ -f "$LIB/undo" ]; then
		if [ -n "$signal" ]; then fail "interrupted: undoing what was done"; else fail "undoing what was done"; fi
		! undo || fail "everything is as it was before"
	fi
	[ ! -d "$LIB" ] || rmdir --ignore-fail-on-non-empty "$LIB"
	rm -rf "$work"
	exit "$status"
}

# need_machine ends the script unless it can do anything here at all.
need_machine() {
	local name
	PATH=$PATH:/usr/sbin:/sbin
	[ "$(id -u)" -eq 0 ] || die "$command must be run as root: sudo ./deploy.sh $command"
	[ -d /run/systemd/system ] || die "systemd does not run here. The README's section \"Without systemd\" says how to start stile"
	command -v nginx >/dev/null || die "there is no nginx on this machine: stile stands beside nginx. Install it first (apt-get install nginx)"
	install_packages curl
	for name in systemctl setpriv flock useradd; do
		command -v "$name" >/dev/null || die "missing: $name"
	done
}

# farewell says what a command was doing when it ended without a word of its own.
farewell() {
	local status=$? rest=''
	[ -f "$LIB/undo" ] || rest="; nothing has been changed"
	[ "$status" -eq 0 ] || [ -n "$told" ] || fail "$command ended while $doing$rest"
}

# stage_release fills the tree with what this checkout installs.
stage_release() {
	local file
	stage 755 "$work/stile" "$BINARY"
	stage 644 nginx/stile.conf "$NGINX/conf.d/stile.conf"
	while read -r file; do
		stage 644 "nginx/$file" "$NGINX/$file"
	done < <(cd nginx && find snippets -name '*.conf')
	# The one line that nginx 1.18 (Ubuntu 22.04) does not know.
	! nginx_older 1.19.3 || sed -i '/^proxy_cookie_flags /d' "$tree$NGINX/snippets/stile.d/daemon.conf"
	while read -r file; do
		stage 644 "systemd/$file" "$UNITS/$file"
	done < <(cd systemd && find . -path '*.d/*' -printf '%P\n')
	stage 644 systemd/stile.service "$UNITS/stile.service"
	stage 644 systemd/stile.socket "$UNITS/stile.socket"
	sed -i "s/^SocketGroup=.*/SocketGroup=$nginx_group/" "$tree$UNITS/stile.socket"
	list_tree
	if [ ! -e "$CONFIG" ]; then
		"$work/stile" preset example | sed "s/^#include = .*/include = [\"preset:$preset\"]/" >"$work/stile.toml"
		grep -q "^include = \[\"preset:$preset\"\]" "$work/stile.toml" || die "BUG: the example has no include line"
		stage 644 "$work/stile.toml" "$CONFIG"
	fi
}

# check_config runs the new binary's own check over the configuration that it will get.
check_config() {
	local file=$CONFIG said
	[ -e "$file" ] || file=$tree$CONFIG
	said=$("$work/stile" check -c "$file" 2>&1) || die "the new binary does not accept $file; nothing has been changed:
$said"
}

# check_way_back asks the same of the binary that runs: it is what would be started again.
check_way_back() {
	local said
	if ! was_active || [ ! -x "$BINARY" ] || [ ! -e "$CONFIG" ]; then return 0; fi
	said=$("$BINARY" check -c "$CONFIG" 2>&1) || die "the version that runs does not accept $CONFIG as it is now, and could not be started again if the new one failed.
  Take out what it does not know, install, and put it in again; or stop it first, which leaves the site without stile: systemctl stop stile.socket stile
  nothing has been changed:
$said"
}

cmd_install() {
	step "checking nginx and this machine"
	recover
	need_nginx
	fetch_binary
	prove_binary
	if [ -e "$CONFIG" ] && [ -n "$preset" ]; then
		say "  $CONFIG is there already: --preset is for the first installation only"
	fi
	preset=${preset:-generic}
	check_preset
	stage_release
	check_config
	check_way_back
	compare
	need_space
	need_free_sockets
	if [ -n "$dry" ]; then
		show_changes
		return
	fi
	if [ "${#changed[@]}" -eq 0 ] && units_enabled && systemctl -q is-active stile.service && id stile >/dev/null 2>&1; then
		good "unchanged: stile $(version_wanted) is installed and runs; nothing was restarted"
		return
	fi
	warn_edited
	step "writing files"
	begin
	keep_previous
	write_beside
	add_user
	rename_into_place
	switch_over
	commit
	good "stile $(version_wanted) is installed"
	[ ! -d "$LIB/previous" ] || say "  the version before it: ./deploy.sh rollback"
	say_where
}

# switch_over makes the running system use the files that are in place now, and asks it.
switch_over() {
	local said active=inactive enabled=disabled
	doing="asking nginx about the new files (nginx -t)"
	said=$(nginx -t 2>&1) || die "nginx -t refuses the new files:
$said"
	nginx -T >"$work/nginx" 2>/dev/null
	grep -qxF "# configuration file $NGINX/conf.d/stile.conf:" "$work/nginx" ||
		die "$NGINX/nginx.conf does not include conf.d/*.conf: add 'include $NGINX/conf.d/*.conf;' to its http block"
	! was_active || active=active
	! units_enabled || enabled=enabled
	doing="starting stile.service"
	[ -d "$STATE" ] || note tree "$STATE"
	note units "$active" "$enabled"
	if ! systemctl -q is-active stile.service || has_changed "$BINARY" "$UNITS/stile.service" "$UNITS/stile.socket"; then
		step "starting stile.service"
		start_units || {
			why_not
			die "stile.service does not start"
		}
	fi
	systemctl -q enable stile.socket stile.service
	doing="asking the running daemon"
	step "asking the running daemon"
	if ! verify_daemon || ! verify_socket; then
		why_not
		die "the new daemon does not do its work"
	fi
	if has_nginx_changed; then
		doing="reloading nginx"
		step "reloading nginx"
		note nginx
		reload_nginx || die "nginx does not take the new files"
	fi
	doing="asking through nginx"
	verify_sites || die "the site is not protected"
}

# was_active tells whether stile is on. A daemon that is just being started again is not active, its socket is.
was_active() { systemctl -q is-active stile.socket || systemctl -q is-active stile.service; }

units_enabled() { systemctl -q is-enabled stile.socket 2>/dev/null && systemctl -q is-enabled stile.service 2>/dev/null; }

has_nginx_changed() {
	local path
	for path in "${changed[@]}"; do
		[[ $path != "$NGINX"/* ]] || return 0
	done
	return 1
}

# add_user makes the user and group stile. /run, the state and the sockets are systemd's to make.
add_user() {
	! id stile >/dev/null 2>&1 || return 0
	doing="making the user stile"
	note user
	useradd --system --user-group --home-dir "$STATE" --no-create-home --shell /usr/sbin/nologin --comment 'stile, beside nginx' stile
}

# warn_edited says which installed files somebody has changed since; rollback has them.
warn_edited() {
	local bad
	bad=$(edited_files)
	[ -z "$bad" ] || warn "changed by hand since it was installed, and replaced now (kept in $LIB/previous): ${bad//$'\n'/ }"
}

edited_files() { [ ! -f "$LIB/files" ] || { sha256sum --quiet -c "$LIB/files" 2>/dev/null || true; } | sed 's/: .*//'; }

show_changes() {
	local path
	say "would do:"
	id stile >/dev/null 2>&1 || say "  make the user and group stile"
	for path in "${changed[@]}"; do
		if [ ! -e "$path" ]; then
			say "  create   $path"
		elif [ -f "$tree$path" ]; then
			say "  replace  $path"
		else
			say "  remove   $path"
		fi
	done
	if [ "${#changed[@]}" -eq 0 ]; then
		say "  nothing: all files are as they should be"
		return
	fi
	say "  nginx -t, restart stile.service if it has changed, reload nginx if its files have; then ask all of them"
}

cmd_verify() {
	[ -f "$LIB/files" ] || die "stile is not installed here"
	[ ! -f "$LIB/undo" ] || die "a run of ./deploy.sh was killed half-way: run install or rollback, which undoes it first"
	need_nginx
	verify_files
	if ! verify_daemon || ! verify_socket || ! verify_sites; then
		why_not
		die "stile does not do its work"
	fi
	[ -n "$unprotected" ] || say_holes
	say_where
}

cmd_rollback() {
	local said
	recover
	need_nginx
	[ -d "$LIB/previous" ] || die "there is no earlier version to go back to; ./deploy.sh uninstall takes stile out"
	cp -a "$LIB/previous/." "$tree/"
	said=$("$tree$BINARY" check -c "$CONFIG" 2>&1) || die "the earlier binary does not accept $CONFIG as it is now: take out what it does not know, or ./deploy.sh uninstall; nothing has been changed:
$said"
	compare
	need_space
	step "going back to the version before"
	begin
	keep_previous
	write_beside
	rename_into_place
	switch_over
	commit
	good "$("$BINARY" version) of before runs again; ./deploy.sh rollback once more undoes that"
}

# cmd_uninstall takes stile out. The site is served on: a snippet that a server still includes
# becomes an empty file, because nginx would not start without it.
cmd_uninstall() {
	local path all=() lines said active=inactive enabled=disabled
	recover
	need_nginx
	mapfile -t all < <({
		managed_files
		left_over
	} | LC_ALL=C sort -u)
	[ "${#all[@]}" -gt 0 ] || [ -n "$purge" ] || die "stile is not installed here"
	lines=$(lines_about_stile '(auth_request[ \\t]+["'"'"']?/[.]stile/|=[ \\t]*["'"'"']?@stile_)')
	[ -z "$lines" ] || die "these lines ask by themselves for what stile brings, and requests would be answered 500 without it. Remove them first; nothing has been changed:
  ${lines//$'\n'/$'\n'  }"
	lines=$(lines_about_stile '(include[ \\t].*stile|[$]stile_|//stile[/;])')
	changed=()
	for path in "${all[@]}"; do
		if [[ $path != "$NGINX"/* ]] || [ ! -e "$path" ]; then
			continue
		elif [[ $path == "$NGINX/conf.d/stile.conf" ]] && grep -qE '[$]stile_|//stile' <<<"$lines"; then
			continue # its names are in use
		elif grep -qF -e "${path#"$NGINX/"}" <<<"$lines"; then
			mkdir -p "$(dirname "$tree$path")"
			printf '%s\n' "$EMPTY" >"$tree$path"
			! cmp -s "$tree$path" "$path" || continue
		fi
		changed+=("$path")
	done
	step "taking stile out of nginx"
	begin
	write_beside
	rename_into_place
	said=$(nginx -t 2>&1) || die "nginx -t refuses the files without stile:
$said"
	note nginx
	reload_nginx || die "nginx does not take the files without stile"
	step "taking away the daemon"
	! was_active || active=active
	! units_enabled || enabled=enabled
	note units "$active" "$enabled"
	stop_units
	local nginx_changed=("${changed[@]}")
	changed=()
	for path in "${all[@]}" "$LIB/files"; do
		[[ $path == "$NGINX"/* ]] || [ ! -e "$path" ] || changed+=("$path")
	done
	rename_into_place
	systemctl daemon-reload
	changed+=("${nginx_changed[@]}")
	commit
	rm -rf "$LIB"
	for path in "$NGINX/snippets/stile.d" "$UNITS/stile.service.d"; do
		[ ! -d "$path" ] || rmdir --ignore-fail-on-non-empty "$path"
	done
	if [ -n "$purge" ]; then
		rm -rf "${CONFIG%/*}" "$STATE"
		# A user of that name with another home was somebody else's before.
		[ "$(getent passwd stile | cut -d : -f 6)" != "$STATE" ] || userdel stile
		good "stile is uninstalled, and its configuration, key and state are gone"
	else
		good "stile is uninstalled; ${CONFIG%/*}, $STATE and the user stile are kept (--purge)"
	fi
	if [ -n "$lines" ]; then
		say
		say "The site is served on, without stile. These lines do nothing any more; when they are gone, ./deploy.sh uninstall again"
		say "removes the files in $NGINX that they need:"
		say "  ${lines//$'\n'/$'\n'  }"
	fi
}

EMPTY='# stile is no longer installed. This file is here, and empty, because a line in
# nginx'"'"'s configuration includes it: remove that line, then this file.'

# left_over lists files of nginx's that an earlier uninstall had to leave.
left_over() {
	local file
	[ ! -f "$LIB/files" ] || return 0
	while read -r file; do
		file=$NGINX/$file
		if [ -f "$file" ] && { grep -qF 'stile is no longer installed' "$file" || cmp -s nginx/stile.conf "$file"; }; then
			printf '%s\n' "$file"
		fi
	done < <(cd nginx && printf 'conf.d/stile.conf\n' && find snippets -name '*.conf')
}

# lines_about_stile prints "file:line: text" for the lines of the site's own files in which a pattern is.
lines_about_stile() {
	awk -v pattern="^[^#]*$1" -v own="$(printf '%s\n' "$NGINX/conf.d/stile.conf"; cd nginx && find snippets -name '*.conf' -printf "$NGINX/%p\n")" '
		BEGIN { n = split(own, o, "\n"); for (i = 1; i <= n; i++) ours[o[i]] = 1 }
		/^# configuration file .*:$/ { file = substr($0, 22, length($0) - 22); begun = NR; next }
		!(file in ours) && $0 ~ pattern {
			line = $0
			sub(/^[ \t]+/, "", line)
			print file ":" (NR - begun) ": " line
		}' "$work/nginx"
}
