"""Writes as long as its input is open, and prints what was acknowledged.

usage: load.py host:port[,host:port...]

Prints `created PATH` for every acknowledged creation, and `done` at the end, when its ephemeral is still
there and its watch has seen the last change of what it watches. A lost session ends it with `lost`.
"""

import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.recipe.watchers import DataWatch
from kazoo.retry import KazooRetry

PATIENCE = 120
logging.disable(logging.CRITICAL)


def say(*words):
    print(*words, flush=True)


def on_state(state):
    if state == KazooState.LOST and not ending.is_set():
        say("lost")
        os._exit(1)


ending = threading.Event()
closed = threading.Event()


def until_closed():
    sys.stdin.read()
    closed.set()


threading.Thread(target=until_closed, daemon=True).start()
always = {"max_tries": -1, "max_delay": 0.5}
client = KazooClient(sys.argv[1], timeout=30, connection_retry=KazooRetry(**always), command_retry=KazooRetry(**always))
client.add_listener(on_state)
client.start(PATIENCE)
client.retry(client.ensure_path, "/kazoo")
client.retry(client.create, "/kazoo/ephemeral", ephemeral=True)
client.retry(client.ensure_path, "/kazoo/watched")

seen = [-1]


@DataWatch(client, "/kazoo/watched")
def watched(_data, stat):
    if stat is not None:
        seen[0] = max(seen[0], stat.version)


count = 0
while not closed.is_set():
    path = "/kazoo/%d" % count
    count += 1
    try:
        client.create(path, path.encode())
        say("created", path)
        client.set("/kazoo/watched", path.encode())
    except KazooException:
        # Perhaps it is there, perhaps not.
        pass
    time.sleep(0.02)

client.retry(client.sync, "/kazoo/watched")
_, last = client.retry(client.get, "/kazoo/watched")
assert client.retry(client.exists, "/kazoo/ephemeral"), "the ephemeral of a session that lives is gone"
end = time.monotonic() + PATIENCE
while seen[0] < last.version:
    assert time.monotonic() < end, "version %d was never notified, only %d" % (last.version, seen[0])
    time.sleep(0.05)
ending.set()
client.stop()
client.close()
say("done")
