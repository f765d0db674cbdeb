"""The client whose methods wait for their results."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

from . import _native
from ._waiting import Stream
from .recipes import (
    Barrier,
    Cache,
    ChildrenWatch,
    Counter,
    DataWatch,
    DoubleBarrier,
    Election,
    Lock,
    Party,
    Queue,
    ReadLock,
    Semaphore,
    WriteLock,
    lease,
)
from .types import ACL, Event, Sasl, Stat, Ticket, Tls, _entries, _mode, _op, _settings


class Watch:
    """A watch that a read has left: it tells one event. Forgotten before, it is removed."""

    def __init__(self, watch: _native.Watch) -> None:
        self._call: Optional[_native.Call[Tuple[str, str, Optional[int]]]] = watch.next()

    def wait(self, timeout: Optional[float] = None) -> Event:
        """The event. Raises `TimeoutError` when it does not come in so many seconds; ask again then."""
        if self._call is None:
            raise ValueError("the watch has told its event, or was closed")
        event = Event(*self._call.wait(timeout))
        self._call = None
        return event

    def close(self) -> None:
        """Removes the watch."""
        self._call = None


class PersistentWatch(Stream[Tuple[str, str, Optional[int]], Event]):
    """A watch that tells of every change, in order, until it is closed. It can be iterated over."""

    def __init__(self, watch: _native.PersistentWatch) -> None:
        super().__init__(watch, lambda told: Event(*told))


class Transaction:
    """Several writes, of which all happen or none. With ``with`` they are committed at the end."""

    def __init__(self, client: Client) -> None:
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
        """Creates a znode; its result is the path."""
        entries = _entries(acl, self._client.default_acl)
        mode = _mode(ephemeral, sequence, container, ttl)
        self._ops.append(_op("create", path, value, mode=mode, acl=entries))

    def delete(self, path: str, version: int = -1) -> None:
        """Deletes a znode; its result is ``None``."""
        self._ops.append(_op("delete", path, version=version))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """Sets the data of a znode; its result is the stat."""
        self._ops.append(_op("set", path, value, version))

    def check(self, path: str, version: int) -> None:
        """Demands that a znode has this version; its result is ``None``."""
        self._ops.append(_op("check", path, version=version))

    def commit(self) -> List[Any]:
        """Commits; the results are in the order of the writes. The error of one has its place as ``operation``."""
        ops, self._ops = self._ops, []
        return self._client._session.commit(ops).wait()

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


class Client:
    """A session with an ensemble, shared by all threads. It is opened at once, and closed by `close` or ``with``.

    ``hosts`` is a connect string: ``zoo1:2181,zoo2:2181/app``. Times are in seconds. A session never becomes another
    one: when it is over, everything fails with `exceptions.SessionOverError`, and the program opens a new one.
    """

    def __init__(
        self,
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
    ) -> None:
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
        #: The ACL of znodes that are created without one.
        self.default_acl: Optional[Sequence[ACL]] = default_acl
        self._session = _native.connect(hosts, settings).wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session, and with it its ephemerals and watches."""
        self._session.close().wait()

    @property
    def state(self) -> str:
        """How the session stands: ``connected``, ``connected_read_only``, ``disconnected``, ``connecting``, or over:
        ``expired``, ``auth_failed``, ``closed``, ``given_up``, ``other_ensemble``."""
        return self._session.state()

    @property
    def session_left(self) -> float:
        """How many seconds the session lasts at least, as far as the client knows; 0 when it may be over."""
        return self._session.session_left()

    @property
    def ticket(self) -> Optional[Ticket]:
        """What lets another client go on with the session."""
        ticket = self._session.ticket()
        return None if ticket is None else Ticket(*ticket)

    def leave(self) -> Optional[Ticket]:
        """Ends the connection and leaves the session to whoever has the ticket."""
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
        """Creates a znode; its path has ten digits more with ``sequence``.

        ``makepath`` creates the parents that are missing. ``protected`` marks the name of the znode, so that the client
        can find out whether a create happened whose answer was lost.
        """
        entries = _entries(acl, self.default_acl)
        parent = path.rpartition("/")[0]
        if makepath and parent:
            self._session.ensure_path(parent, entries).wait()
        mode = _mode(ephemeral, sequence, container, ttl)
        return self._session.create(path, value, mode, entries, protected).wait()

    def ensure_path(self, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        """Creates a znode and its parents, as far as they are missing."""
        self._session.ensure_path(path, _entries(acl, self.default_acl)).wait()

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> None:
        """Deletes a znode, if it has this version; with ``recursive`` also everything below it."""
        if recursive:
            self._session.delete_all(path).wait()
        else:
            self._session.delete(path, version).wait()

    def exists(self, path: str) -> Optional[Stat]:
        """The stat of a znode, or ``None``."""
        return self._session.exists(path).wait()

    def watch_exists(self, path: str) -> Tuple[Optional[Stat], Watch]:
        """As `exists`, with a watch of what was read."""
        stat, watch = self._session.watch_exists(path).wait()
        return stat, Watch(watch)

    def get(self, path: str) -> Tuple[bytes, Stat]:
        """The data of a znode and its stat."""
        return self._session.get(path).wait()

    def watch_data(self, path: str) -> Tuple[bytes, Stat, Watch]:
        """As `get`, with a watch of what was read."""
        data, stat, watch = self._session.watch_data(path).wait()
        return data, stat, Watch(watch)

    def set(self, path: str, value: bytes, version: int = -1) -> Stat:
        """Sets the data of a znode, if it has this version."""
        return self._session.set(path, value, version).wait()

    def get_children(self, path: str) -> List[str]:
        """The names of the children of a znode."""
        return self._session.get_children(path).wait()

    def watch_children(self, path: str) -> Tuple[List[str], Watch]:
        """As `get_children`, with a watch of what was read."""
        names, watch = self._session.watch_children(path).wait()
        return names, Watch(watch)

    def watch(self, path: str, recursive: bool = False) -> PersistentWatch:
        """A watch that tells of every change of a znode and its children, or of everything below it."""
        return PersistentWatch(self._session.watch(path, recursive).wait())

    def get_acls(self, path: str) -> Tuple[List[ACL], Stat]:
        """The ACL of a znode and its stat."""
        entries, stat = self._session.get_acls(path).wait()
        return [ACL(*entry) for entry in entries], stat

    def set_acls(self, path: str, acls: Sequence[ACL], version: int = -1) -> Stat:
        """Sets the ACL of a znode, if its ACL has this version."""
        return self._session.set_acls(path, list(acls), version).wait()

    def sync(self, path: str) -> None:
        """Waits until the client's server has everything that was committed before."""
        self._session.sync(path).wait()

    def transaction(self) -> Transaction:
        """Several writes, of which all happen or none."""
        return Transaction(self)

    def count_descendants(self, path: str) -> int:
        """The number of znodes below one."""
        return self._session.count_descendants(path).wait()

    def ephemerals(self, prefix: str = "/") -> List[str]:
        """The ephemeral znodes of this session whose paths begin so."""
        return self._session.ephemerals(prefix).wait()

    def add_auth(self, scheme: str, credential: Union[str, bytes]) -> None:
        """Proves another identity, on this and all later connections."""
        secret = credential.encode() if isinstance(credential, str) else credential
        self._session.add_auth(scheme, secret).wait()

    def who_am_i(self) -> List[Tuple[str, str]]:
        """The identities of this client, as schemes and names."""
        return self._session.who_am_i().wait()

    def get_config(self) -> Tuple[bytes, Stat]:
        """The members of the ensemble."""
        return self._session.get_config().wait()

    def Lock(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> Lock:
        """A `Lock` of this client. With the layout ``kazoo`` it is one with kazoo's."""
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
        self, path: str, identifier: str = "", max_leases: int = 1, acl: Optional[Sequence[ACL]] = None
    ) -> Semaphore:
        """A `Semaphore` of this client."""
        return Semaphore(self, path, identifier, max_leases, acl)

    def Election(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> Election:
        """An `Election` of this client. With ``latch`` or ``selector`` it is one with Curator's, with ``kazoo`` with
        kazoo's."""
        return Election(self, path, identifier, acl, layout)

    def Barrier(self, path: str, acl: Optional[Sequence[ACL]] = None) -> Barrier:
        """A `Barrier` of this client."""
        return Barrier(self, path, acl)

    def DoubleBarrier(
        self, path: str, num_clients: int, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None
    ) -> DoubleBarrier:
        """A `DoubleBarrier` of this client."""
        return DoubleBarrier(self, path, num_clients, identifier, acl)

    def Queue(self, path: str, acl: Optional[Sequence[ACL]] = None) -> Queue:
        """A `Queue` of this client."""
        return Queue(self, path, acl)

    def Counter(self, path: str, default: int = 0, acl: Optional[Sequence[ACL]] = None) -> Counter:
        """A `Counter` of this client."""
        return Counter(self, path, default, acl)

    def Party(self, path: str, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None) -> Party:
        """A `Party` of this client."""
        return Party(self, path, identifier, acl)

    def DataWatch(self, path: str) -> DataWatch:
        """A `DataWatch` of this client."""
        return DataWatch(self, path)

    def ChildrenWatch(self, path: str) -> ChildrenWatch:
        """A `ChildrenWatch` of this client."""
        return ChildrenWatch(self, path)

    def Cache(self, path: str, depth: str = "tree", data: bool = True) -> Cache:
        """A `Cache` of this client: of a znode and everything below it, or its ``children``, or the ``znode``."""
        return Cache(self, path, depth, data)

    def NonBlockingLease(
        self,
        path: str,
        duration: timedelta,
        identifier: Optional[str] = None,
        acl: Optional[Sequence[ACL]] = None,
    ) -> bool:
        """Whether this program has the lease of a path from now on, for this time. It does not wait.

        The program with the same identifier renews it. Clocks of programs must agree roughly. Programs with kazoo may
        use the same path.
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
        """Whether this program has one of so many leases, see `NonBlockingLease`."""
        return any(lease(self, f"{path}/{number}", duration, identifier, acl) for number in range(count))
