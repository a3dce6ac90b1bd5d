#!/usr/bin/env bash
# What a gate does for a backend that a swarm would kill, in ratios of one run, with real nginx, the real stile and
# a backend that decodes real JSON within a limit of memory. Argument: the figure, then its options.
#   swarm    with and without the gate: deaths, memory, throughput (about ten minutes)
#   starve   a page larger than the budget beside a stream of small ones, in order and in none (three minutes)
#   vanish   clients that go away, waiting or admitted, and slow readers (two minutes)
# Ends with status 1 if a bound is broken.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
figure=${1:-swarm}
shift || true
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$dir/stile" .
go build -o "$dir/gate" ./bench/gate
"$dir/gate" "$figure" -stile "$dir/stile" "$@"
