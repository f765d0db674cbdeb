#!/usr/bin/env bash
# Starts, stops and looks after a server:
# zkServer.sh [--config DIR] {start|start-foreground|stop|version|restart|status|print-cmd} [CFG]

ZOOBINDIR="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
. "$ZOOBINDIR/zkEnv.sh"

# How long a server may take to end, in seconds.
ZOO_STOP_TIME="${ZOO_STOP_TIME:-60}"

# What is said for those who look for it: there is no JMX here to disable or to enable.
if [ -z "$JMXDISABLE" ] || [ "$JMXDISABLE" = "false" ]; then
    echo "ZooKeeper JMX enabled by default" >&2
else
    echo "JMX disabled by user request" >&2
fi

# A configuration of its own: a name in the configuration directory, or a path.
if [ -n "$2" ]; then
    case "$2" in
    */*) ZOOCFG="$2" ;;
    *) ZOOCFG="$ZOOCFGDIR/$2" ;;
    esac
fi
echo "Using config: $ZOOCFG" >&2

ZOO_DATADIR="$(zoo_setting dataDir "$ZOOCFG")"
ZOO_DATALOGDIR="$(zoo_setting dataLogDir "$ZOOCFG")"
DEFINES=()
SETTINGS=
if [ -n "$ZOO_DATADIR_AUTOCREATE_DISABLE" ]; then
    missing() {
        echo "ZooKeeper $1 directory is missing at $2 fix the path or run initialize"
        exit 1
    }
    [ -d "$ZOO_DATADIR/version-2" ] || missing data "$ZOO_DATADIR"
    [ -z "$ZOO_DATALOGDIR" ] || [ -d "$ZOO_DATALOGDIR/version-2" ] || missing txnlog "$ZOO_DATALOGDIR"
    DEFINES=(-D zookeeper.datadir.autocreate=false)
fi

ZOOPIDFILE="${ZOOPIDFILE:-${ZOO_DATADIR:-$ZOO_LOG_DIR}/zookeeper_server.pid}"
ZOO_OUT="$ZOO_LOG_DIR/zookeeper-$USER-server-$HOSTNAME.out"

# Whether a process is there, and not only waiting for its parent to notice its end.
is_running() {
    kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"
}

start() {
    echo -n "Starting zookeeper ... "
    local pid
    pid="$(cat "$ZOOPIDFILE" 2>/dev/null)"
    if [ -n "$pid" ] && is_running "$pid"; then
        echo "already running as process $pid."
        exit 1
    fi
    mkdir -p "$ZOO_LOG_DIR" "$(dirname "$ZOOPIDFILE")"
    # The server outlives the terminal.
    (trap '' HUP && exec "$ZEBU" server "${DEFINES[@]}" "$ZOOCFG") > "$ZOO_OUT" 2>&1 < /dev/null &
    pid=$!
    if ! echo -n "$pid" > "$ZOOPIDFILE"; then
        kill "$pid"
        echo FAILED TO WRITE PID
        exit 1
    fi
    # What is wrong with a configuration shows at once.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        if ! is_running "$pid"; then
            echo FAILED TO START
            grep -s '^error: ' "$ZOO_OUT" >&2
            echo "hint: $ZOO_OUT says why" >&2
            exit 1
        fi
        sleep 0.1
    done
    echo STARTED
}

stop() {
    echo -n "Stopping zookeeper ... "
    if [ ! -f "$ZOOPIDFILE" ]; then
        echo "no zookeeper to stop (could not find file $ZOOPIDFILE)"
        return 0
    fi
    local pid waited=0
    pid="$(cat "$ZOOPIDFILE")"
    if kill "$pid"; then
        while is_running "$pid"; do
            if [ "$waited" -ge $((ZOO_STOP_TIME * 10)) ]; then
                echo "STILL RUNNING"
                echo "hint: process $pid has not ended in $ZOO_STOP_TIME s; kill -9 $pid ends it, nothing acknowledged is lost" >&2
                return 1
            fi
            sleep 0.1
            waited=$((waited + 1))
        done
    fi
    rm -f "$ZOOPIDFILE"
    echo STOPPED
}

# What stands behind the semicolon of this server's line in a file.
client_of_member() {
    sed -n "s/^[[:space:]]*server\.$1[[:space:]]*=.*;//p" "$2" 2>/dev/null | tail -n 1
}

status() {
    local ssl=false address port myid client mode
    address="$(zoo_setting clientPortAddress "$ZOOCFG")"
    address="${address:-localhost}"
    port="$(zoo_setting clientPort "$ZOOCFG")"
    if ! [[ "$port" =~ ^[0-9]+$ ]]; then
        port=
        myid="$(cat "$ZOO_DATADIR/myid" 2>/dev/null)"
        if ! [[ "$myid" =~ ^[0-9]+$ ]]; then
            echo "myid could not be determined, will not able to locate clientPort in the server configs."
        else
            client="$(client_of_member "$myid" "$ZOOCFG")"
            if [ -z "$client" ]; then
                echo "Client port not found in static config file. Looking in dynamic config file."
                client="$(client_of_member "$myid" "$(zoo_setting dynamicConfigFile "$ZOOCFG")")"
            fi
            if [ -z "$client" ]; then
                echo "Client port not found in the server configs"
            else
                port="${client##*:}"
                if [ "$port" != "$client" ]; then
                    address="${client%:*}"
                    address="${address#[}"
                    address="${address%]}"
                fi
            fi
        fi
    fi
    if [ -z "$port" ]; then
        echo "Client port not found. Looking for secureClientPort in the static config."
        port="$(zoo_setting secureClientPort "$ZOOCFG")"
        if [ -z "$port" ]; then
            echo "Unable to find either secure or unsecure client port in any configs. Terminating."
            exit 1
        fi
        ssl=true
        address="$(zoo_setting secureClientPortAddress "$ZOOCFG")"
        address="${address:-localhost}"
    fi
    echo "Client port found: $port. Client address: $address. Client SSL: $ssl."
    case "$address" in *:*) address="[$address]" ;; esac
    # What CLIENT_JVMFLAGS says of TLS is for the port that has it.
    local flags="-Dzookeeper.client.secure=$ssl"
    mode="$(CLIENT_JVMFLAGS="$JVMFLAGS $CLIENT_JVMFLAGS $flags" JVMFLAGS='' "$ZEBU" word "$address:$port" srvr 2>/dev/null |
        grep Mode)"
    if [ -z "$mode" ]; then
        echo "Error contacting service. It is probably not running."
        if [ "$ssl" = true ]; then
            echo "hint: the port has TLS; set zookeeper.ssl.trustStore.location, and what else its clients need, with -D words in CLIENT_JVMFLAGS" >&2
        fi
        exit 1
    fi
    echo "$mode"
}

case "$1" in
start) start ;;
start-foreground)
    if [ -n "$ZOO_NOEXEC" ]; then
        "$ZEBU" server "${DEFINES[@]}" "$ZOOCFG"
    else
        exec "$ZEBU" server "${DEFINES[@]}" "$ZOOCFG"
    fi
    ;;
print-cmd)
    # Who runs the line has not read the files that set these.
    for name in SERVER_JVMFLAGS JVMFLAGS; do
        [ -z "${!name}" ] || SETTINGS+=" $(printf '%s=%q' "$name" "${!name//[$'\n\t']/ }")"
    done
    echo "${SETTINGS:+env$SETTINGS }\"$ZEBU\" server${DEFINES[*]:+ ${DEFINES[*]}} \"$ZOOCFG\" > \"$ZOO_OUT\" 2>&1 < /dev/null"
    ;;
stop) stop ;;
version) exec "$ZEBU" version ;;
restart)
    stop || exit 1
    start
    ;;
status) status ;;
*) echo "Usage: $0 [--config <conf-dir>] {start|start-foreground|stop|version|restart|status|print-cmd}" >&2 ;;
esac
