"""The methods of a client, which block."""
# This file is made from _aio_client.py: UPDATE_EXPECT=1 cargo test -p xtask halves

from __future__ import annotations

from copy import copy
from datetime import timedelta
from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _native
from ._waiting import answer, come, made
from .recipes import (
    Barrier,
    Cache,
    ChildrenWatch,
    Counter,
    DataWatch,
    DoubleBarrier,
    Election,
    KazooQueue,
    Lock,
    LockingQueue,
    Party,
    PatientChildrenWatch,
    Queue,
    ReadLock,
    Semaphore,
    SetPartitioner,
    ShallowParty,
    Stream,
    WriteLock,
    lease,
)
from .types import ACL, Event, Stat, Ticket, _entries, _mode, _op

C = TypeVar("C", bound="BaseClient")


class Watch:
    """A one-shot watch set by a read. It is removed when its object is garbage collected before the event."""

    def __init__(self, watch: _native.Watch) -> None:
        self._call: Optional[_native.Call[Tuple[str, str, Optional[int]]]] = watch.next()

    def wait(self, timeout: Optional[float] = None) -> Event:
        """The event. Raises `TimeoutError` if it does not come within that many seconds; call `wait` again then."""
        if self._call is None:
            raise ValueError("the watch has told its event, or was closed")
        event = Event(*come(self._call, timeout))
        self._call = None
        return event

    def close(self) -> None:
        """Removes the watch."""
        self._call = None


class PersistentWatch(Stream[Tuple[str, str, Optional[int]], Event]):
    """A watch that reports every change, in order, until it is closed. A program can iterate over it."""

    def __init__(self, watch: _native.PersistentWatch) -> None:
        super().__init__(watch, lambda told: Event(*told))


class Transaction:
    """Several writes, of which all are executed or none. ``with`` commits them at the end."""

    def __init__(self, client: BaseClient) -> None:
        self._client = client
        self._ops: List[Dict[str, Any]] = []

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: Optional[Sequence[ACL]] = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl: Optional[float] = None,
    ) -> None:
        """Creates a znode. The result is its path."""
        entries = _entries(acl, self._client.default_acl)
        mode = _mode(ephemeral, sequence, container, ttl)
        self._ops.append(_op("create", path, value, mode=mode, acl=entries))

    def delete(self, path: str, version: int = -1) -> None:
        """Deletes a znode. The result is ``None``."""
        self._ops.append(_op("delete", path, version=version))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """Sets the data of a znode. The result is its stat."""
        self._ops.append(_op("set", path, value, version))

    def check(self, path: str, version: int) -> None:
        """Requires that a znode has this version. The result is ``None``."""
        self._ops.append(_op("check", path, version=version))

    def commit(self) -> List[Any]:
        """Commits. Returns the results in the order of the writes. An error has the write's index as ``operation``."""
        ops, self._ops = self._ops, []
        return answer(self._client._session.commit(ops))

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self.commit()


class BaseClient:
    """An open session with an ensemble."""

    _session: _native.Session
    #: The ACL of znodes that are created without an ACL.
    default_acl: Optional[Sequence[ACL]]

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session, and with it its ephemerals and watches."""
        return answer(self._session.close())

    def with_chroot(self: C, path: str) -> C:
        """A client of the same session whose root is this znode below the root of this client; it need not exist yet.

        Both share the session, its ephemerals and its watches, and `close` of either ends the session. Each client names
        znodes from its own root: in arguments, results, errors and events.
        """
        other = copy(self)
        other._session = self._session.with_chroot(path)
        return other

    @property
    def chroot(self) -> str:
        """The znode that the paths of this client begin at."""
        return self._session.chroot()

    @property
    def state(self) -> str:
        """The state of the session: ``connected``, ``connected_read_only``, ``disconnected``, ``connecting``, or, after
        its end, ``expired``, ``auth_failed``, ``closed``, ``given_up``, ``other_ensemble``."""
        return self._session.state()

    @property
    def session_left(self) -> float:
        """The minimum seconds that the session still exists, as far as the client knows; 0 if it may be over."""
        return self._session.session_left()

    @property
    def ticket(self) -> Optional[Ticket]:
        """A ticket with which another client can continue the session."""
        ticket = self._session.ticket()
        return None if ticket is None else Ticket(*ticket)

    def leave(self) -> Optional[Ticket]:
        """Ends the connection but not the session. Another client can continue the session with the ticket."""
        ticket = self._session.leave()
        return None if ticket is None else Ticket(*ticket)

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: Optional[Sequence[ACL]] = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        *,
        container: bool = False,
        ttl: Optional[float] = None,
        protected: bool = False,
    ) -> str:
        """Creates a znode and returns its path. ``sequence`` appends ten digits to the path.

        ``makepath`` creates missing parents. ``protected`` adds a mark to the znode's name. If the answer is lost, the
        client can then find out whether the znode was created.
        """
        entries = _entries(acl, self.default_acl)
        mode = _mode(ephemeral, sequence, container, ttl)
        parent = path.rpartition("/")[0]
        if not (makepath and parent):
            return answer(self._session.create(path, value, mode, entries, protected))

        def with_parents() -> str:
            answer(self._session.ensure_path(parent, entries))
            return answer(self._session.create(path, value, mode, entries, protected))

        return with_parents()

    def ensure_path(self, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        """Creates a znode and its parents if they do not exist."""
        return answer(self._session.ensure_path(path, _entries(acl, self.default_acl)))

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> None:
        """Deletes a znode, if it has this version; with ``recursive`` also everything below it."""
        return answer(self._session.delete_all(path) if recursive else self._session.delete(path, version))

    def exists(self, path: str) -> Optional[Stat]:
        """The stat of a znode, or ``None``."""
        return answer(self._session.exists(path))

    def watch_exists(self, path: str) -> Tuple[Optional[Stat], Watch]:
        """Like `exists`, but also sets a watch."""
        return made(self._session.watch_exists(path), lambda read: (read[0], Watch(read[1])))

    def get(self, path: str) -> Tuple[bytes, Stat]:
        """The data of a znode and its stat."""
        return answer(self._session.get(path))

    def watch_data(self, path: str) -> Tuple[bytes, Stat, Watch]:
        """Like `get`, but also sets a watch."""
        return made(self._session.watch_data(path), lambda read: (read[0], read[1], Watch(read[2])))

    def set(self, path: str, value: bytes, version: int = -1) -> Stat:
        """Sets the data of a znode, if it has this version."""
        return answer(self._session.set(path, value, version))

    def get_children(self, path: str) -> List[str]:
        """The names of the children of a znode."""
        return answer(self._session.get_children(path))

    def watch_children(self, path: str) -> Tuple[List[str], Watch]:
        """Like `get_children`, but also sets a watch."""
        return made(self._session.watch_children(path), lambda read: (read[0], Watch(read[1])))

    def watch(self, path: str, recursive: bool = False) -> PersistentWatch:
        """A persistent watch of a znode and its child list, or of its whole subtree with ``recursive``."""
        return made(self._session.watch(path, recursive), PersistentWatch)

    def get_acls(self, path: str) -> Tuple[List[ACL], Stat]:
        """The ACL of a znode and its stat."""
        return made(
            self._session.get_acls(path), lambda read: ([ACL(*entry) for entry in read[0]], read[1])
        )

    def set_acls(self, path: str, acls: Sequence[ACL], version: int = -1) -> Stat:
        """Sets the ACL of a znode, if its ACL has this version."""
        return answer(self._session.set_acls(path, list(acls), version))

    def sync(self, path: str) -> None:
        """Waits until the client's server has all writes that were committed before this call."""
        return answer(self._session.sync(path))

    def transaction(self) -> Transaction:
        """Several writes, of which all are executed or none."""
        return Transaction(self)

    def count_descendants(self, path: str) -> int:
        """The number of znodes below this path."""
        return answer(self._session.count_descendants(path))

    def ephemerals(self, prefix: str = "/") -> List[str]:
        """The ephemeral znodes of this session whose paths begin with ``prefix``."""
        return answer(self._session.ephemerals(prefix))

    def add_auth(self, scheme: str, credential: Union[str, bytes]) -> None:
        """Adds credentials, for this and all later connections."""
        secret = credential.encode() if isinstance(credential, str) else credential
        return answer(self._session.add_auth(scheme, secret))

    def who_am_i(self) -> List[Tuple[str, str]]:
        """The identities of this client, as schemes and names."""
        return answer(self._session.who_am_i())

    def get_config(self) -> Tuple[bytes, Stat]:
        """The configuration of the ensemble: its members and their addresses."""
        return answer(self._session.get_config())

    def Lock(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> Lock:
        """A `Lock` of this client. With the layout ``kazoo`` it is compatible with kazoo's."""
        return Lock(self, path, identifier, acl, layout)

    def ReadLock(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> ReadLock:
        """A `ReadLock` of this client."""
        return ReadLock(self, path, identifier, acl, layout)

    def WriteLock(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> WriteLock:
        """A `WriteLock` of this client."""
        return WriteLock(self, path, identifier, acl, layout)

    def Semaphore(
        self,
        path: str,
        identifier: str = "",
        max_leases: int = 1,
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> Semaphore:
        """A `Semaphore` of this client. With the layout ``kazoo`` it is compatible with kazoo's."""
        return Semaphore(self, path, identifier, max_leases, acl, layout)

    def Election(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> Election:
        """An `Election` of this client. The layouts ``latch`` and ``selector`` are compatible with Curator's recipes of
        these names, and ``kazoo`` is compatible with kazoo's."""
        return Election(self, path, identifier, acl, layout)

    def Barrier(self, path: str, acl: Optional[Sequence[ACL]] = None) -> Barrier:
        """A `Barrier` of this client."""
        return Barrier(self, path, acl)

    def DoubleBarrier(
        self,
        path: str,
        num_clients: int,
        identifier: Optional[str] = None,
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> DoubleBarrier:
        """A `DoubleBarrier` of this client. With the layout ``kazoo`` it is compatible with kazoo's."""
        return DoubleBarrier(self, path, num_clients, identifier, acl, layout)

    def Queue(self, path: str, acl: Optional[Sequence[ACL]] = None) -> Queue:
        """A `Queue` of this client."""
        return Queue(self, path, acl)

    def LockingQueue(self, path: str, acl: Optional[Sequence[ACL]] = None) -> LockingQueue:
        """A `LockingQueue` of this client."""
        return LockingQueue(self, path, acl)

    def KazooQueue(self, path: str, acl: Optional[Sequence[ACL]] = None) -> KazooQueue:
        """A `KazooQueue` of this client."""
        return KazooQueue(self, path, acl)

    def Counter(self, path: str, default: int = 0, acl: Optional[Sequence[ACL]] = None) -> Counter:
        """A `Counter` of this client."""
        return Counter(self, path, default, acl)

    def Party(self, path: str, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None) -> Party:
        """A `Party` of this client."""
        return Party(self, path, identifier, acl)

    def ShallowParty(
        self, path: str, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None
    ) -> ShallowParty:
        """A `ShallowParty` of this client."""
        return ShallowParty(self, path, identifier, acl)

    def SetPartitioner(
        self,
        path: str,
        set: Iterable[str],
        identifier: Optional[str] = None,
        time_boundary: float = 30,
        acl: Optional[Sequence[ACL]] = None,
    ) -> SetPartitioner:
        """A `SetPartitioner` of this client."""
        return SetPartitioner(self, path, set, identifier, time_boundary, acl)

    def DataWatch(self, path: str) -> DataWatch:
        """A `DataWatch` of this client."""
        return DataWatch(self, path)

    def ChildrenWatch(self, path: str) -> ChildrenWatch:
        """A `ChildrenWatch` of this client."""
        return ChildrenWatch(self, path)

    def PatientChildrenWatch(self, path: str, time_boundary: float = 30) -> PatientChildrenWatch:
        """A `PatientChildrenWatch` of this client."""
        return PatientChildrenWatch(self, path, time_boundary)

    def Cache(self, path: str, depth: str = "tree", data: bool = True) -> Cache:
        """A `Cache` of a znode with its whole subtree, with only its ``children``, or of the ``znode`` alone."""
        return Cache(self, path, depth, data)

    def NonBlockingLease(
        self,
        path: str,
        duration: timedelta,
        identifier: Optional[str] = None,
        acl: Optional[Sequence[ACL]] = None,
    ) -> bool:
        """Tries to get the lease of a path for this duration, without waiting. Returns whether this program has it.

        A program with the same identifier renews the lease. The clocks of the programs must agree roughly. Programs
        that use kazoo may use the same path.
        """
        return lease(self, path, duration, identifier, acl)

    def MultiNonBlockingLease(
        self,
        count: int,
        path: str,
        duration: timedelta,
        identifier: Optional[str] = None,
        acl: Optional[Sequence[ACL]] = None,
    ) -> bool:
        """Tries to get one of ``count`` leases; see `NonBlockingLease`. Returns whether this program has one."""
        for number in range(count):
            if lease(self, f"{path}/{number}", duration, identifier, acl):
                return True
        return False
