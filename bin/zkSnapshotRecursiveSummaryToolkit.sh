#!/usr/bin/env bash
# Says how large subtrees of a snapshot are: zkSnapshotRecursiveSummaryToolkit.sh FILE PATH DEPTH

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

exec "$ZEBU" snapshot summary "$@"
