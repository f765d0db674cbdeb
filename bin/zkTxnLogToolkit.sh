#!/usr/bin/env bash
# Shows a transaction log, repairs its checksums, or cuts it: zkTxnLogToolkit.sh [-dhrvyc] FILE [-z ZXID]

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

exec "$ZEBU" log "$@"
