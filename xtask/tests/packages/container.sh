# What happens in the container: the arguments are the port and the image's own command.
set -e
port=$1
shift
[ "$(id -u)" = 1000 ]
if (: > /usr/bin/x) 2>/dev/null || (: > /tmp/x) 2>/dev/null; then
    echo "FAILED: the root can be written" >&2
    exit 1
fi
"$@" > /logs/out 2>&1 &
server=$!
for try in $(seq 600); do
    if zkServer.sh status > /logs/status 2>&1; then break; fi
    kill -0 $server || { cat /logs/out; exit 1; }
    sleep 0.1
done
grep '^Mode: standalone$' /logs/status || { cat /logs/status /logs/out; exit 1; }
zkCli.sh -server "127.0.0.1:$port" -q create /in-a-container yes
[ "$(zkCli.sh -server "127.0.0.1:$port" -q get /in-a-container)" = yes ]
ZOO_PORT_NUMBER=$port /opt/bitnami/scripts/zookeeper/healthcheck.sh
ls /datalog/version-2/log.* /data/version-2/snapshot.*
# As a container is stopped.
kill $server
wait $server
echo "the container has ended"
