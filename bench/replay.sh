#!/usr/bin/env bash
# How much access log does 'stile replay' process in a second of one core? Makes a log as a small forge
# would have it, one without a target that comes twice, and one with times; or takes yours:
# './bench/replay.sh LOG...'. About half a minute. Arguments: see './bench/replay.sh -h'.
set -euo pipefail
main() {
	cd "$(dirname "${BASH_SOURCE[0]}")/.."
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$dir/stile" .
	go build -o "$dir/replay" ./bench/replay
	cd "$OLDPWD"
	"$dir/replay" -stile "$dir/stile" "$@"
}
main "$@"
