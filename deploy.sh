#!/usr/bin/env bash
# stile's one script. See README.md, or run it without arguments.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"

TRY_PACKAGES=(nginx-light)
TEST_PACKAGES=(nginx-light chromium wrk lynx w3m faketime git redis-server clang lld shellcheck curl gcc libc6-dev nodejs procps iproute2
	git-lfs cgit fcgiwrap mediawiki php-fpm php-sqlite3 php-xml php-mbstring php-intl)

usage() {
	cat <<-TEXT
		usage: ./deploy.sh COMMAND

		  install        put stile beside the nginx of this machine (Debian, Ubuntu; root), or bring it up to this checkout:
		                   --from FILE|URL   a released binary, checked against --sha256 SUM or the SHA256SUMS
		                                     beside it; default: build it here
		                   --preset NAME     what the first /etc/stile/stile.toml includes; default: generic
		                   --dry-run         say what would be done
		  verify         ask the running system whether stile does its work
		  rollback       go back to the version before
		  uninstall      take stile out; the site is served on. --purge: the configuration, key and state, too
		  try [ARG...]   install nginx and Go where they are missing, build stile, and start a protected
		                 demo site on 127.0.0.1 until Ctrl-C (ARG: those of 'stile try')
		  build          install a Go toolchain if it is missing, and build bin/stile
		  test [ARG...]  install what the tests need, then run all of them (ARG: for 'go test');
		                 --vm: those that boot a virtual machine with systemd, instead
		  help           this text

		Missing packages are installed with apt-get, which needs root or sudo.
	TEXT
}

say() { printf '%s\n' "$*" >&2; }

# paint says a line, on a terminal in a colour.
paint() {
	local colour=$1
	shift
	if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then
		printf '\033[%sm%s\033[0m\n' "$colour" "$*" >&2
	else
		say "$*"
	fi
}

command='' doing='starting' told=''

# step says what is being done now; if it fails, that is named.
step() {
	doing=$*
	paint 1 "$* ..."
}
good() { paint 32 "  ok: $*"; }
warn() { paint 33 "  note: $*"; }
fail() { paint 31 "deploy.sh: $*"; }

die() {
	told=yes
	fail "$*"
	exit 1
}

# The install command, checked by shellcheck as one with this file.
. install/install.sh
. install/binary.sh
. install/nginx.sh
. install/change.sh
. install/running.sh

# install_packages installs those of the named Debian packages that are missing.
install_packages() {
	local missing=() name
	for name in "$@"; do
		provided "$name" || missing+=("$name")
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	command -v apt-get >/dev/null || die "missing: ${missing[*]}; this machine has no apt-get, install them by hand"
	[ -z "$dry" ] || die "missing: ${missing[*]}; without --dry-run they are installed now"
	say "installing: ${missing[*]}"
	local root=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || die "missing: ${missing[*]}; run this as root, or install them by hand"
		root=(sudo)
	fi
	"${root[@]}" apt-get -qq update || die "apt-get update failed; is the network up?"
	(
		# A server that comes with a package must not begin to listen on this machine: for the
		# time of the installation dpkg is told to start none (policy-rc.d, Debian's own way).
		policy=/usr/sbin/policy-rc.d
		if [ ! -e "$policy" ] || grep -q 'by deploy.sh of stile' "$policy"; then # ours: of a run that was killed
			# shellcheck disable=SC2064 # expanded now, on purpose
			trap "${root[*]} rm -f $policy" EXIT
			printf '#!/bin/sh\n# by deploy.sh of stile, for a moment\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
			"${root[@]}" chmod 755 "$policy"
		fi
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
	) || die "apt-get could not install: ${missing[*]}"
}

# provided tells whether a package, or another that does the same, is there already.
provided() {
	case $1 in
	nginx-light) command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] ;;
	golang-go) command -v go >/dev/null ;;
	nodejs) command -v node >/dev/null ;;
	redis-server) command -v redis-server >/dev/null ;;
	lld) command -v wasm-ld >/dev/null || command -v wasm-ld-14 >/dev/null ;;
	iproute2) command -v ip >/dev/null ;;
	procps) command -v ps >/dev/null ;;
	libc6-dev) [ -e /usr/include/stdio.h ] ;;
	cgit | mediawiki | php-*) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q ' installed' ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# need_go puts a Go toolchain that is new enough on the PATH. Since 1.21 an older one fetches
# the release that go.mod names by itself; distributions often have a still older one, which
# can fetch it as a module, checked against the public checksum database.
need_go() {
	install_packages golang-go
	local wanted have dir
	wanted=$(sed -n 's/^go //p' go.mod)
	have=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	if [ "${have:-0}" -ge 21 ]; then
		go version >/dev/null || die "go.mod needs Go $wanted; this one cannot fetch it (is GOTOOLCHAIN set?)"
		return 0
	fi
	say "Go 1.${have:-?} is too old: fetching Go $wanted"
	dir=$(cd / && go mod download -json "golang.org/toolchain@v0.0.1-go$wanted.linux-$(go env GOARCH)" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') ||
		die "Go $wanted could not be fetched"
	[ -n "$dir" ] || die "Go $wanted could not be fetched"
	# Module archives carry no execute bits.
	chmod u+w "$dir"/bin "$dir"/bin/* "$dir"/pkg/tool/*/ "$dir"/pkg/tool/*/*
	chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
	export PATH="$dir/bin:$PATH"
	unset GOROOT
	go version >/dev/null || die "the fetched Go $wanted does not run"
}

# build makes the binary, by default bin/stile: the same bytes in every folder.
build() {
	local out=${1:-bin/stile}
	say "building stile"
	mkdir -p "$(dirname "$out")"
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out" .
}

try() {
	install_packages "${TRY_PACKAGES[@]}"
	need_go
	build
	exec bin/stile try "$@"
}

run_tests() {
	if [ "${1:-}" = --vm ]; then
		shift
		exec vm/test.sh "$@"
	fi
	install_packages "${TEST_PACKAGES[@]}"
	need_go
	# From here on a missing program is a failure, not a skip.
	export CI=true
	say "shellcheck"
	git ls-files '*.sh' .ci/run | xargs shellcheck -x -a
	say "gofmt, go vet"
	local unformatted
	unformatted=$(git ls-files '*.go' | xargs gofmt -l)
	[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
	go vet ./...
	build
	say "tests with the race detector"
	local apart=(stile/e2e stile/server/page stile/install)
	go list ./... | grep -vxF "$(printf '%s\n' "${apart[@]}")" | xargs go test -race -timeout 20m "$@"
	say "once more without the race detector: the tests that count allocations"
	go list ./... | grep -vxF "$(printf '%s\n' "${apart[@]}")" | xargs go test -timeout 10m -run 'Alloc' "$@"
	# One after the other, without the race detector: what they drive is other programs, and
	# a second browser beside them would only be in their way.
	say "tests of the whole: the installation, the pages, the site"
	go test -p 1 -timeout 20m "$@" "${apart[@]}"
}

# options reads what may follow install, verify, rollback and uninstall.
options() {
	while [ $# -gt 0 ]; do
		case $command:$1 in
		install:--from=* | install:--sha256=* | install:--preset=*)
			set -- "${1%%=*}" "${1#*=}" "${@:2}"
			continue
			;;
		install:--from | install:--sha256 | install:--preset)
			[ -n "${2:-}" ] || wrong "$1 wants a value"
			printf -v "$(sed 's/--//; s/sha256/sum/' <<<"$1")" %s "$2"
			shift
			;;
		install:--dry-run) dry=yes ;;
		uninstall:--purge) purge=yes ;;
		*:-h | *:--help)
			usage
			exit
			;;
		*) wrong "$command does not know \"$1\"" ;;
		esac
		shift
	done
}

# wrong ends the script when it was called wrongly.
wrong() {
	say "deploy.sh: $*; ./deploy.sh help says how it is called"
	exit 2
}

main() {
	command=${1:-help}
	[ $# -eq 0 ] || shift
	case $command in
	install | verify | rollback | uninstall)
		options "$@"
		guarded "cmd_$command"
		;;
	try) try "$@" ;;
	build)
		need_go
		build
		;;
	test) run_tests "$@" ;;
	help | -h | --help) usage ;;
	*)
		usage >&2
		exit 2
		;;
	esac
}

main "$@"
