# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of the other parts, which deploy.sh puts together
# What nginx on this machine is like, asking it to read its files again, and asking through it.

# need_nginx ends the script unless there is an nginx that stile can stand beside, and that is
# content with its configuration as it is now.
need_nginx() {
	local facts said
	facts=$(nginx -V 2>&1)
	grep -q -e --with-http_auth_request_module <<<"$facts" || die "this nginx was built without auth_request; Debian's, Ubuntu's and nginx.org's packages have it"
	grep -q -e "--conf-path=$NGINX/nginx.conf" <<<"$facts" || die "this nginx does not read $NGINX/nginx.conf; put the files in place by hand, as the README says"
	said=$(nginx -t 2>&1) || die "nginx -t fails already, before anything has been changed. Put that right first:
$said"
	nginx_version=$(sed -n 's,^nginx version: [^/]*/\([0-9.]*\).*,\1,p' <<<"$facts")
	nginx -T >"$work/nginx" 2>/dev/null
	nginx_user=$(user_line 2)
	[ -n "$nginx_user" ] || nginx_user=$(sed -n 's/.*--user=\([^ ]*\).*/\1/p' <<<"$facts")
	nginx_user=${nginx_user:-nobody}
	nginx_group=$(user_line 3)
	[ -n "$nginx_group" ] || nginx_group=$(id -gn -- "$nginx_user") || die "nginx's user $nginx_user does not exist"
}

# user_line is a word of nginx's line "user NAME [GROUP];".
user_line() { awk -v n="$1" '$1 == "user" { sub(/;.*/, ""); gsub(/["\047]/, ""); print $n; exit }' "$work/nginx"; }

# older tells whether nginx is older than a version.
nginx_older() { [ "$nginx_version" != "$1" ] && [ "$(printf '%s\n' "$nginx_version" "$1" | sort -V | head -n 1)" = "$nginx_version" ]; }

# reload_nginx makes nginx read its files again, and is content only when workers with the new
# ones have appeared: a master that cannot use them says so in its log, and goes on with the old.
reload_nginx() {
	local main before child children tries
	if ! systemctl -q is-active nginx; then
		say "  nginx.service is not active, so nginx is not reloaded; one that was started in another way must be told by hand"
		return 0
	fi
	main=$(systemctl show -p MainPID --value nginx)
	before=" $(cat "/proc/$main/task/$main/children") "
	systemctl reload nginx || return 1
	for ((tries = 0; tries < 50; tries++)); do
		read -ra children <"/proc/$main/task/$main/children" || true
		for child in "${children[@]}"; do
			[[ $before == *" $child "* ]] || return 0
		done
		sleep 0.2
	done
	warn "nginx was told to reload and has started no new workers; its error log says why"
	return 1
}

# servers lists nginx's servers as servers.awk finds them, those with stile (1) or without (0).
servers() { awk -v prefix="$NGINX/" -f install/servers.awk "$work/nginx" | awk -F '\t' -v want="$1" '$1 == want'; }

# ask_server sends one request to a server, as a visitor on this machine would.
ask_server() {
	local listen=$1 flags=$2 name=$3 path=$4 scheme=http args=()
	case $listen in
	unix:*) args+=(--unix-socket "${listen#unix:}") ;;
	*) args+=(--connect-to "::$listen") ;;
	esac
	[[ $flags != *ssl* ]] || scheme=https
	[[ $flags != *proxy_protocol* ]] || args+=(--haproxy-protocol)
	curl -gsk -o /dev/null --noproxy '*' --max-time 30 -A "$AGENT" "${args[@]}" "$scheme://$name$path"
}
