"""A client that puts up with a server that only reads, until there is one that writes."""

import logging
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NotReadOnlyCallError
from kazoo.protocol.states import KeeperState

logging.disable(logging.CRITICAL)


def wait_for(client, state):
    deadline = time.monotonic() + 180
    while client.client_state != state:
        assert time.monotonic() < deadline, client.client_state
        time.sleep(0.02)
    print("state", state, flush=True)


client = KazooClient(hosts=sys.argv[1], timeout=20.0, read_only=True)
client.start(timeout=180)
wait_for(client, KeeperState.CONNECTED_RO)
print("get", client.get("/x")[0], sorted(client.get_children("/")), flush=True)
for name, call in [
    ("set", lambda: client.set("/x", b"2")),
    ("create", lambda: client.create("/y", b"")),
    ("delete", lambda: client.delete("/x")),
    ("sync", lambda: client.sync("/x")),
]:
    try:
        call()
        print(name, "worked", flush=True)
    except NotReadOnlyCallError as error:
        print(name, type(error).__name__, flush=True)
print("read-only is over", flush=True)
wait_for(client, KeeperState.CONNECTED)
client.set("/x", b"3")
print("get", client.get("/x")[0], flush=True)
client.stop()
