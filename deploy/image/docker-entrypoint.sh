#!/usr/bin/env bash
# Makes zoo.cfg and myid from the variables of the official image or of Bitnami's, unless they are there, then becomes the
# command that it is given. A variable ZOO_... that nobody knows is an error: a setting with a typing error would be lost.
set -euo pipefail
# A failure inside $(...) is a failure.
shopt -s inherit_errexit

fail() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 2
}

is_yes() {
    case "${1,,}" in
    1 | yes | true) return 0 ;;
    0 | no | false | '') return 1 ;;
    *) return 2 ;;
    esac
}

# Variables that both images have, then those of the official one, then Bitnami's.
COMMON="ZOO_SERVERS ZOO_TICK_TIME ZOO_INIT_LIMIT ZOO_SYNC_LIMIT ZOO_MAX_CLIENT_CNXNS ZOO_4LW_COMMANDS_WHITELIST
    ZOO_CONF_DIR ZOO_DATA_DIR ZOO_DATA_LOG_DIR ZOO_LOG_DIR ZOO_LOG_LEVEL ZOO_PEER_TYPE"
OFFICIAL="ZOO_MY_ID ZOO_AUTOPURGE_PURGEINTERVAL ZOO_AUTOPURGE_SNAPRETAINCOUNT ZOO_STANDALONE_ENABLED
    ZOO_ADMINSERVER_ENABLED ZOO_CFG_EXTRA"
BITNAMI="ZOO_SERVER_ID ZOO_PORT_NUMBER ZOO_PRE_ALLOC_SIZE ZOO_SNAPCOUNT ZOO_MAX_CNXNS ZOO_RECONFIG_ENABLED
    ZOO_LISTEN_ALLIPS_ENABLED ZOO_AUTOPURGE_INTERVAL ZOO_AUTOPURGE_RETAIN_COUNT ZOO_MAX_SESSION_TIMEOUT
    ZOO_ENABLE_PROMETHEUS_METRICS ZOO_PROMETHEUS_METRICS_PORT_NUMBER ZOO_ENABLE_ADMIN_SERVER ZOO_ADMIN_SERVER_ADDRESS
    ZOO_ADMIN_SERVER_PORT_NUMBER ZOO_ENABLE_AUTH ZOO_CLIENT_USER ZOO_CLIENT_PASSWORD ZOO_SERVER_USERS
    ZOO_SERVER_PASSWORDS ZOO_ENABLE_QUORUM_AUTH ZOO_QUORUM_LEARNER_USER ZOO_QUORUM_LEARNER_PASSWORD
    ZOO_QUORUM_SERVER_USERS ZOO_QUORUM_SERVER_PASSWORDS ZOO_TLS_PORT_NUMBER ZOO_TLS_CLIENT_ENABLE ZOO_TLS_CLIENT_AUTH
    ZOO_TLS_CLIENT_KEYSTORE_FILE ZOO_TLS_CLIENT_KEYSTORE_TYPE ZOO_TLS_CLIENT_KEYSTORE_PASSWORD
    ZOO_TLS_CLIENT_TRUSTSTORE_FILE ZOO_TLS_CLIENT_TRUSTSTORE_TYPE ZOO_TLS_CLIENT_TRUSTSTORE_PASSWORD
    ZOO_TLS_QUORUM_ENABLE ZOO_TLS_QUORUM_CLIENT_AUTH ZOO_TLS_QUORUM_KEYSTORE_FILE ZOO_TLS_QUORUM_KEYSTORE_TYPE
    ZOO_TLS_QUORUM_KEYSTORE_PASSWORD ZOO_TLS_QUORUM_TRUSTSTORE_FILE ZOO_TLS_QUORUM_TRUSTSTORE_TYPE
    ZOO_TLS_QUORUM_TRUSTSTORE_PASSWORD ALLOW_EMPTY_PASSWORD ALLOW_ANONYMOUS_LOGIN"
BOOLEANS="ZOO_STANDALONE_ENABLED ZOO_ADMINSERVER_ENABLED ZOO_RECONFIG_ENABLED ZOO_LISTEN_ALLIPS_ENABLED
    ZOO_ENABLE_PROMETHEUS_METRICS ZOO_ENABLE_ADMIN_SERVER ZOO_ENABLE_AUTH ZOO_ENABLE_QUORUM_AUTH ZOO_TLS_CLIENT_ENABLE
    ZOO_TLS_QUORUM_ENABLE ALLOW_EMPTY_PASSWORD ALLOW_ANONYMOUS_LOGIN ZEBU_ID_FROM_HOSTNAME"
# They are about a JVM, its logger or its cryptography, or about a probe's script: nothing is lost without them.
WITHOUT_EFFECT="ZOO_HEAP_SIZE ZOO_FIPS_MODE ZOO_LOG4J_PROP ZOO_HC_TIMEOUT"

is_one_of() {
    local word
    for word in $2; do [ "$word" != "$1" ] || return 0; done
    return 1
}

# NAME_FILE names a file with the value of NAME. Some names end with _FILE themselves.
read_secrets() {
    local name file
    for name in $COMMON $OFFICIAL $BITNAMI JVMFLAGS SERVER_JVMFLAGS ZEBU_SUPER_PASSWORD; do
        file="${name}_FILE"
        [ -n "${!file:-}" ] || continue
        is_one_of "$file" "$BITNAMI" && continue
        [ -r "${!file}" ] || fail "$file: ${!file} cannot be read"
        export "$name=$(cat "${!file}")"
        unset "$file"
    done
}

# Whether variables of Bitnami's image are set; refuses unknown ones.
look_at_variables() {
    local name
    is_bitnami=no
    [ ! -d "$bitnami_dir" ] || is_bitnami=yes
    for name in $(compgen -e); do
        if is_one_of "$name" "$BITNAMI"; then
            is_bitnami=yes
            continue
        fi
        case "$name" in ZOO_*) ;; *) continue ;; esac
        if is_one_of "$name" "$COMMON $OFFICIAL"; then
            continue
        elif is_one_of "$name" "$WITHOUT_EFFECT"; then
            echo "$name has no effect" >&2
            continue
        fi
        case "$name" in
        ZOO_CFG_?*) is_bitnami=yes ;;
        # What Kubernetes tells every container about a service named zoo.
        ZOO_PORT | *_SERVICE_HOST | *_SERVICE_PORT | *_SERVICE_PORT_* | *_PORT_[0-9]*_TCP* | *_PORT_[0-9]*_UDP*) ;;
        *) fail "$name is not a variable of this image" "remove it; COMPAT.md and docs/packages.md list the variables" ;;
        esac
    done
    for name in $BOOLEANS; do
        is_yes "${!name:-}" || [ $? -eq 1 ] || fail "$name: '${!name}' is neither yes nor no"
    done
}

# Writes `key=value`; a value that would become two lines is an error.
put() {
    case "$2" in *$'\n'*) fail "the value of $1 has more than one line" ;; esac
    printf '%s=%s\n' "$1" "$2"
}

put_if() {
    [ -z "$2" ] || put "$1" "$2"
}

truth() {
    if is_yes "$1"; then echo true; else echo false; fi
}

# The members, one a line: in the official form as they are; in Bitnami's form HOST:PORT:PORT[:ROLE][::ID].
members() {
    local port="$1" list entry id=0 count
    read -r -a list <<< "$(tr ',\n\t' '   ' <<< "${ZOO_SERVERS:-}")"
    count=${#list[@]}
    if [ "$count" -eq 0 ]; then
        [ "$is_bitnami" = yes ] || echo "server.1=localhost:2888:3888;$port"
        return
    fi
    if [[ "${list[0]}" != server.* ]]; then
        # Semicolons separate members only in this form.
        read -r -a list <<< "${list[*]//;/ }"
        # As there: one member is a server that stands alone.
        [ ${#list[@]} -gt 1 ] || return 0
    fi
    for entry in "${list[@]}"; do
        id=$((id + 1))
        if [[ "$entry" == server.*=* ]]; then
            echo "$entry"
        elif [[ "$entry" =~ ^(.+:[0-9]+:[0-9]+(:observer|:participant)?)::([0-9]+)$ ]]; then
            echo "server.${BASH_REMATCH[3]}=${BASH_REMATCH[1]};$port"
        elif [[ "$entry" =~ ^.+:[0-9]+:[0-9]+(:observer|:participant)?$ ]]; then
            echo "server.$id=$entry;$port"
        else
            fail "ZOO_SERVERS: '$entry' is not a member" "write server.1=host:2888:3888;2181, or host:2888:3888::1"
        fi
    done
}

# TLS: the prefix of the keys, that of the variables.
stores() {
    local part value kind
    for part in KEYSTORE TRUSTSTORE; do
        [ $part = KEYSTORE ] && kind=keyStore || kind=trustStore
        value="$2_${part}_FILE"
        [ -n "${!value:-}" ] || fail "$value is not set" "name the store, or switch $2_ENABLE off"
        put "$1.$kind.location" "${!value}"
        value="$2_${part}_TYPE"
        put_if "$1.$kind.type" "${!value:-}"
        value="$2_${part}_PASSWORD"
        put_if "$1.$kind.password" "${!value:-}"
    done
}

configuration() {
    local port="${ZOO_PORT_NUMBER:-2181}" lines name init=5 sync=2
    [ "$is_bitnami" = no ] || init=10 sync=5
    put dataDir "$ZOO_DATA_DIR"
    put_if dataLogDir "${ZOO_DATA_LOG_DIR:-}"
    put tickTime "${ZOO_TICK_TIME:-2000}"
    put initLimit "${ZOO_INIT_LIMIT:-$init}"
    put syncLimit "${ZOO_SYNC_LIMIT:-$sync}"
    put autopurge.snapRetainCount "${ZOO_AUTOPURGE_SNAPRETAINCOUNT:-${ZOO_AUTOPURGE_RETAIN_COUNT:-3}}"
    put autopurge.purgeInterval "${ZOO_AUTOPURGE_PURGEINTERVAL:-${ZOO_AUTOPURGE_INTERVAL:-0}}"
    put maxClientCnxns "${ZOO_MAX_CLIENT_CNXNS:-60}"
    put_if maxCnxns "${ZOO_MAX_CNXNS:-}"
    put_if preAllocSize "${ZOO_PRE_ALLOC_SIZE:-}"
    put_if snapCount "${ZOO_SNAPCOUNT:-}"
    put_if maxSessionTimeout "${ZOO_MAX_SESSION_TIMEOUT:-}"
    put_if standaloneEnabled "${ZOO_STANDALONE_ENABLED:-}"
    put_if peerType "${ZOO_PEER_TYPE:-}"
    [ -z "${ZOO_RECONFIG_ENABLED:-}" ] || put reconfigEnabled "$(truth "$ZOO_RECONFIG_ENABLED")"
    [ -z "${ZOO_LISTEN_ALLIPS_ENABLED:-}" ] || put quorumListenOnAllIPs "$(truth "$ZOO_LISTEN_ALLIPS_ENABLED")"
    if [ "$is_bitnami" = yes ]; then
        put 4lw.commands.whitelist "${ZOO_4LW_COMMANDS_WHITELIST:-srvr, mntr}"
        put admin.enableServer "$(truth "${ZOO_ENABLE_ADMIN_SERVER:-${ZOO_ADMINSERVER_ENABLED:-no}}")"
        put admin.serverAddress "${ZOO_ADMIN_SERVER_ADDRESS:-127.0.0.1}"
        put admin.serverPort "${ZOO_ADMIN_SERVER_PORT_NUMBER:-8080}"
    else
        put_if 4lw.commands.whitelist "${ZOO_4LW_COMMANDS_WHITELIST:-}"
        put admin.enableServer "$(truth "${ZOO_ADMINSERVER_ENABLED:-true}")"
        # The image publishes this port.
        put admin.serverAddress 0.0.0.0
    fi
    if [ -n "${ZEBU_SUPER_PASSWORD:-}" ]; then
        # The server knows the password's digest only.
        lines="$(zebu digest "super:$ZEBU_SUPER_PASSWORD")"
        put DigestAuthenticationProvider.superDigest "${lines##*->}"
    fi
    if is_yes "${ZOO_ENABLE_PROMETHEUS_METRICS:-no}"; then
        put metricsProvider.className org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider
        put metricsProvider.httpPort "${ZOO_PROMETHEUS_METRICS_PORT_NUMBER:-7000}"
    fi
    if is_yes "${ZOO_ENABLE_AUTH:-no}"; then
        put authProvider.1 org.apache.zookeeper.server.auth.SASLAuthenticationProvider
        put sessionRequireClientSASLAuth true
    fi
    if is_yes "${ZOO_ENABLE_QUORUM_AUTH:-no}"; then
        put quorum.auth.enableSasl true
        put quorum.auth.learnerRequireSasl true
        put quorum.auth.serverRequireSasl true
        put quorum.auth.learner.saslLoginContext QuorumLearner
        put quorum.auth.server.saslLoginContext QuorumServer
    fi
    if is_yes "${ZOO_TLS_QUORUM_ENABLE:-no}"; then
        put sslQuorum true
        put ssl.quorum.clientAuth "${ZOO_TLS_QUORUM_CLIENT_AUTH:-need}"
        stores ssl.quorum ZOO_TLS_QUORUM
    fi
    lines="$(members "$port")"
    if is_yes "${ZOO_TLS_CLIENT_ENABLE:-no}"; then
        put secureClientPort "${ZOO_TLS_PORT_NUMBER:-3181}"
        put ssl.clientAuth "${ZOO_TLS_CLIENT_AUTH:-need}"
        stores ssl ZOO_TLS_CLIENT
        # As there, members then have no port without TLS.
        [ "$is_bitnami" = no ] || lines="$(sed "s/;$port\$//" <<< "$lines")"
    elif [ "$is_bitnami" = yes ]; then
        put clientPort "$port"
    fi
    [ -z "$lines" ] || echo "$lines"
    for name in $(compgen -e); do
        case "$name" in
        ZOO_CFG_EXTRA) ;;
        ZOO_CFG_?*)
            local key="${name#ZOO_CFG_}"
            put "${key//_/.}" "${!name}"
            ;;
        esac
    done
    # A word is a line.
    for name in ${ZOO_CFG_EXTRA:-}; do
        echo "$name"
    done
}

# Writes `name="value"`, as a JAAS file has it.
login() {
    case "$2" in *$'\n'* | '') fail "a user or a password is empty or has several lines" ;; esac
    local text="${2//\\/\\\\}"
    printf '    %s="%s"%s\n' "$1" "${text//\"/\\\"}" "${3:-}"
}

# A section for servers: its name, users, passwords.
users() {
    local names passwords index
    read -r -a names <<< "${2//[;,]/ }"
    read -r -a passwords <<< "${3//[;,]/ }"
    [ ${#names[@]} -gt 0 ] || fail "$4 is not set"
    [ ${#names[@]} -eq ${#passwords[@]} ] || fail "$4: there are ${#names[@]} users and ${#passwords[@]} passwords"
    echo "$1 {"
    echo "    org.apache.zookeeper.server.auth.DigestLoginModule required"
    for index in "${!names[@]}"; do
        [[ "${names[$index]}" =~ ^[A-Za-z0-9._@-]+$ ]] || fail "$4: '${names[$index]}' is not a name of a user"
        login "user_${names[$index]}" "${passwords[$index]}"
    done
    echo "    ;"
    echo "};"
}

# A section for clients and learners: its name, user, password.
user() {
    echo "$1 {"
    echo "    org.apache.zookeeper.server.auth.DigestLoginModule required"
    login username "$2"
    login password "$3" ';'
    echo "};"
}

logins() {
    if is_yes "${ZOO_ENABLE_AUTH:-no}"; then
        users Server "${ZOO_SERVER_USERS:-}" "${ZOO_SERVER_PASSWORDS:-}" ZOO_SERVER_USERS
        [ -z "${ZOO_CLIENT_USER:-}" ] || user Client "$ZOO_CLIENT_USER" "${ZOO_CLIENT_PASSWORD:-}"
    fi
    if is_yes "${ZOO_ENABLE_QUORUM_AUTH:-no}"; then
        users QuorumServer "${ZOO_QUORUM_SERVER_USERS:-}" "${ZOO_QUORUM_SERVER_PASSWORDS:-}" ZOO_QUORUM_SERVER_USERS
        user QuorumLearner "${ZOO_QUORUM_LEARNER_USER:-}" "${ZOO_QUORUM_LEARNER_PASSWORD:-}"
    fi
}

# Writes a file that only its owner reads, whole or not at all.
write() {
    local text
    text="$($2)"
    (umask 077 && printf '%s\n' "$text" > "$1.new" && mv "$1.new" "$1") ||
        fail "$1 cannot be written" "mount a volume or a tmpfs at ${1%/*}, which user $(id -u) may write to"
}

bitnami_dir="${ZEBU_BITNAMI_DIR:-/bitnami/zookeeper}"
read_secrets
look_at_variables
if [ "$is_bitnami" = yes ] && [ -d "$bitnami_dir" ]; then
    ZOO_DATA_DIR="$bitnami_dir/data"
    [ "${ZOO_DATA_LOG_DIR:-/datalog}" != /datalog ] || ZOO_DATA_LOG_DIR=
fi
export ZOO_CONF_DIR="${ZOO_CONF_DIR:-/conf}" ZOO_DATA_DIR="${ZOO_DATA_DIR:-/data}" ZOO_LOG_DIR="${ZOO_LOG_DIR:-/logs}"
export ZOOCFGDIR="$ZOO_CONF_DIR"

if [ ! -f "$ZOO_CONF_DIR/zoo.cfg" ]; then
    if [ "$is_bitnami" = yes ] && ! is_yes "${ZOO_ENABLE_AUTH:-no}"; then
        is_yes "${ALLOW_EMPTY_PASSWORD:-${ALLOW_ANONYMOUS_LOGIN:-no}}" ||
            fail "clients need no password" "set ZOO_ENABLE_AUTH=yes with users, or ALLOW_EMPTY_PASSWORD=yes"
    fi
    write "$ZOO_CONF_DIR/zoo.cfg" configuration
    if is_yes "${ZOO_ENABLE_AUTH:-no}" || is_yes "${ZOO_ENABLE_QUORUM_AUTH:-no}"; then
        write "$ZOO_CONF_DIR/zoo_jaas.conf" logins
    fi
fi
unset ZEBU_SUPER_PASSWORD
if [ -f "$ZOO_CONF_DIR/zoo_jaas.conf" ]; then
    jaas="-Djava.security.auth.login.config=$ZOO_CONF_DIR/zoo_jaas.conf"
    export SERVER_JVMFLAGS="${SERVER_JVMFLAGS:+$SERVER_JVMFLAGS }$jaas"
    export CLIENT_JVMFLAGS="${CLIENT_JVMFLAGS:+$CLIENT_JVMFLAGS }$jaas"
fi

mkdir -p "$ZOO_DATA_DIR" || fail "$ZOO_DATA_DIR cannot be made" "mount a volume there, which user $(id -u) may write to"
id="${ZOO_MY_ID:-${ZOO_SERVER_ID:-}}"
if [ -z "$id" ] && is_yes "${ZEBU_ID_FROM_HOSTNAME:-no}"; then
    # A pod of a stateful set is named NAME-0, NAME-1 and so on; members count from 1.
    name="$(hostname)"
    [[ "${name##*-}" =~ ^[0-9]+$ ]] || fail "the host name $name does not end with a number" "set ZOO_MY_ID"
    id=$((10#${name##*-} + 1))
fi
if [ ! -f "$ZOO_DATA_DIR/myid" ]; then
    echo "${id:-1}" > "$ZOO_DATA_DIR/myid" ||
        fail "$ZOO_DATA_DIR/myid cannot be written" "mount a volume there, which user $(id -u) may write to"
elif [ -n "$id" ] && [ "$(cat "$ZOO_DATA_DIR/myid")" != "$id" ]; then
    fail "$ZOO_DATA_DIR has the data of member $(cat "$ZOO_DATA_DIR/myid"), and this is member $id" \
        "mount the volume of member $id, or an empty one"
fi

case "${ZOO_LOG_LEVEL:-}" in
'') ;;
OFF | ERROR | WARN | INFO | DEBUG | TRACE) export RUST_LOG="${RUST_LOG:-${ZOO_LOG_LEVEL,,}}" ;;
ALL) export RUST_LOG="${RUST_LOG:-trace}" ;;
*) fail "ZOO_LOG_LEVEL: '$ZOO_LOG_LEVEL' is not a level" "OFF, ERROR, WARN, INFO, DEBUG, TRACE, ALL" ;;
esac

exec "$@"
