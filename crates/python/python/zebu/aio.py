"""The client for asyncio: what `zebu.Client` does, with methods that are awaited.

    import zebu, zebu.aio

    async with await zebu.aio.connect("zoo1:2181", default_acl=zebu.open_to_all()) as client:
        await client.create("/app", b"v1")
        async with await client.watch("/app", recursive=True) as changes:
            await client.set("/app", b"v2")
            print(await changes.next())
        async with client.Lock("/locks/printer", "host 7") as held:
            print("fencing token", held.token)

A request is in its place when its method is *called*, so many can be on their way before the first is awaited. Whoever
cancels a task takes back what it waits for: a place in line, a request that was not sent yet.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _native
from .types import ACL, Event, Sasl, Stat, Ticket, Tls, _entries, _mode, _op, _settings

__all__ = ["Client", "Election", "Held", "Lock", "PersistentWatch", "Transaction", "Watch", "connect"]

T = TypeVar("T")
U = TypeVar("U")


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


async def _come(call: _native.Call[T]) -> T:
    """The answer of a call. After a cancellation it can be awaited again."""
    if not call.is_done():
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            # A loop that is closed has nobody to be told.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, woken)

        call.on_done(tell)
        await woken
    return call.take()


async def _answer(call: _native.Call[T]) -> T:
    """The answer of a call. A cancellation takes back what was asked for."""
    try:
        return await _come(call)
    except asyncio.CancelledError:
        call.cancel()
        raise


async def _made(call: _native.Call[T], make: Callable[[T], U]) -> U:
    return make(await _answer(call))


class Watch:
    """A watch that a read has left: it is awaited for one event. Forgotten before, it is removed."""

    def __init__(self, watch: _native.Watch) -> None:
        self._call: Optional[_native.Call[Tuple[str, str, Optional[int]]]] = watch.next()

    async def wait(self) -> Event:
        """The event. Cancelled, it can be awaited again."""
        if self._call is None:
            raise ValueError("the watch has told its event, or was closed")
        event = Event(*await _come(self._call))
        self._call = None
        return event

    def close(self) -> None:
        """Removes the watch."""
        self._call = None


class PersistentWatch:
    """A watch that tells of every change, in order, until it is closed. It can be iterated over."""

    def __init__(self, watch: _native.PersistentWatch) -> None:
        self._watch: Optional[_native.PersistentWatch] = watch
        self._call: Optional[_native.Call[Tuple[str, str, Optional[int]]]] = None

    async def next(self) -> Event:
        """The next event. Cancelled, as by `asyncio.wait_for`, it loses none."""
        if self._watch is None:
            raise ValueError("the watch is closed")
        call = self._call = self._call or self._watch.next()
        try:
            told = await _come(call)
        except Exception:
            self._call = None
            if self._watch is None:
                raise ValueError("the watch is closed") from None
            raise
        self._call = None
        return Event(*told)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._watch is not None:
            try:
                event = await self.next()
            except ValueError:
                return
            yield event

    def close(self) -> None:
        """Removes the watch, and wakes a task that waits for it."""
        call, self._call, self._watch = self._call, None, None
        if call is not None:
            call.cancel()

    async def __aenter__(self) -> PersistentWatch:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


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
        return _answer(self._held.doubt())

    def lost(self) -> Awaitable[None]:
        """Waits until it was released or lost."""
        return _answer(self._held.over())

    def wanted(self) -> Awaitable[None]:
        """Waits until another program asks for it, or it is over."""
        return _answer(self._held.wanted())

    def release(self) -> Awaitable[None]:
        """Releases it."""
        return _answer(self._held.release())

    async def __aenter__(self) -> Held:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.release()


class Lock:
    """A lock in the order of arrival, exclusive or shared. With ``async with`` it is acquired and released."""

    def __init__(self, client: Client, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None) -> None:
        entries = _entries(acl, client.default_acl)
        self._lock = _native.Lock(client._session, path, identifier.encode(), entries)
        self._entered: List[Held] = []

    def acquire(self, shared: bool = False) -> Awaitable[Held]:
        """Waits for the lock. Cancelled, it gives up the place in line."""
        return _made(self._lock.acquire(shared), Held)

    def try_acquire(self, shared: bool = False) -> Awaitable[Optional[Held]]:
        """The lock, if nobody is in its way."""
        return _made(self._lock.try_acquire(shared), lambda held: None if held is None else Held(held))

    def contenders(self) -> Awaitable[List[str]]:
        """The identifiers of the holders and of those who wait, in order."""
        return _made(
            self._lock.contenders(), lambda line: [name.decode(errors="replace") for name, _, _ in line]
        )

    def ask_back(self) -> Awaitable[int]:
        """Asks the holders for the lock, see `Held.is_wanted`. Tells how many there are."""
        return _answer(self._lock.ask_back())

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
        return _made(self._election.lead(self._identifier), Held)

    async def run(self, func: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Waits to lead, awaits what the function returns, and gives the leadership up."""
        async with await self.lead():
            return await func(*args, **kwargs)

    def contenders(self) -> Awaitable[List[str]]:
        """The leader, followed by the waiting candidates in order."""
        return _made(self._election.candidates(), lambda line: [name for name, _ in line])


class Transaction:
    """Several writes, of which all happen or none. With ``async with`` they are committed at the end."""

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

    def commit(self) -> Awaitable[List[Any]]:
        """Commits; the results are in the order of the writes. The error of one has its place as ``operation``."""
        ops, self._ops = self._ops, []
        return _answer(self._client._session.commit(ops))

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            await self.commit()


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
    return Client(await _answer(_native.connect(hosts, settings)), default_acl)


class Client:
    """A session with an ensemble, which `connect` opens. Its methods are those of `zebu.Client`."""

    def __init__(self, session: _native.Session, default_acl: Optional[Sequence[ACL]] = None) -> None:
        self._session = session
        #: The ACL of znodes that are created without one.
        self.default_acl: Optional[Sequence[ACL]] = default_acl

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def close(self) -> Awaitable[None]:
        """Ends the session, and with it its ephemerals and watches."""
        return _answer(self._session.close())

    @property
    def state(self) -> str:
        """How the session stands, as `zebu.Client.state`."""
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
    ) -> Awaitable[str]:
        """Creates a znode, as `zebu.Client.create`."""
        entries = _entries(acl, self.default_acl)
        mode = _mode(ephemeral, sequence, container, ttl)
        parent = path.rpartition("/")[0]
        if not (makepath and parent):
            return _answer(self._session.create(path, value, mode, entries, protected))

        async def with_parents() -> str:
            await _answer(self._session.ensure_path(parent, entries))
            return await _answer(self._session.create(path, value, mode, entries, protected))

        return with_parents()

    def ensure_path(self, path: str, acl: Optional[Sequence[ACL]] = None) -> Awaitable[None]:
        """Creates a znode and its parents, as far as they are missing."""
        return _answer(self._session.ensure_path(path, _entries(acl, self.default_acl)))

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> Awaitable[None]:
        """Deletes a znode, if it has this version; with ``recursive`` also everything below it."""
        return _answer(self._session.delete_all(path) if recursive else self._session.delete(path, version))

    def exists(self, path: str) -> Awaitable[Optional[Stat]]:
        """The stat of a znode, or ``None``."""
        return _answer(self._session.exists(path))

    def watch_exists(self, path: str) -> Awaitable[Tuple[Optional[Stat], Watch]]:
        """As `exists`, with a watch of what was read."""
        return _made(self._session.watch_exists(path), lambda read: (read[0], Watch(read[1])))

    def get(self, path: str) -> Awaitable[Tuple[bytes, Stat]]:
        """The data of a znode and its stat."""
        return _answer(self._session.get(path))

    def watch_data(self, path: str) -> Awaitable[Tuple[bytes, Stat, Watch]]:
        """As `get`, with a watch of what was read."""
        return _made(self._session.watch_data(path), lambda read: (read[0], read[1], Watch(read[2])))

    def set(self, path: str, value: bytes, version: int = -1) -> Awaitable[Stat]:
        """Sets the data of a znode, if it has this version."""
        return _answer(self._session.set(path, value, version))

    def get_children(self, path: str) -> Awaitable[List[str]]:
        """The names of the children of a znode."""
        return _answer(self._session.get_children(path))

    def watch_children(self, path: str) -> Awaitable[Tuple[List[str], Watch]]:
        """As `get_children`, with a watch of what was read."""
        return _made(self._session.watch_children(path), lambda read: (read[0], Watch(read[1])))

    def watch(self, path: str, recursive: bool = False) -> Awaitable[PersistentWatch]:
        """A watch that tells of every change of a znode and its children, or of everything below it."""
        return _made(self._session.watch(path, recursive), PersistentWatch)

    def get_acls(self, path: str) -> Awaitable[Tuple[List[ACL], Stat]]:
        """The ACL of a znode and its stat."""
        return _made(
            self._session.get_acls(path), lambda read: ([ACL(*entry) for entry in read[0]], read[1])
        )

    def set_acls(self, path: str, acls: Sequence[ACL], version: int = -1) -> Awaitable[Stat]:
        """Sets the ACL of a znode, if its ACL has this version."""
        return _answer(self._session.set_acls(path, list(acls), version))

    def sync(self, path: str) -> Awaitable[None]:
        """Waits until the client's server has everything that was committed before."""
        return _answer(self._session.sync(path))

    def transaction(self) -> Transaction:
        """Several writes, of which all happen or none."""
        return Transaction(self)

    def count_descendants(self, path: str) -> Awaitable[int]:
        """The number of znodes below one."""
        return _answer(self._session.count_descendants(path))

    def ephemerals(self, prefix: str = "/") -> Awaitable[List[str]]:
        """The ephemeral znodes of this session whose paths begin so."""
        return _answer(self._session.ephemerals(prefix))

    def add_auth(self, scheme: str, credential: Union[str, bytes]) -> Awaitable[None]:
        """Proves another identity, on this and all later connections."""
        secret = credential.encode() if isinstance(credential, str) else credential
        return _answer(self._session.add_auth(scheme, secret))

    def who_am_i(self) -> Awaitable[List[Tuple[str, str]]]:
        """The identities of this client, as schemes and names."""
        return _answer(self._session.who_am_i())

    def get_config(self) -> Awaitable[Tuple[bytes, Stat]]:
        """The members of the ensemble."""
        return _answer(self._session.get_config())

    def Lock(self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None) -> Lock:
        """A `Lock` of this client."""
        return Lock(self, path, identifier, acl)

    def Election(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> Election:
        """An `Election` of this client. With the layout ``latch`` or ``selector`` it is one with Curator's."""
        return Election(self, path, identifier, acl, layout)
