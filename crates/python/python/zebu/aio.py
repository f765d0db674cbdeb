"""The client for asyncio: what `zebu.Client` does, with methods that are awaited.

    import zebu, zebu.aio

    async with await zebu.aio.connect("zoo1:2181", default_acl=zebu.open_to_all()) as client:
        await client.create("/app", b"v1")
        async with await client.watch("/app", recursive=True) as changes:
            await client.set("/app", b"v2")
            print(await changes.next())
        async with client.Lock("/locks/printer", "host 7") as held:
            print("fencing token", held.token)

Requests are ordered by the *calls* of their methods, so a program can start many before it waits for the first.
Cancelling a task withdraws its request if it is not sent yet, and its place in line.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple, Union

from . import _native
from ._aio_client import BaseClient, PersistentWatch, Transaction, Watch
from ._awaiting import answer
from .aio_recipes import (
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
from .types import ACL, Sasl, Ticket, Tls, _settings

__all__ = [
    "Barrier",
    "Cache",
    "Changes",
    "ChildrenWatch",
    "Client",
    "Counter",
    "DataWatch",
    "DoubleBarrier",
    "Election",
    "Held",
    "Item",
    "KazooQueue",
    "Lock",
    "LockingQueue",
    "Part",
    "Party",
    "PatientChildrenWatch",
    "PersistentWatch",
    "Queue",
    "ReadLock",
    "Semaphore",
    "SetPartitioner",
    "ShallowParty",
    "Transaction",
    "Watch",
    "WriteLock",
    "connect",
]


class Client(BaseClient):
    """A session with an ensemble, opened by `connect`. Its methods are those of `zebu.Client`."""

    def __init__(self, session: _native.Session, default_acl: Optional[Sequence[ACL]] = None) -> None:
        self._session = session
        self.default_acl = default_acl


async def connect(
    hosts: str = "127.0.0.1:2181",
    timeout: Optional[float] = None,
    *,
    default_acl: Optional[Sequence[ACL]] = None,
    auth: Sequence[Tuple[str, Union[str, bytes]]] = (),
    connection_wait: Optional[float] = None,
    request_timeout: Optional[float] = None,
    give_up_after: Optional[float] = None,
    read_only: bool = False,
    create_chroot: Optional[Sequence[ACL]] = None,
    ticket: Optional[Ticket] = None,
    tls: Optional[Tls] = None,
    sasl: Optional[Sasl] = None,
) -> Client:
    """Opens a session; the arguments are those of `zebu.Client`."""
    settings = _settings(
        timeout=timeout,
        connection_wait=connection_wait,
        request_timeout=request_timeout,
        give_up_after=give_up_after,
        read_only=read_only,
        create_chroot=create_chroot,
        auth=auth,
        ticket=ticket,
        tls=tls,
        sasl=sasl,
    )
    return Client(await answer(_native.connect(hosts, settings)), default_acl)
