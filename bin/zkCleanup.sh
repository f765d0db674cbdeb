#!/usr/bin/env bash
# Removes old snapshots and logs: zkCleanup.sh [--config DIR] -n COUNT

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

ZOODATADIR="$(zoo_setting dataDir "$ZOOCFG")"
ZOODATALOGDIR="$(zoo_setting dataLogDir "$ZOOCFG")"
if [ -z "$ZOODATADIR" ]; then
    echo "Unable to determine dataDir from $ZOOCFG" >&2
    exit 1
fi

exec "$ZEBU" purge ${ZOODATALOGDIR:+"$ZOODATALOGDIR"} "$ZOODATADIR" "$@"
