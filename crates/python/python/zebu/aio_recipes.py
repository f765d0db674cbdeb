"""Recipes for asyncio: what `zebu.recipes` has, with methods that are awaited.

A method with a ``timeout`` waits at most that many seconds, and then raises `TimeoutError` unless its description says
otherwise. A call that stops waiting is withdrawn: it leaves its place in line, and a lock that arrives too late is
released.
"""
# `zebu.recipes` is made from this file: UPDATE_EXPECT=1 cargo test -p xtask halves

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

from . import _native
from ._awaiting import Changed, Listed, answer, come, in_time, made
from ._lease import entry, holder_name, holder_path, is_taken
from .exceptions import NoNodeError
from .types import ACL, Change, Stat, Znode, _change, _entries, _identifier

if TYPE_CHECKING:
    from ._aio_client import BaseClient

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S", bound="Stream")  # type: ignore[type-arg]
Told = TypeVar("Told", covariant=True)


class Source(Protocol[Told]):
    """Returns one value after the other."""

    def next(self) -> _native.Call[Told]: ...


class Stream(Generic[T, U]):
    """The values of a source, in order, until the stream is closed. A program can iterate over it."""

    def __init__(self, source: Source[T], make: Callable[[T], U]) -> None:
        self._source: Optional[Source[T]] = source
        self._make = make
        self._call: Optional[_native.Call[T]] = None

    async def next(self, timeout: Optional[float] = None) -> U:
        """The next value. Raises `TimeoutError` if none comes within that many seconds. No value is lost by that."""
        if self._source is None:
            raise ValueError("it is closed")
        call = self._call = self._call or self._source.next()
        try:
            told = await come(call, timeout)
        except TimeoutError:
            raise
        except Exception:
            self._call = None
            if self._source is None:
                raise ValueError("it is closed") from None
            raise
        self._call = None
        return self._make(told)

    async def __aiter__(self) -> AsyncIterator[U]:
        while self._source is not None:
            try:
                told = await self.next()
            except ValueError:
                return
            yield told

    def close(self) -> None:
        """Closes the stream, and wakes the caller that waits for it."""
        call, self._call, self._source = self._call, None, None
        if call is not None:
            call.cancel()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


def _names(names: Iterable[bytes]) -> List[str]:
    return [name.decode(errors="replace") for name in names]


class Held:
    """A lock or a leadership that this program holds.

    ``async with`` releases it at the end. It is also released when its object is garbage collected. ``token`` is the
    fencing token, which grows from holder to holder: a resource outside the ensemble should remember the largest token
    and refuse smaller ones. ``path`` is the holder's znode.
    """

    def __init__(self, held: _native.Held) -> None:
        self._held = held
        self.token: int = held.token
        self.path: str = held.path

    @property
    def is_held(self) -> bool:
        """Whether this program certainly holds it. Without a connection that is not certain."""
        return self._held.is_certain

    @property
    def is_wanted(self) -> bool:
        """Whether another program has asked for it; see `Lock.ask_back`."""
        return self._held.is_wanted

    @property
    def is_over(self) -> bool:
        """Whether it was released or lost."""
        return self._held.is_over

    def wait_for_doubt(self, timeout: Optional[float] = None) -> Awaitable[bool]:
        """Waits until the program no longer certainly holds it. Returns ``False`` if the timeout ends first."""
        return in_time(self._held.doubt(), timeout)

    def wait_for_loss(self, timeout: Optional[float] = None) -> Awaitable[bool]:
        """Waits until it was released or lost. Returns ``False`` if the timeout ends first."""
        return in_time(self._held.over(), timeout)

    def wait_for_request(self, timeout: Optional[float] = None) -> Awaitable[bool]:
        """Waits until another program asks for it, or it is over. Returns ``False`` if the timeout ends first."""
        return in_time(self._held.wanted(), timeout)

    def release(self) -> Awaitable[None]:
        """Releases it. Returns when it is released."""
        return answer(self._held.release())

    async def __aenter__(self) -> Held:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.release()


class Lock:
    """A fair lock, exclusive or shared: programs get it in the order of their requests.

    ``async with`` acquires and releases it. With the layout ``kazoo``, programs that use kazoo's ``Lock``, ``ReadLock``
    and ``WriteLock`` wait in the same line.
    """

    def __init__(
        self,
        client: BaseClient,
        path: str,
        identifier: str = "",
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._lock = _native.Lock(client._session, path, identifier.encode(), entries, layout)
        self._entered: List[Held] = []

    def acquire(self, timeout: Optional[float] = None, shared: bool = False) -> Awaitable[Held]:
        """Waits for the lock."""
        return made(self._lock.acquire(shared), Held, timeout)

    def try_acquire(self, shared: bool = False) -> Awaitable[Optional[Held]]:
        """Returns the lock if it is free now, otherwise ``None``."""
        return made(self._lock.try_acquire(shared), lambda held: None if held is None else Held(held))

    def contenders(self) -> Awaitable[List[str]]:
        """The identifiers of the holders and of the waiting programs, in order."""
        return made(self._lock.contenders(), lambda line: _names(name for name, _, _ in line))

    def ask_back(self) -> Awaitable[int]:
        """Asks the holders for the lock; see `Held.is_wanted`. Returns the number of holders."""
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
    """A lock that several programs may hold together, unless one holds a `WriteLock` or `Lock` of the path."""

    def acquire(self, timeout: Optional[float] = None, shared: bool = True) -> Awaitable[Held]:
        """Waits for the lock, like `Lock.acquire`."""
        return super().acquire(timeout, shared)

    def try_acquire(self, shared: bool = True) -> Awaitable[Optional[Held]]:
        """Returns the lock if it is free now, otherwise ``None``."""
        return super().try_acquire(shared)


class Semaphore:
    """A semaphore: a limited number of leases. ``async with`` acquires one and releases it.

    Programs that use Curator's ``InterProcessSemaphoreV2`` may use the same path. With the layout ``kazoo``, programs
    that use kazoo's ``Semaphore`` may use it instead.
    """

    def __init__(
        self,
        client: BaseClient,
        path: str,
        identifier: str = "",
        max_leases: int = 1,
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> None:
        entries, name = _entries(acl, client.default_acl), identifier.encode()
        self._semaphore = _native.Semaphore(client._session, path, max_leases, name, entries, layout)
        self._entered: List[Held] = []

    def acquire(self, timeout: Optional[float] = None) -> Awaitable[Held]:
        """Waits for a lease."""
        return made(self._semaphore.acquire(), Held, timeout)

    def try_acquire(self) -> Awaitable[Optional[Held]]:
        """Returns a lease if one is free now, otherwise ``None``."""
        return made(self._semaphore.try_acquire(), lambda held: None if held is None else Held(held))

    def lease_holders(self) -> Awaitable[List[str]]:
        """The identifiers of the programs that have leases."""
        return made(self._semaphore.holders(), _names)

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
        client: BaseClient,
        path: str,
        identifier: str = "",
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> None:
        self._election = _native.Election(client._session, path, _entries(acl, client.default_acl), layout)
        self._identifier = identifier

    def lead(self, timeout: Optional[float] = None) -> Awaitable[Held]:
        """Waits to lead."""
        return made(self._election.lead(self._identifier), Held, timeout)

    async def run(self, func: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Waits to lead, calls the function, and then gives up the leadership."""
        async with await self.lead():
            return await func(*args, **kwargs)

    def contenders(self) -> Awaitable[List[str]]:
        """The leader, followed by the waiting candidates in order."""
        return made(self._election.candidates(), lambda line: [name for name, _ in line])


class Barrier:
    """A barrier that one program opens for all. Programs that use kazoo or Curator may use the same path."""

    def __init__(self, client: BaseClient, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._barrier = _native.Barrier(client._session, path, _entries(acl, client.default_acl))

    def create(self) -> Awaitable[None]:
        """Closes the barrier."""
        return answer(self._barrier.create())

    def remove(self) -> Awaitable[None]:
        """Opens the barrier."""
        return answer(self._barrier.remove())

    def wait(self, timeout: Optional[float] = None) -> Awaitable[bool]:
        """Waits until the barrier is open. Returns ``False`` if the timeout ends first."""
        return in_time(self._barrier.passed(), timeout)


class DoubleBarrier:
    """A barrier that programs enter together and leave together. ``async with`` enters and leaves it.

    With the layout ``kazoo``, programs that use kazoo's ``DoubleBarrier`` may use the same path.
    """

    def __init__(
        self,
        client: BaseClient,
        path: str,
        num_clients: int,
        identifier: Optional[str] = None,
        acl: Optional[Sequence[ACL]] = None,
        layout: str = "zebu",
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._barrier = _native.DoubleBarrier(client._session, path, num_clients, entries, layout)
        self._name = _identifier(identifier)
        self._inside: Optional[_native.Inside] = None

    async def enter(self, timeout: Optional[float] = None) -> None:
        """Enters, and waits until enough programs have entered."""
        self._inside = await answer(self._barrier.enter(self._name), timeout)

    async def leave(self) -> None:
        """Leaves, and waits until all other programs leave."""
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

    ``async with`` finishes it at the end, or gives it back after an exception. It is also given back when its object is
    garbage collected.
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
    """A priority queue whose items survive a crash of their worker: another worker takes them then."""

    def __init__(self, client: BaseClient, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._queue = _native.Queue(client._session, path, _entries(acl, client.default_acl), self._layout)

    #: The layout of its znodes.
    _layout = "zebu"

    def put(self, value: bytes, priority: int = 100) -> Awaitable[None]:
        """Adds an item. Priorities are 0 to 255; the lowest come first."""
        return answer(self._queue.put([value], priority))

    def take(self, timeout: Optional[float] = None) -> Awaitable[Item]:
        """Waits for an item."""
        return made(self._queue.take(), lambda taken: Item(*taken), timeout)

    def size(self) -> Awaitable[int]:
        """The number of items, including those that workers have taken."""
        return answer(self._queue.len())


class LockingQueue(Queue):
    """A `Queue` with the znodes of kazoo's ``LockingQueue``. Programs that use that may use the same path.

    Priorities are 0 to 999.
    """

    _layout = "kazoo"

    def put_all(self, values: Sequence[bytes], priority: int = 100) -> Awaitable[None]:
        """Adds several items, all or none."""
        return answer(self._queue.put(list(values), priority))


class KazooQueue:
    """A priority queue with the znodes of kazoo's ``Queue``. Programs that use that may use the same path.

    An item is removed before its worker gets it. So no item is processed twice, and an item is lost if its worker
    crashes.
    """

    def __init__(self, client: BaseClient, path: str, acl: Optional[Sequence[ACL]] = None) -> None:
        self._queue = _native.KazooQueue(client._session, path, _entries(acl, client.default_acl))

    def put(self, value: bytes, priority: int = 100) -> Awaitable[None]:
        """Adds an item. Priorities are 0 to 999; the lowest come first."""
        return answer(self._queue.put(value, priority))

    def get(self) -> Awaitable[Optional[bytes]]:
        """Removes the first item and returns it; ``None`` if there is none."""
        return answer(self._queue.get())

    def size(self) -> Awaitable[int]:
        """The number of items."""
        return answer(self._queue.len())


class Counter(Changed):
    """A number that many programs change. Programs that use kazoo's ``Counter`` may use the same path."""

    def __init__(
        self, client: BaseClient, path: str, default: int = 0, acl: Optional[Sequence[ACL]] = None
    ) -> None:
        self._counter = _native.Counter(client._session, path, default, _entries(acl, client.default_acl))

    @property
    def value(self) -> Awaitable[int]:
        """The current number, read from the ensemble."""
        return answer(self._counter.get())

    def add(self, change: int) -> Awaitable[int]:
        """Adds to the number, and returns the new one."""
        return answer(self._counter.add(change))


class Party(Listed):
    """A group of programs that see each other. Programs that use kazoo's ``Party`` may use the same path.

    ``async with`` joins and leaves.
    """

    #: Whether the znodes' names contain the members' identifiers.
    _is_shallow = False

    def __init__(
        self, client: BaseClient, path: str, identifier: Optional[str] = None, acl: Optional[Sequence[ACL]] = None
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._party = _native.Party(client._session, path, entries, self._is_shallow)
        self._name = _identifier(identifier)
        self._member: Optional[_native.Member] = None

    async def join(self) -> None:
        """Joins. If another program deletes the member's znode, the member automatically joins again."""
        if self._member is None:
            self._member = await answer(self._party.join(self._name))

    async def leave(self) -> None:
        """Leaves."""
        member, self._member = self._member, None
        if member is not None:
            await answer(member.leave())

    def members(self) -> Awaitable[List[str]]:
        """The identifiers of the members, sorted."""
        return answer(self._party.members())

    async def __aenter__(self) -> Party:
        await self.join()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()


class ShallowParty(Party):
    """A `Party` whose members are read with one request.

    Programs that use kazoo's ``ShallowParty`` may use the same path. An identifier must be a valid name of a znode.
    """

    _is_shallow = True


class Part(Held):
    """The items that a member of a `SetPartitioner` owns, with their fencing tokens. A program can iterate over it.

    ``async with`` gives the items back at the end. They are also given back when the object is garbage collected. When
    ``is_wanted`` is true, the members have changed, and the program should give the items back soon.
    """

    def __init__(self, part: Tuple[List[str], List[int], _native.Held]) -> None:
        items, tokens, held = part
        super().__init__(held)
        self.items: Dict[str, int] = dict(zip(items, tokens))

    def __iter__(self) -> Iterator[str]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    async def __aenter__(self) -> Part:
        return self


class SetPartitioner:
    """Divides items among programs, so that each item belongs to one of them.

    Programs that use kazoo's ``SetPartitioner`` without a ``partition_func`` may use the same path. The members divide
    the items when no member has joined or left for ``time_boundary`` seconds. ``async with`` joins, and leaves at the
    end.
    """

    def __init__(
        self,
        client: BaseClient,
        path: str,
        set: Iterable[str],
        identifier: Optional[str] = None,
        time_boundary: float = 30,
        acl: Optional[Sequence[ACL]] = None,
    ) -> None:
        entries = _entries(acl, client.default_acl)
        self._partitions = _native.Partitions(client._session, path, sorted(set), time_boundary, entries)
        self._name = _identifier(identifier)
        self._member: Optional[_native.Participant] = None

    async def join(self) -> None:
        """Joins the members. The program owns no items yet."""
        if self._member is None:
            self._member = await answer(self._partitions.join(self._name))

    async def acquire(self, timeout: Optional[float] = None) -> Part:
        """Joins, waits until the members stay the same, and then waits for the items of this program."""
        await self.join()
        assert self._member is not None
        return await made(self._member.acquire(), Part, timeout)

    async def finish(self) -> None:
        """Leaves the members."""
        member, self._member = self._member, None
        if member is not None:
            await answer(member.leave())

    async def __aenter__(self) -> SetPartitioner:
        await self.join()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.finish()


Read = Optional[Tuple[bytes, Stat]]


class DataWatch(Stream[Read, Read]):
    """The data and stat of a znode, now and after each change; ``None`` while the znode does not exist."""

    def __init__(self, client: BaseClient, path: str) -> None:
        super().__init__(_native.DataWatch(client._session, path), lambda read: read)


class ChildrenWatch(Stream[Optional[List[str]], Optional[List[str]]]):
    """The names of the children of a znode, now and after each change; ``None`` while the znode does not exist."""

    def __init__(self, client: BaseClient, path: str) -> None:
        super().__init__(_native.ChildrenWatch(client._session, path, None), lambda names: names)


class PatientChildrenWatch(Stream[Optional[List[str]], Optional[List[str]]]):
    """The names of the children of a znode, now and after changes, once they are unchanged for ``time_boundary``."""

    def __init__(self, client: BaseClient, path: str, time_boundary: float = 30) -> None:
        super().__init__(_native.ChildrenWatch(client._session, path, time_boundary), lambda names: names)


class Changes(Stream[Tuple[str, Optional[Tuple[str, bytes, Stat]]], Change]):
    """The changes of a `Cache`: first its present content, then ``current``, then each change."""

    def __init__(self, changes: _native.Changes) -> None:
        super().__init__(changes, _change)


class Cache:
    """A copy of a part of the tree in memory, which one watch keeps up to date."""

    def __init__(self, client: BaseClient, path: str, depth: str = "tree", data: bool = True) -> None:
        self._cache = _native.Cache(client._session, path, depth, data)

    @property
    def is_current(self) -> bool:
        """Whether the cache is complete and receives changes."""
        return self._cache.is_current

    def wait(self, timeout: Optional[float] = None) -> Awaitable[bool]:
        """Waits until the cache is current. Returns ``False`` if the timeout ends first."""
        return in_time(self._cache.current(), timeout)

    def get(self, path: str) -> Optional[Znode]:
        """A znode; ``None`` if the cache does not contain it."""
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
    client: BaseClient, path: str, duration: timedelta, identifier: Optional[str], acl: Optional[Sequence[ACL]]
) -> bool:
    """Whether this program gets the lease of a path; see `zebu.Client.NonBlockingLease`."""
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
