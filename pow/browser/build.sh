#!/usr/bin/env bash
# Builds sha256.wasm from sha256.c, byte for byte the file that is committed.
# Needs Debian 12's clang-14 and lld-14: another compiler makes another file.
#
#   ./build.sh [OUTPUT]        default: sha256.wasm beside this script
set -euo pipefail

main() {
	local here out
	here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
	out=${1:-$here/sha256.wasm}

	clang-14 --target=wasm32 -msimd128 -O2 -Wall -Wextra -Werror \
		-ffreestanding -nostdlib \
		-Wl,--no-entry,--strip-all,--initial-memory=65536,-z,stack-size=0 \
		-o "$out.new" "$here/sha256.c"
	chmod 0644 "$out.new"
	mv "$out.new" "$out"
}

main "$@"
