# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of the other parts, which deploy.sh puts together
# Where the binary comes from, and what is asked of it before anything is changed.

# version_wanted is the version of this checkout: nginx's files and the units are of one
# version with the binary, so no other is installed.
version_wanted() { sed -n 's/^var version = "\(.*\)"$/\1/p' main.go; }

# fetch_binary makes $work/stile: built here, or from the file or URL $from. It has the SHA-256
# $sum, if there is one; for what comes from elsewhere there always is.
fetch_binary() {
	if [ -n "$sum" ]; then
		sum=${sum,,}
		[[ $sum =~ ^[0-9a-f]{64}$ ]] || die "--sha256: want 64 hexadecimal digits, not \"$sum\""
	fi
	case $from in
	"")
		need_go
		build "$work/stile" # not in the checkout, which may be somebody else's
		;;
	https://* | http://*)
		[ -n "$sum" ] || sum_beside
		step "downloading $from"
		download "$from" "$work/stile"
		;;
	*://*) die "--from: want a file, or a URL with https, not \"$from\"" ;;
	*)
		[ -f "$from" ] || die "--from: there is no file \"$from\""
		[ -n "$sum" ] || sum_beside
		cp -- "$from" "$work/stile"
		;;
	esac
	chmod 755 "$work/stile"
}

# sum_beside reads $sum from the SHA256SUMS of the release, which lies beside the binary.
sum_beside() {
	local sums=$work/SHA256SUMS name=${from##*/} found
	name=${name%%\?*}
	case $from in
	https://*) download "${from%/*}/SHA256SUMS" "$sums" ;;
	http://*) die "--from: over plain http anybody on the way can change both the file and its SHA256SUMS: add --sha256 SUM, or use https" ;;
	*)
		found=$(dirname -- "$from")/SHA256SUMS
		[ -f "$found" ] || die "there is no $found: put it there, or add --sha256 SUM"
		cp -- "$found" "$sums"
		;;
	esac
	found=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1 }' "$sums")
	[[ $found =~ ^[0-9a-f]{64}$ ]] || die "SHA256SUMS beside $from has no single sum for $name"
	sum=$found
}

# download fetches a URL into a file: at most 200 MB, never from https on to plain http, and not at a
# crawl for ever.
download() {
	local protocols='=https'
	case $1 in http://*) protocols='=http,https' ;; esac
	curl -fsSL --proto "$protocols" --proto-redir "$protocols" --max-filesize 200000000 --connect-timeout 20 \
		--speed-limit 1000 --speed-time 30 -o "$2" -- "$1" || die "the download of $1 failed or broke off; nothing has been changed"
}

# prove_binary asks everything of $work/stile that can be asked before it is installed.
prove_binary() {
	local got wanted said
	got=$(sha256sum <"$work/stile")
	got=${got%% *}
	if [ -n "$sum" ] && [ "$got" != "$sum" ]; then
		die "wrong sum: $(origin) has the SHA-256
  $got, wanted
  $sum: it is incomplete, or not what was meant; nothing has been changed"
	fi
	[ "$(machine_of "$work/stile")" = "$(machine_of /bin/sh)" ] ||
		die "$(origin) is no program for this machine ($(uname -m)); nothing has been changed"
	wanted=$(version_wanted)
	said=$(timeout 10 "$work/stile" version 2>&1) || die "$(origin) fails its own 'version'; nothing has been changed
$said"
	[ "$said" = "stile $wanted" ] ||
		die "$(origin) says it is \"$said\", this checkout is \"stile $wanted\": check out the version that you want to install; nothing has been changed"
	say "  $said, SHA-256 $got"
}

# origin names the binary in messages.
origin() { printf '%s' "${from:-the binary built here}"; }

# machine_of prints a program's ELF magic, word size, byte order and machine.
machine_of() {
	local hex
	hex=$(od -An -v -tx1 -N20 -- "$1" | tr -d ' \n')
	printf '%s %s\n' "${hex:0:12}" "${hex:36:4}"
}

# check_preset accepts the presets that are in the binary.
check_preset() {
	local have
	have=$("$work/stile" preset)
	grep -qxF -- "$preset" <<<"$have" || die "there is no preset \"$preset\" in this version: there is ${have//$'\n'/, }"
}
