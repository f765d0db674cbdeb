"""The client whose methods wait for their results."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _native
from .types import ACL, Event, Sasl, Stat, Ticket, Tls, _entries, _mode, _op, _settings

T = TypeVar("T")


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


class PersistentWatch:
    """A watch that tells of every change, in order, until it is closed. It can be iterated over."""

    def __init__(self, watch: _native.PersistentWatch) -> None:
        self._watch: Optional[_native.PersistentWatch] = watch
        self._call: Optional[_native.Call[Tuple[str, str, Optional[int]]]] = None

    def next(self, timeout: Optional[float] = None) -> Event:
        """The next event. Raises `TimeoutError` when none comes in so many seconds; no event is lost by that."""
        if self._watch is None:
            raise ValueError("the watch is closed")
        call = self._call = self._call or self._watch.next()
        try:
            told = call.wait(timeout)
        except TimeoutError:
            raise
        except Exception:
            self._call = None
            if self._watch is None:
                raise ValueError("the watch is closed") from None
            raise
        self._call = None
        return Event(*told)

    def __iter__(self) -> Iterator[Event]:
        while self._watch is not None:
            try:
                event = self.next()
            except ValueError:
                return
            yield event

    def close(self) -> None:
        """Removes the watch, and wakes a thread that waits for it."""
        call, self._call, self._watch = self._call, None, None
        if call is not None:
            call.cancel()

    def __enter__(self) -> PersistentWatch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
        return _in_time(self._held.doubt(), timeout)

    def wait_for_loss(self, timeout: Optional[float] = None) -> bool:
        """Waits until it was released or lost. ``False``: so many seconds have passed before."""
        return _in_time(self._held.over(), timeout)

    def release(self) -> None:
        """Releases it, and returns when that is done."""
        self._held.release().wait()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _waited(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. Whoever stops waiting, because of time or a signal, takes back what was asked for."""
    try:
        return call.wait(timeout)
    except BaseException:
        call.cancel()
        raise


def _in_time(call: _native.Call[None], timeout: Optional[float]) -> bool:
    try:
        call.wait(timeout)
    except TimeoutError:
        return False
    return True


class Lock:
    """A lock in the order of arrival, exclusive or shared. With ``with`` it is acquired and released."""

    def __init__(self, client: Client, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None) -> None:
        entries = _entries(acl, client.default_acl)
        self._lock = _native.Lock(client._session, path, identifier.encode(), entries)
        self._entered: List[Held] = []

    def acquire(self, timeout: Optional[float] = None, shared: bool = False) -> Held:
        """Waits for the lock. Raises `TimeoutError` after so many seconds, and gives up the place in line."""
        return Held(_waited(self._lock.acquire(shared), timeout))

    def try_acquire(self, shared: bool = False) -> Optional[Held]:
        """The lock, if nobody is in its way."""
        held = _waited(self._lock.try_acquire(shared))
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
        return Held(_waited(self._election.lead(self._identifier), timeout))

    def run(self, func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Waits to lead, calls the function, and gives the leadership up."""
        with self.lead():
            return func(*args, **kwargs)

    def contenders(self) -> List[str]:
        """The leader, followed by the waiting candidates in order."""
        return [name for name, _ in self._election.candidates().wait()]


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

    def Lock(self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None) -> Lock:
        """A `Lock` of this client."""
        return Lock(self, path, identifier, acl)

    def Election(
        self, path: str, identifier: str = "", acl: Optional[Sequence[ACL]] = None, layout: str = "zebu"
    ) -> Election:
        """An `Election` of this client. With the layout ``latch`` or ``selector`` it is one with Curator's."""
        return Election(self, path, identifier, acl, layout)
