#!/usr/bin/env bash
# Clients that go away, waiting or admitted, and slow readers: see gate.sh.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/gate.sh" vanish "$@"
