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

from .client import Client, PersistentWatch, Transaction, Watch
from .exceptions import ZebuError
from .recipes import (
    Barrier,
    Cache,
    Changes,
    ChildrenWatch,
    Counter,
    DataWatch,
    DoubleBarrier,
    Election,
    Held,
    Item,
    KazooQueue,
    Lock,
    LockingQueue,
    Part,
    Party,
    PatientChildrenWatch,
    Queue,
    ReadLock,
    Semaphore,
    SetPartitioner,
    ShallowParty,
    WriteLock,
)
from .types import (
    ACL,
    Change,
    Event,
    Kerberos,
    Perms,
    Stat,
    Ticket,
    Tls,
    Znode,
    creator,
    digest,
    open_to_all,
    user,
)

__all__ = [
    "ACL",
    "Barrier",
    "Cache",
    "Change",
    "Changes",
    "ChildrenWatch",
    "Client",
    "Counter",
    "DataWatch",
    "DoubleBarrier",
    "Election",
    "Event",
    "Held",
    "Item",
    "KazooQueue",
    "Kerberos",
    "Lock",
    "LockingQueue",
    "Part",
    "Party",
    "PatientChildrenWatch",
    "Perms",
    "PersistentWatch",
    "Queue",
    "ReadLock",
    "Semaphore",
    "SetPartitioner",
    "ShallowParty",
    "Stat",
    "Ticket",
    "Tls",
    "Transaction",
    "Watch",
    "WriteLock",
    "ZebuError",
    "Znode",
    "creator",
    "digest",
    "open_to_all",
    "user",
]
