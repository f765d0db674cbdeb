#!/usr/bin/env bash
# Shows a snapshot: zkSnapShotToolkit.sh [-d|-json] FILE

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

exec "$ZEBU" snapshot show "${@/#-json/--json}"
