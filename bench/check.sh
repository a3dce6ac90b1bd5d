#!/usr/bin/env bash
# What stile costs a request, as ratios of one run: nginx alone, nginx with an auth_request that
# asks nobody, with one that asks a bare fasthttp handler, and with one that asks stile.
# Arguments: those of the program, see './bench/check.sh -h'. About eight minutes by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec go run ./bench/check "$@"
