"""A client of ZooKeeper and Zebu, with recipes. ``zebu.aio`` has the same for asyncio.

    import zebu

    with zebu.Client("zoo1:2181,zoo2:2181", default_acl=zebu.open_to_all()) as client:
        client.create("/app", b"v1")
        with client.watch("/app", recursive=True) as changes:
            client.set("/app", b"v2")
            print(changes.next(timeout=10))
        with client.Lock("/locks/printer", "host 7") as held:
            print("fencing token", held.token)
"""

from .client import Client, Election, Held, Lock, PersistentWatch, Transaction, Watch
from .exceptions import ZebuError
from .types import ACL, Event, Kerberos, Perms, Stat, Ticket, Tls, creator, digest, open_to_all, user

__all__ = [
    "ACL",
    "Client",
    "Election",
    "Event",
    "Held",
    "Kerberos",
    "Lock",
    "Perms",
    "PersistentWatch",
    "Stat",
    "Ticket",
    "Tls",
    "Transaction",
    "Watch",
    "ZebuError",
    "creator",
    "digest",
    "open_to_all",
    "user",
]
