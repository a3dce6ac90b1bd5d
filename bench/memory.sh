#!/usr/bin/env bash
# Does the daemon's memory grow with the number of attackers? Sends a million addresses to /check and a
# million to /challenge, and prints the resident memory on the way. Argument: -n NUMBER of addresses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$dir/stile" .
go build -o "$dir/memory" ./bench/memory
"$dir/memory" -stile "$dir/stile" "$@"
