#!/usr/bin/env bash
# A page larger than the budget beside a stream of small ones: see gate.sh. -plot docs/starvation.svg draws it.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/gate.sh" starve "$@"
