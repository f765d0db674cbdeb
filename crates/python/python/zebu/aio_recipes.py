"""Recipes for asyncio: what `zebu.recipes` has, with methods that are awaited."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Awaitable, Callable, List, Optional, Sequence, Tuple, Type, TypeVar

from . import _native
from ._awaiting import Stream, answer, made
from ._lease import entry, holder_name, holder_path, is_taken
from .exceptions import NoNodeError
from .types import ACL, Change, Stat, Znode, _change, _entries, _identifier

if TYPE_CHECKING:
    from .aio import Client

T = TypeVar("T")


class Held:
    """A lock or a leadership that is held. With ``async with`` it is released at the end; forgotten, too.

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

    def doubt(self) -> Awaitable[None]:
        """Waits until it is not certain that it is held."""
        return answer(self._held.doubt())

    def lost(self) -> Awaitable[None]:
        """Waits until it was released or lost."""
        return answer(self._held.over())

    def wanted(self) -> Awaitable[None]:
        """Waits until another program asks for it, or it is over."""
        return answer(self._held.wanted())

    def release(self) -> Awaitable[None]:
        """Releases it."""
        return answer(self._held.release())

    async def __aenter__(self) -> Held:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.release()


class Lock:
    """A lock in the order of arrival, exclusive or shared. With ``async with`` it is acquired and released.

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

    def acquire(self, shared: bool = False) -> Awaitable[Held]:
        """Waits for the lock. Cancelled, it gives up the place in line."""
        return made(self._lock.acquire(shared), Held)

    def try_acquire(self, shared: bool = False) -> Awaitable[Optional[Held]]:
        """The lock, if nobody is in its way."""
        return made(self._lock.try_acquire(shared), lambda held: None if held is None else Held(held))

    def contenders(self) -> Awaitable[List[str]]:
        """The identifiers of the holders and of those who wait, in order."""
        return made(
            self._lock.contenders(), lambda line: [name.decode(errors="replace") for name, _, _ in line]
        )

    def ask_back(self) -> Awaitable[int]:
        """Asks the holders for the lock, see `Held.is_wanted`. Tells how many there are."""
        return answer(self._lock.ask_back())

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._entered.append(held)
        return held

    async def __aexit__(self, *error: object) -> None:
        await self._entered.pop().release()


class WriteLock(Lock):
    """A lock that excludes all others of its path."""


class ReadLock(Lock):
    """A lock that several programs may hold, unless one holds a `WriteLock` or `Lock` of its path."""

    def acquire(self, shared: bool = True) -> Awaitable[Held]:
        """Waits for the lock, as `Lock.acquire`."""
        return super().acquire(shared)

    def try_acquire(self, shared: bool = True) -> Awaitable[Optional[Held]]:
        """The lock, if nobody is in its way."""
        return super().try_acquire(shared)


class Semaphore:
    """A number of leases. Programs with Curator's ``InterProcessSemaphoreV2`` may use the same path.

    With ``async with`` a lease is acquired and released.
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

    def acquire(self) -> Awaitable[Held]:
        """Waits for a lease. Cancelled, it gives up the place in line."""
        return made(self._semaphore.acquire(), Held)

    def try_acquire(self) -> Awaitable[Optional[Held]]:
        """A lease, if one is free."""
        return made(self._semaphore.try_acquire(), lambda held: None if held is None else Held(held))

    def lease_holders(self) -> Awaitable[List[str]]:
        """The identifiers of those who have leases."""
        return made(self._semaphore.holders(), lambda names: [name.decode(errors="replace") for name in names])

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._entered.append(held)
        return held

    async def __aexit__(self, *error: object) -> None:
        await self._entered.pop().release()


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

    def lead(self) -> Awaitable[Held]:
        """Waits to lead. Cancelled, it withdraws."""
        return made(self._election.lead(self._identifier), Held)

    async def run(self, func: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Waits to lead, awaits what the function returns, and gives the leadership up."""
        async with await self.lead():
            return await func(*args, **kwargs)

    def contenders(self) -> Awaitable[List[str]]:
        """The leader, followed by the waiting candidates in order."""
        return made(self._election.candidates(), lambda line: [name for name, _ in line])


class Barrier:
    """A barrier that one program opens for all. Programs with kazoo or Curator may use the same path."""

    def __init__(self, client: Client, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._barrier = _native.Barrier(client._session, path, _entries(acl, client.default_acl))

    def create(self) -> Awaitable[None]:
        """Closes the barrier."""
        return answer(self._barrier.create())

    def remove(self) -> Awaitable[None]:
        """Opens the barrier."""
        return answer(self._barrier.remove())

    def wait(self) -> Awaitable[None]:
        """Waits until the barrier is open."""
        return answer(self._barrier.passed())


class DoubleBarrier:
    """A barrier that programs enter together and leave together. With ``async with`` it is entered and left."""

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

    async def enter(self) -> None:
        """Waits until enough have come. Cancelled, it goes away again."""
        self._inside = await answer(self._barrier.enter(self._name))

    async def leave(self) -> None:
        """Waits until all others leave too."""
        inside, self._inside = self._inside, None
        if inside is not None:
            await answer(inside.leave())

    async def __aenter__(self) -> DoubleBarrier:
        await self.enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()


class Item:
    """An item that this worker has taken from a `Queue`.

    With ``async with`` it is finished at the end, or given back after an exception; forgotten, it is given back.
    """

    def __init__(self, data: bytes, item: _native.Item) -> None:
        self.data = data
        self._item = item

    def finish(self) -> Awaitable[None]:
        """Deletes the item."""
        return answer(self._item.finish())

    def give_back(self) -> None:
        """Lets another worker take the item."""
        self._item.give_back()

    async def __aenter__(self) -> bytes:
        return self.data

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            await self.finish()
        else:
            self.give_back()


class Queue:
    """A queue by priority, whose items survive a crash of their worker: another worker takes them then."""

    def __init__(self, client: Client, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._queue = _native.Queue(client._session, path, _entries(acl, client.default_acl))

    def put(self, value: bytes, priority: int = 100) -> Awaitable[None]:
        """Adds an item. Priorities are 0 to 255; the lowest come first."""
        return answer(self._queue.put(value, priority))

    def take(self) -> Awaitable[Item]:
        """Waits for an item. Cancelled, it gives up the place in line."""
        return made(self._queue.take(), lambda taken: Item(*taken))

    def size(self) -> Awaitable[int]:
        """The number of items, also of those that workers have taken."""
        return answer(self._queue.len())


class Counter:
    """A number that many programs change. Programs with kazoo's ``Counter`` may use the same path."""

    def __init__(
        self, client: Client, path: str, default: int = 0, acl: Optional[Sequence[ACL]] = None
    ) -> None:
        self._counter = _native.Counter(client._session, path, default, _entries(acl, client.default_acl))

    def value(self) -> Awaitable[int]:
        """The number, read now."""
        return answer(self._counter.get())

    def add(self, change: int) -> Awaitable[int]:
        """Adds to the number, and tells the new one."""
        return answer(self._counter.add(change))


class Party:
    """Programs that see each other. Programs with kazoo's ``Party`` may use the same path.

    With ``async with`` a program joins and leaves.
    """

    def __init__(
        self, client: Client, path: str, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None
    ) -> None:
        self._party = _native.Party(client._session, path, _entries(acl, client.default_acl))
        self._data = _identifier(identifier).encode()
        self._member: Optional[_native.Member] = None

    async def join(self) -> None:
        """Joins. A member whose znode another program deletes joins again by itself."""
        if self._member is None:
            self._member = await answer(self._party.join(self._data))

    async def leave(self) -> None:
        """Leaves."""
        member, self._member = self._member, None
        if member is not None:
            await answer(member.leave())

    def members(self) -> Awaitable[List[str]]:
        """The identifiers of the members."""
        return made(self._party.members(), lambda names: [name.decode(errors="replace") for name in names])

    async def __aenter__(self) -> Party:
        await self.join()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()


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

    def wait(self) -> Awaitable[None]:
        """Waits until it is current."""
        return answer(self._cache.current())

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


async def lease(
    client: Client, path: str, duration: timedelta, identifier: Optional[str], acl: Optional[Sequence[ACL]]
) -> bool:
    """Whether this program gets the lease of a path, see `zebu.Client.NonBlockingLease`."""
    name, holder = holder_name(identifier), holder_path(path)
    async with Lock(client, path, name, acl, "kazoo"):
        written = client.transaction()
        try:
            raw, stat = await client.get(holder)
        except NoNodeError:
            pass
        else:
            if is_taken(raw, name):
                return False
            written.delete(holder, stat.version)
        written.create(holder, entry(name, duration), acl)
        await written.commit()
    return True
