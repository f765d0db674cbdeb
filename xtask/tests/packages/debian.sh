#!/bin/sh
# debian.sh FIRST SECOND PORT: the life of the Debian package on a machine that has Debian's zookeeper.
set -e
first=$1
second=$2
port=$3
export DEBIAN_FRONTEND=noninteractive
bin=/usr/share/zookeeper/bin

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Runs the unit's own command as the unit's user, as systemd would.
start() {
    command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/zookeeper.service)
    user=$(sed -n 's/^User=//p' /lib/systemd/system/zookeeper.service)
    runuser -u "$user" -- $command > /var/log/zookeeper/out 2>&1 &
    server=$!
    tries=0
    until $bin/zkServer.sh status > /tmp/status 2>&1; do
        kill -0 $server 2>/dev/null || fail "it has ended: $(cat /var/log/zookeeper/out)"
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "it does not serve: $(cat /tmp/status /var/log/zookeeper/out)"
        sleep 0.1
    done
    grep -q '^Mode: standalone$' /tmp/status || fail "$(cat /tmp/status)"
}

stop() {
    pid=$(pidof -s zebu)
    kill "$pid"
    wait $server || fail "it ended with $?: $(cat /var/log/zookeeper/out)"
}

cli() {
    $bin/zkCli.sh -server "127.0.0.1:$port" -q "$@"
}

echo "== beside Debian's zookeeper, with an alternative of the operator's own"
dpkg -s zookeeper | grep -q '^Status: install ok installed$' || fail "Debian's zookeeper is not there"
mkdir /etc/zookeeper/conf_mine
cp /etc/zookeeper/conf_example/* /etc/zookeeper/conf_mine

echo "== the package takes its place"
dpkg -i "$first" 2>/tmp/err || fail "$(cat /tmp/err)"
grep -q 'conf_mine is not the service' /tmp/err || fail "the alternative is not named: $(cat /tmp/err)"
rm -r /etc/zookeeper/conf_mine
dpkg -s zookeeper | grep -q 'ok installed$' && fail "both are installed"
[ "$(readlink -f /etc/zookeeper/conf)" = /etc/zookeeper/conf_example ] || fail "no alternative"
[ "$(stat -c %U:%G:%a /var/lib/zookeeper)" = zookeeper:zookeeper:750 ] || fail "data directory"
[ "$(stat -c %U:%G /var/log/zookeeper)" = zookeeper:zookeeper ] || fail "log directory"
[ "$(stat -c %U:%G:%a /usr/bin/zebu)" = root:root:755 ] || fail "program"
grep -q '^dataDir=/var/lib/zookeeper$' /etc/zookeeper/conf/zoo.cfg || fail "the configuration is not ours"
[ -L /etc/systemd/system/multi-user.target.wants/zookeeper.service ] || fail "the service is not enabled"
zebu server --check /etc/zookeeper/conf/zoo.cfg > /dev/null
zcat /usr/share/man/man1/zebu-server.1.gz | grep -q "zebu.*server" || fail "no manual page"

echo "== the service runs"
sed -i "s/^clientPort=.*/clientPort=$port/" /etc/zookeeper/conf/zoo.cfg
echo 'admin.enableServer=false' >> /etc/zookeeper/conf/zoo.cfg
start
cli create /kept 1 > /dev/null
stop

echo "== an upgrade keeps configuration and data"
dpkg -i "$second" 2>/tmp/err || fail "$(cat /tmp/err)"
grep -q "^clientPort=$port$" /etc/zookeeper/conf/zoo.cfg || fail "the configuration is gone"
start
[ "$(cli get /kept)" = 1 ] || fail "the data are gone"
stop

echo "== a removal keeps configuration and data, a purge the data"
dpkg -r zebu
[ ! -e /usr/bin/zebu ] || fail "the program is still there"
grep -q "^clientPort=$port$" /etc/zookeeper/conf_example/zoo.cfg || fail "the configuration is gone"
dpkg -P zebu 2>/tmp/err
grep -q 'they are kept' /tmp/err || fail "$(cat /tmp/err)"
[ ! -e /etc/zookeeper/conf_example/zoo.cfg ] || fail "the configuration is still there"
[ -d /var/lib/zookeeper/version-2 ] || fail "the data are gone"
getent passwd zookeeper > /dev/null || fail "the owner of the data is gone"
[ ! -L /etc/systemd/system/multi-user.target.wants/zookeeper.service ] || fail "the service is still enabled"

echo "== without data nothing stays"
rm -r /var/lib/zookeeper
dpkg -i "$second" > /dev/null
dpkg -P zebu
[ ! -e /var/lib/zookeeper ] || fail "the data directory is still there"
getent passwd zookeeper > /dev/null && fail "the user is still there"
echo "the story is over"
