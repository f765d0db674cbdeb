"""One load through kazoo, for `zebu bench clients`: prints what was done as one line of JSON.

usage: driver.py HOST:PORT get|set|all DEPTH SECONDS KEYS SIZE

DEPTH requests are kept in flight on one session; each answer makes the next request. `all` reads each znode
once.
"""

import json
import sys
import threading
import time

from kazoo.client import KazooClient

server, operation, depth, seconds, keys, size = sys.argv[1:]
depth, seconds, keys, size = int(depth), float(seconds), int(keys), int(size)
limit = keys if operation == "all" else sys.maxsize
data = b"x" * size
client = KazooClient(hosts=server, timeout=30)
client.start()

condition = threading.Condition()
sent = answered = failed = in_flight = 0
is_over = False


def count(result):
    """Counts an answer, and makes the next request."""
    global answered, failed, in_flight
    with condition:
        in_flight -= 1
        answered += 1
        if not result.successful():
            failed += 1
        if not is_over and sent < limit:
            send_next()
        if in_flight == 0:
            condition.notify_all()


def send_next():
    """With the lock held: makes one request."""
    global sent, in_flight
    path = "/zebu-bench/c%07d" % (sent % keys)
    sent += 1
    in_flight += 1
    if operation == "set":
        client.set_async(path, data).rawlink(count)
    else:
        client.get_async(path).rawlink(count)


with condition:
    start = time.monotonic()
    while sent < min(depth, limit):
        send_next()
    if operation == "all":
        condition.wait_for(lambda: in_flight == 0)
        before = 0
if operation != "all":
    # The first fifth does not count.
    time.sleep(seconds / 5)
    with condition:
        before, start = answered, time.monotonic()
    time.sleep(seconds)
with condition:
    end = time.monotonic()
    done = {"requests": answered - before, "seconds": end - start, "errors": failed}
    print(json.dumps(done), flush=True)
    is_over = True
    condition.wait_for(lambda: in_flight == 0)
client.stop()
client.close()
