"""Recipes whose methods wait for their results: locks, elections, barriers, queues, counters, caches and more."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar

from . import _native
from ._lease import entry, holder_name, holder_path, is_taken
from ._waiting import Stream, in_time, waited
from .exceptions import NoNodeError
from .types import ACL, Change, Stat, Znode, _change, _entries, _identifier

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")


class Held:
    """A lock or a leadership that is held. With ``with`` it is released at the end; forgotten, too.

    ``token`` is the fencing token: it grows from holder to holder. A resource outside of the ensemble remembers the
    largest and refuses smaller ones. ``path`` is the holder's znode.
    """

    def __init__(self, held: _native.Held) -> None:
        self._held = held
        self.token: int = held.token
        self.path: str = held.path

    @property
    def is_held(self) -> bool:
        """Whether it is certain that it is held. Without a connection it is not."""
        return self._held.is_certain

    @property
    def is_wanted(self) -> bool:
        """Whether another program asks for it, see `Lock.ask_back`."""
        return self._held.is_wanted

    @property
    def is_over(self) -> bool:
        """Whether it was released or lost."""
        return self._held.is_over

    def wait_for_doubt(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is not certain that it is held. ``False``: so many seconds have passed before."""
        return in_time(self._held.doubt(), timeout)

    def wait_for_loss(self, timeout: Optional[float] = None) -> bool:
        """Waits until it was released or lost. ``False``: so many seconds have passed before."""
        return in_time(self._held.over(), timeout)

    def release(self) -> None:
        """Releases it, and returns when that is done."""
        self._held.release().wait()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class Lock:
    """A lock in the order of arrival, exclusive or shared. With ``with`` it is acquired and released.

    With the layout ``kazoo``, programs with kazoo's ``Lock``, ``ReadLock`` and ``WriteLock`` stand in the same line.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        identifier: str = "",
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._lock = _native.Lock(client._session, path, identifier.encode(), entries, layout)
        self._entered: List[Held] = []

    def acquire(self, timeout: Optional[float] = None, shared: bool = False) -> Held:
        """Waits for the lock. Raises `TimeoutError` after so many seconds, and gives up the place in line."""
        return Held(waited(self._lock.acquire(shared), timeout))

    def try_acquire(self, shared: bool = False) -> Optional[Held]:
        """The lock, if nobody is in its way."""
        held = waited(self._lock.try_acquire(shared))
        return None if held is None else Held(held)

    def contenders(self) -> List[str]:
        """The identifiers of the holders and of those who wait, in order."""
        return [name.decode(errors="replace") for name, _, _ in self._lock.contenders().wait()]

    def ask_back(self) -> int:
        """Asks the holders for the lock, see `Held.is_wanted`. Tells how many there are."""
        return self._lock.ask_back().wait()

    def __enter__(self) -> Held:
        held = self.acquire()
        self._entered.append(held)
        return held

    def __exit__(self, *error: object) -> None:
        self._entered.pop().release()


class WriteLock(Lock):
    """A lock that excludes all others of its path."""


class ReadLock(Lock):
    """A lock that several programs may hold, unless one holds a `WriteLock` or `Lock` of its path."""

    def acquire(self, timeout: Optional[float] = None, shared: bool = True) -> Held:
        """Waits for the lock, as `Lock.acquire`."""
        return super().acquire(timeout, shared)

    def try_acquire(self, shared: bool = True) -> Optional[Held]:
        """The lock, if nobody is in its way."""
        return super().try_acquire(shared)


class Semaphore:
    """A number of leases. Programs with Curator's ``InterProcessSemaphoreV2`` may use the same path.

    With ``with`` a lease is acquired and released.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        identifier: str = "",
        max_leases: int = 1,
        acl: Optional[Sequence[ACL]] = None,
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._semaphore = _native.Semaphore(client._session, path, max_leases, identifier.encode(), entries)
        self._entered: List[Held] = []

    def acquire(self, timeout: Optional[float] = None) -> Held:
        """Waits for a lease. Raises `TimeoutError` after so many seconds, and gives up the place in line."""
        return Held(waited(self._semaphore.acquire(), timeout))

    def try_acquire(self) -> Optional[Held]:
        """A lease, if one is free."""
        held = waited(self._semaphore.try_acquire())
        return None if held is None else Held(held)

    def lease_holders(self) -> List[str]:
        """The identifiers of those who have leases."""
        return [name.decode(errors="replace") for name in self._semaphore.holders().wait()]

    def __enter__(self) -> Held:
        held = self.acquire()
        self._entered.append(held)
        return held

    def __exit__(self, *error: object) -> None:
        self._entered.pop().release()


class Election:
    """An election: one program leads, the others wait in line."""

    def __init__(
        self,
        client: Client,
        path: str,
        identifier: str = "",
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> None:
        self._election = _native.Election(client._session, path, _entries(acl, client.default_acl), layout)
        self._identifier = identifier

    def lead(self, timeout: Optional[float] = None) -> Held:
        """Waits to lead. Raises `TimeoutError` after so many seconds, and withdraws."""
        return Held(waited(self._election.lead(self._identifier), timeout))

    def run(self, func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Waits to lead, calls the function, and gives the leadership up."""
        with self.lead():
            return func(*args, **kwargs)

    def contenders(self) -> List[str]:
        """The leader, followed by the waiting candidates in order."""
        return [name for name, _ in self._election.candidates().wait()]


class Barrier:
    """A barrier that one program opens for all. Programs with kazoo or Curator may use the same path."""

    def __init__(self, client: Client, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._barrier = _native.Barrier(client._session, path, _entries(acl, client.default_acl))

    def create(self) -> None:
        """Closes the barrier."""
        self._barrier.create().wait()

    def remove(self) -> None:
        """Opens the barrier."""
        self._barrier.remove().wait()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the barrier is open. ``False``: so many seconds have passed before."""
        return in_time(self._barrier.passed(), timeout)


class DoubleBarrier:
    """A barrier that programs enter together and leave together. With ``with`` it is entered and left."""

    def __init__(
        self,
        client: Client,
        path: str,
        num_clients: int,
        identifier: Optional[str] = None,
        acl: Optional[Sequence[ACL]] = None,
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._barrier = _native.DoubleBarrier(client._session, path, num_clients, entries)
        self._name = _identifier(identifier)
        self._inside: Optional[_native.Inside] = None

    def enter(self, timeout: Optional[float] = None) -> None:
        """Waits until enough have come. Raises `TimeoutError` after so many seconds, and goes away again."""
        self._inside = waited(self._barrier.enter(self._name), timeout)

    def leave(self) -> None:
        """Waits until all others leave too."""
        inside, self._inside = self._inside, None
        if inside is not None:
            inside.leave().wait()

    def __enter__(self) -> DoubleBarrier:
        self.enter()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()


class Item:
    """An item that this worker has taken from a `Queue`.

    With ``with`` it is finished at the end, or given back after an exception; forgotten, it is given back.
    """

    def __init__(self, data: bytes, item: _native.Item) -> None:
        self.data = data
        self._item = item

    def finish(self) -> None:
        """Deletes the item."""
        self._item.finish().wait()

    def give_back(self) -> None:
        """Lets another worker take the item."""
        self._item.give_back()

    def __enter__(self) -> bytes:
        return self.data

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.give_back()


class Queue:
    """A queue by priority, whose items survive a crash of their worker: another worker takes them then."""

    def __init__(self, client: Client, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._queue = _native.Queue(client._session, path, _entries(acl, client.default_acl))

    def put(self, value: bytes, priority: int = 100) -> None:
        """Adds an item. Priorities are 0 to 255; the lowest come first."""
        self._queue.put(value, priority).wait()

    def take(self, timeout: Optional[float] = None) -> Item:
        """Waits for an item. Raises `TimeoutError` after so many seconds."""
        return Item(*waited(self._queue.take(), timeout))

    def size(self) -> int:
        """The number of items, also of those that workers have taken."""
        return self._queue.len().wait()


class Counter:
    """A number that many programs change. Programs with kazoo's ``Counter`` may use the same path."""

    def __init__(
        self, client: Client, path: str, default: int = 0, acl: Optional[Sequence[ACL]] = None
    ) -> None:
        self._counter = _native.Counter(client._session, path, default, _entries(acl, client.default_acl))

    @property
    def value(self) -> int:
        """The number, read now."""
        return self._counter.get().wait()

    def add(self, change: int) -> int:
        """Adds to the number, and tells the new one."""
        return self._counter.add(change).wait()

    def __iadd__(self, change: int) -> Counter:
        self.add(change)
        return self

    def __isub__(self, change: int) -> Counter:
        self.add(-change)
        return self


class Party:
    """Programs that see each other. Programs with kazoo's ``Party`` may use the same path.

    With ``with`` a program joins and leaves.
    """

    def __init__(
        self, client: Client, path: str, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None
    ) -> None:
        self._party = _native.Party(client._session, path, _entries(acl, client.default_acl))
        self._data = _identifier(identifier).encode()
        self._member: Optional[_native.Member] = None

    def join(self) -> None:
        """Joins. A member whose znode another program deletes joins again by itself."""
        if self._member is None:
            self._member = waited(self._party.join(self._data))

    def leave(self) -> None:
        """Leaves."""
        member, self._member = self._member, None
        if member is not None:
            member.leave().wait()

    def members(self) -> List[str]:
        """The identifiers of the members."""
        return [name.decode(errors="replace") for name in self._party.members().wait()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members())

    def __len__(self) -> int:
        return len(self.members())

    def __enter__(self) -> Party:
        self.join()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()


Read = Optional[Tuple[bytes, Stat]]


class DataWatch(Stream[Read, Read]):
    """The data of a znode and its stat, now and after each change; ``None`` while there is no znode."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__(_native.DataWatch(client._session, path), lambda read: read)


class ChildrenWatch(Stream[Optional[List[str]], Optional[List[str]]]):
    """The names of the children of a znode, now and after each change; ``None`` while there is no znode."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__(_native.ChildrenWatch(client._session, path), lambda names: names)


class Changes(Stream[Tuple[str, Optional[Tuple[str, bytes, Stat]]], Change]):
    """The changes of a `Cache`: first what it has, then ``current``, then each change."""

    def __init__(self, changes: _native.Changes) -> None:
        super().__init__(changes, _change)


class Cache:
    """A part of the tree in memory, which one watch keeps up to date."""

    def __init__(self, client: Client, path: str, depth: str = "tree", data: bool = True) -> None:
        self._cache = _native.Cache(client._session, path, depth, data)

    @property
    def is_current(self) -> bool:
        """Whether the cache is complete and hears of changes."""
        return self._cache.is_current

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is current. ``False``: so many seconds have passed before."""
        return in_time(self._cache.current(), timeout)

    def get(self, path: str) -> Optional[Znode]:
        """A znode; ``None`` if there is none."""
        znode = self._cache.get(path)
        return None if znode is None else Znode(*znode)

    def get_children(self, path: str) -> List[str]:
        """The names of the children of a znode, in order."""
        return self._cache.children_of(path)

    def __len__(self) -> int:
        return self._cache.len()

    def changes(self) -> Changes:
        """The changes of the cache."""
        return Changes(self._cache.changes())


def lease(
    client: Client, path: str, duration: timedelta, identifier: Optional[str], acl: Optional[Sequence[ACL]]
) -> bool:
    """Whether this program gets the lease of a path, see `Client.NonBlockingLease`."""
    name, holder = holder_name(identifier), holder_path(path)
    with Lock(client, path, name, acl, "kazoo"):
        written = client.transaction()
        try:
            raw, stat = client.get(holder)
        except NoNodeError:
            pass
        else:
            if is_taken(raw, name):
                return False
            written.delete(holder, stat.version)
        written.create(holder, entry(name, duration), acl)
        written.commit()
    return True
