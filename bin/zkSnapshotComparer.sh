#!/usr/bin/env bash
# Says how two snapshots differ: zkSnapshotComparer.sh -l FILE -r FILE -b BYTES -n ZNODES [-d] [-i]

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

exec "$ZEBU" snapshot compare "$@"
