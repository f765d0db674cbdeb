#!/usr/bin/env bash
# The shell: `zebu shell` under its old name. zkCli.sh [--config DIR] [-server HOST:PORT] ... [COMMAND]

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

exec "$ZEBU" shell "$@"
