#!/usr/bin/env bash
# Makes directories for a new server, and says that it is new:
# zkServer-initialize.sh [--configfile=FILE] [--myid=ID] [--force]

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

usage() {
    printf 'usage: %s <parameters>\n  Optional parameters:\n' "$0"
    printf '     %-53s %s\n' \
        "-h" "Display this message" \
        "--help" "Display this message" \
        "--configfile=$(printf '%-40s' "$ZOOCFG")" "ZooKeeper config file" \
        "--myid=#" "Set the myid to be used, if any (1-255)" \
        "--force" "Force creation of the data/txnlog dirs"
    exit 1
}

MYID=
FORCE=
while [ -n "$1" ]; do
    case "$1" in
    --configfile=?*) ZOOCFG="${1#*=}" ;;
    --configfile) ZOOCFG="$2"; shift ;;
    --myid=?*) MYID="${1#*=}" ;;
    --myid) MYID="$2"; shift ;;
    --force) FORCE=1 ;;
    -h | --help) usage ;;
    *)
        echo "Unknown option: $1"
        usage
        ;;
    esac
    shift
done

if [ ! -e "$ZOOCFG" ]; then
    echo "Unable to find config file at $ZOOCFG"
    exit 1
fi
ZOO_DATADIR="$(zoo_setting dataDir "$ZOOCFG")"
ZOO_DATALOGDIR="$(zoo_setting dataLogDir "$ZOOCFG")"
if [ -z "$ZOO_DATADIR" ]; then
    echo "Unable to determine dataDir from $ZOOCFG"
    exit 1
fi

if [ -n "$FORCE" ]; then
    echo "Force enabled, data/txnlog directories will be re-initialized"
else
    refuse() {
        echo "ZooKeeper $1 directory already exists at $2 (or use --force to force re-initialization)"
        exit 1
    }
    [ -d "$ZOO_DATADIR/version-2" ] && refuse data "$ZOO_DATADIR"
    [ -n "$ZOO_DATALOGDIR" ] && [ -d "$ZOO_DATALOGDIR/version-2" ] && refuse txnlog "$ZOO_DATALOGDIR"
fi

# The directories above may have been made for us, with permissions that are right: they stay.
for directory in "$ZOO_DATADIR" ${ZOO_DATALOGDIR:+"$ZOO_DATALOGDIR"}; do
    rm -rf "$directory/myid" "$directory/version-2"
    mkdir -p "$directory/version-2" || exit 1
done

if [ -n "$MYID" ]; then
    echo "Using myid of $MYID"
    echo "$MYID" > "$ZOO_DATADIR/myid"
else
    echo "No myid provided, be sure to specify it in $ZOO_DATADIR/myid if using non-standalone"
fi
touch "$ZOO_DATADIR/initialize"
