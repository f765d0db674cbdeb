"""Adds an observer and removes it again, with kazoo."""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

address, credential, entry = sys.argv[1:]
client = KazooClient(hosts=address, timeout=20, auth_data=[("digest", credential)])
client.start(timeout=60)
before, _ = client.get("/zookeeper/config")
server = entry.split("=")[0]


def change(**kinds):
    """Reconfigures, however often the connection breaks meanwhile."""
    request = {"joining": None, "leaving": None, "new_members": None, **kinds}
    return client.retry(client.reconfig, **request)


data, stat = change(joining=entry)
print("joined", server.encode() in data and data == client.get("/zookeeper/config")[0])
try:
    change(joining=entry, from_config=int(before.rsplit(b"=", 1)[1], 16))
    print("bad version", False)
except BadVersionError:
    print("bad version", True)
data, stat = change(leaving=server.split(".")[1])
print("left", server.encode() in data)
client.stop()
