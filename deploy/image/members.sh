#!/usr/bin/env bash
# members.sh add|remove: makes voters of the members of ZOO_SERVERS that are none yet, or removes the voters that are not in
# ZOO_SERVERS. Helm runs it around a change of `replicas`. Needs ZEBU_SUPER_PASSWORD, or a file in ZEBU_SUPER_PASSWORD_FILE.
set -euo pipefail

if [ -n "${ZEBU_SUPER_PASSWORD_FILE:-}" ]; then
    ZEBU_SUPER_PASSWORD="$(cat "$ZEBU_SUPER_PASSWORD_FILE")"
fi
export ZEBU_AUTH="digest:super:$ZEBU_SUPER_PASSWORD"

# Of a line server.N=HOST:PORT:PORT[:ROLE];[ADDRESS:]PORT: the number, and where clients connect.
number() {
    local text="${1%%=*}"
    echo "${text#server.}"
}
client() {
    local host="${1#*=}" port="${1##*;}"
    host="${host%%;*}"
    host="${host%:observer}"
    host="${host%:participant}"
    host="${host%:*}"
    echo "${host%:*}:${port##*:}"
}

wanted=() servers=
for line in $ZOO_SERVERS; do
    wanted+=("$line")
    servers+="${servers:+,}$(client "$line")"
done

shell() {
    zebu shell -server "$servers" -timeout 30000 -waitforconnection -q "$@"
}

mapfile -t found < <(shell config | grep '^server\.')
[ ${#found[@]} -gt 0 ] || { echo "error: nobody at $servers tells the members" >&2; exit 1; }

# Whether the first number is that of one of the lines.
has() {
    local id="$1" line
    shift
    for line in "$@"; do
        [ "$(number "$line")" != "$id" ] || return 0
    done
    return 1
}

changes=
case "${1:-}" in
add)
    for line in "${wanted[@]}"; do
        has "$(number "$line")" "${found[@]}" || changes+="${changes:+,}$line"
    done
    ;;
remove)
    for line in "${found[@]}"; do
        has "$(number "$line")" "${wanted[@]}" || changes+="${changes:+,}$(number "$line")"
    done
    ;;
*)
    echo "usage: $0 add|remove" >&2
    exit 2
    ;;
esac
if [ -z "$changes" ]; then
    echo "nothing to $1"
else
    echo "$1: $changes"
    shell reconfig "-$1" "$changes"
fi
