#!/usr/bin/env bash
# What all scripts here need: to be sourced by them, with their arguments.
#
# Takes `--config DIR` from the front of the arguments. Sets ZOOCFGDIR, ZOOCFG (with its directory),
# ZOO_LOG_DIR and ZEBU, the program; sources zookeeper-env.sh and java.env from the configuration directory,
# where settings are kept as -D words in SERVER_JVMFLAGS, CLIENT_JVMFLAGS and JVMFLAGS. Before them it sources
# `environment` from there, which is the file of Debian's package; -D words are in JAVA_OPTS there, for a server only.

ZOOBINDIR="${ZOOBINDIR:-/usr/bin}"
ZOOKEEPER_PREFIX="$ZOOBINDIR/.."

if [ $# -gt 1 ] && [ "$1" = "--config" ]; then
    ZOOCFGDIR="$2"
    shift 2
fi

if [ -z "$ZOOCFGDIR" ]; then
    if [ -e "$ZOOKEEPER_PREFIX/conf" ]; then
        ZOOCFGDIR="$ZOOBINDIR/../conf"
    else
        ZOOCFGDIR="$ZOOBINDIR/../etc/zookeeper"
    fi
fi

if [ -f "$ZOOCFGDIR/environment" ]; then
    ZOOCFGDIR_OF_CALLER="$ZOOCFGDIR"
    . "$ZOOCFGDIR/environment"
    ZOOCFGDIR="$ZOOCFGDIR_OF_CALLER"
    # That file has the whole path, of the directory in which it is.
    ZOOCFG="${ZOOCFG##*/}"
    if [ -n "$JAVA_OPTS" ]; then
        SERVER_JVMFLAGS="$JAVA_OPTS${SERVER_JVMFLAGS:+ $SERVER_JVMFLAGS}"
    fi
fi

if [ -f "$ZOOCFGDIR/zookeeper-env.sh" ]; then
    . "$ZOOCFGDIR/zookeeper-env.sh"
fi

ZOOCFG="$ZOOCFGDIR/${ZOOCFG:-zoo.cfg}"

if [ -f "$ZOOCFGDIR/java.env" ]; then
    . "$ZOOCFGDIR/java.env"
fi

ZOO_LOG_DIR="${ZOO_LOG_DIR:-$ZOOKEEPER_PREFIX/logs}"

# The program: as told, beside this script, from a build, or as it is found.
if [ -z "$ZEBU" ]; then
    for candidate in "$ZOOBINDIR/zebu" "$ZOOBINDIR/../target/release/zebu"; do
        if [ -x "$candidate" ]; then
            ZEBU="$candidate"
            break
        fi
    done
    ZEBU="${ZEBU:-$(type -P zebu)}"
fi
if [ ! -x "$ZEBU" ]; then
    echo "Error: the program zebu could not be found${ZEBU:+: $ZEBU}" >&2
    echo "hint: set ZEBU to it, put it beside $ZOOBINDIR/zkEnv.sh, or into PATH" >&2
    exit 1
fi

# The program reads the -D words in them; flags for a JVM mean nothing to it.
export SERVER_JVMFLAGS CLIENT_JVMFLAGS JVMFLAGS

# The last value of a key in a configuration file, without blanks around it.
zoo_setting() {
    sed -n "s/^[[:space:]]*$1[[:space:]]*[=:][[:space:]]*//p" "$2" 2>/dev/null | sed -e 's/[[:space:]]*$//' | tail -n 1
}
