"""What the Python package promises, against one server: `scenario.py HOSTS`. Prints what it sees."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
from typing import Callable

import zebu
import zebu.aio
from zebu import exceptions

PATIENCE = 60.0
HOSTS = sys.argv[1]


def connect(**settings: object) -> zebu.Client:
    return zebu.Client(HOSTS, 10, default_acl=zebu.open_to_all(), **settings)  # type: ignore[arg-type]


def requests(client: zebu.Client) -> None:
    print(client.state, client.exists("/none"), client.session_left > 0)
    print(client.create("/a/b/c", b"1", makepath=True))
    data, stat = client.get("/a/b/c")
    print(data, stat.version, stat.data_length, stat.ephemeral_owner)
    print(client.set("/a/b/c", b"22", version=0).version, client.get_children("/a/b"))
    print(client.create("/a/n-", sequence=True), client.create("/a/n-", sequence=True))
    owner = client.ticket
    assert owner is not None and client.create("/mine", ephemeral=True) == "/mine"
    mine = client.exists("/mine")
    assert mine is not None and mine.ephemeral_owner == owner.session_id
    print(client.ephemerals("/m"), client.count_descendants("/a"))
    marked = client.create("/a/p-", sequence=True, protected=True)
    print(marked.startswith("/a/_c_"), marked.endswith("-p-0000000003"))
    client.sync("/")
    client.delete("/a", recursive=True)
    print(client.exists("/a"), isinstance(client.get_config()[0], bytes))
    print(sorted(client.who_am_i())[0][0])


def failures(client: zebu.Client) -> None:
    client.ensure_path("/f/child")
    refused: dict[str, Callable[[], object]] = {
        "get": lambda: client.get("/none"),
        "create": lambda: client.create("/f"),
        "set": lambda: client.set("/f", b"", version=7),
        "delete": lambda: client.delete("/f"),
        "ephemeral": lambda: client.create("/mine/child"),
        "path": lambda: client.get("no slash"),
        "acl": lambda: client.create("/g", acl=[]),
    }
    for name, request in refused.items():
        try:
            request()
        except exceptions.ZebuError as error:
            print(name, type(error).__name__, error.kind, error.code, error.path, error)
    bare = zebu.Client(HOSTS)
    try:
        bare.create("/g")
    except ValueError as error:
        print(error)
    bare.close()
    try:
        bare.get("/")
    except exceptions.SessionOverError as error:
        print(type(error).__name__, error.kind, bare.state)
    try:
        client.create("/g", ephemeral=True, container=True)
    except ValueError as error:
        print(error)


def access(client: zebu.Client) -> None:
    with connect(auth=[("digest", "amy:secret")]) as amy:
        acl = zebu.creator() + zebu.user("dom", "password", zebu.Perms.READ)
        amy.create("/shared", b"for dom", acl=acl)
        print(amy.get_acls("/shared")[0])
        try:
            client.get("/shared")
        except exceptions.NoAuthError as error:
            print(error.kind)
        client.add_auth("digest", "dom:password")
        print(client.get("/shared")[0])
        print(amy.set_acls("/shared", zebu.open_to_all()).aversion)


def transactions(client: zebu.Client) -> None:
    with client.transaction() as both:
        both.create("/t", b"1")
        both.create("/t/n-", sequence=True)
    last = client.transaction()
    last.check("/t", 0)
    last.set_data("/t", b"2")
    last.delete("/t/n-0000000000")
    checked, stat, deleted = last.commit()
    print(checked, stat.version, deleted, client.get("/t")[0])
    doomed = client.transaction()
    doomed.set_data("/t", b"3")
    doomed.check("/t", 7)
    try:
        doomed.commit()
    except exceptions.BadVersionError as error:
        print(error.operation, error.path, client.get("/t")[0])


def watches(client: zebu.Client) -> None:
    client.create("/w", b"")
    _, _, once = client.watch_data("/w")
    try:
        once.wait(timeout=0.05)
    except TimeoutError:
        print("nothing yet")
    client.set("/w", b"1")
    event = once.wait(PATIENCE)
    print(event.kind, event.path)
    absent, born = client.watch_exists("/w/x")
    names, children = client.watch_children("/w")
    print(absent, names)
    with client.watch("/w", recursive=True) as changes:
        client.create("/w/x", b"")
        client.set("/w/x", b"1")
        client.delete("/w/x")
        for _ in range(3):
            event = changes.next(PATIENCE)
            print(event.kind, event.path)
        try:
            changes.next(timeout=0.05)
        except TimeoutError:
            print("no more")
        client.set("/w", b"2")
        print(changes.next(PATIENCE)[:2])
    print(born.wait(PATIENCE).kind, children.wait(PATIENCE).kind)
    # A thread that iterates ends when the watch is closed.
    changes = client.watch("/w")
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.extend(event.kind for event in changes))
    thread.start()
    client.set("/w", b"3")
    while not seen:
        thread.join(0.01)
    changes.close()
    thread.join(PATIENCE)
    print(seen, thread.is_alive())


def locks(client: zebu.Client) -> None:
    with connect() as other:
        first, second = client.Lock("/lock", "first"), other.Lock("/lock", "second")
        with first as held:
            print(held.is_held, first.contenders(), second.try_acquire())
            try:
                second.acquire(timeout=0.2)
            except TimeoutError:
                print("still held")
            # Whoever gives up leaves no place in line, if not at once.
            while len(first.contenders()) > 1:
                pass
            got: list[zebu.Held] = []
            waiting = threading.Thread(target=lambda: got.append(second.acquire()))
            waiting.start()
            while len(first.contenders()) < 2:
                pass
            print(first.contenders(), second.ask_back())
            while not held.is_wanted:
                pass
        waiting.join(PATIENCE)
        print(held.is_over, got[0].token > held.token)
        client.delete(got[0].path)
        print(got[0].wait_for_loss(PATIENCE), got[0].is_held)
        with client.Lock("/shared-lock").acquire(shared=True), other.Lock("/shared-lock").acquire(shared=True):
            print("both read")
        # What nobody knows any more is released.
        forgotten = first.acquire()
        del forgotten
        gc.collect()
        second.acquire(PATIENCE).release()


def elections(client: zebu.Client) -> None:
    with connect() as other:
        leadership = client.Election("/leader", "one").lead()
        second = other.Election("/leader", "two")
        led: list[str] = []
        waiting = threading.Thread(target=lambda: second.run(led.append, "two led"))
        waiting.start()
        while len(second.contenders()) < 2:
            pass
        print(second.contenders(), led)
        # The session of the leader ends, and with it the leadership.
        leadership.release()
        waiting.join(PATIENCE)
        print(led, leadership.wait_for_doubt(PATIENCE))
        latch = client.Election("/latch", "one", layout="latch").lead()
        print(latch.path.startswith("/latch/_c_"), latch.path.endswith("-latch-0000000000"))
        latch.release()


def sessions(client: zebu.Client) -> None:
    one = connect()
    one.create("/kept", ephemeral=True)
    ticket = one.leave()
    assert ticket is not None and "password" not in repr(ticket)
    with connect(ticket=ticket) as two:
        assert two.ticket is not None
        print(two.ticket.session_id == ticket.session_id, two.ephemerals())
        held = two.Lock("/of-a-session").acquire()
    print(held.wait_for_loss(PATIENCE), client.exists("/kept"))
    # A program that is stuck within a call that keeps the interpreter to itself, longer than the session lasts.
    with zebu.Client(HOSTS, 4, default_acl=zebu.open_to_all()) as stuck:
        stuck.create("/stuck", ephemeral=True)
        print(stuck.session_left <= 4)
        ctypes.PyDLL(None).usleep(9_000_000)
        print(stuck.state, stuck.exists("/stuck") is not None)


def roots(client: zebu.Client) -> None:
    client.ensure_path("/tenants/amy/inner")
    amy = client.with_chroot("/tenants/amy")
    inner = amy.with_chroot("/inner")
    print(client.chroot, amy.chroot, inner.chroot, amy.with_chroot("/").chroot, amy.ticket == client.ticket)
    with client.watch("/tenants", recursive=True) as changes, amy.watch("/", recursive=True) as own:
        print(inner.create("/n", b"1", ephemeral=True), changes.next(PATIENCE).path, own.next(PATIENCE).path)
    print(inner.ephemerals(), amy.ephemerals(), amy.get("/inner/n")[0], inner.get_children("/"))
    with inner.Lock("/lock") as held:
        print(held.path.startswith("/lock/"), len(client.Lock("/tenants/amy/inner/lock").contenders()))
    refused: list[Callable[[], object]] = [
        lambda: inner.get("/none"),
        lambda: inner.delete("/"),
        lambda: amy.with_chroot("no slash"),
    ]
    for request in refused:
        try:
            request()
        except exceptions.ZebuError as error:
            print(type(error).__name__, error.kind, error.path)
    one = connect()
    one.with_chroot("/tenants").close()
    print(one.state)


async def asynchronous() -> None:
    async with await zebu.aio.connect(HOSTS, 10, default_acl=zebu.open_to_all()) as client:
        await client.create("/async/n", b"", makepath=True)
        # All on their way before the first is awaited.
        pending = [client.create(f"/async/n/{n}", b"x") for n in range(200)]
        await asyncio.gather(*pending)
        print(len(await client.get_children("/async/n")))
        async with client.transaction() as both:
            both.set_data("/async", b"1")
            both.delete("/async/n/7")
        rooted = client.with_chroot("/async/n")
        print(rooted.chroot, await rooted.create("/rooted"), await rooted.exists("/8") is not None)
        data, stat, once = await client.watch_data("/async")
        print(data, stat.version)
        async with await client.watch("/async") as changes:
            for timeout in (0.05, 0.05):
                try:
                    await asyncio.wait_for(changes.next(), timeout)
                except asyncio.TimeoutError:
                    print("nothing yet")
            await client.set("/async", b"2")
            await client.set("/async", b"3")
            print((await changes.next()).kind, (await changes.next()).kind, (await once.wait()).kind)
        changes = await client.watch("/async", recursive=True)

        async def listen() -> list[str]:
            return [event.path async for event in changes]

        listening = asyncio.create_task(listen())
        await client.create("/async/last", b"")
        await client.exists("/async")
        await asyncio.sleep(0.1)
        changes.close()
        print(await listening)
        try:
            await client.get("/none")
        except exceptions.NoNodeError as error:
            print(error.path)
        async with await zebu.aio.connect(HOSTS, 10, default_acl=zebu.open_to_all()) as other:
            lock = other.Lock("/async/lock", "other")
            async with client.Lock("/async/lock", "client") as held:
                waiting = asyncio.create_task(asyncio.wait_for(lock.acquire(), 0.2))
                try:
                    await waiting
                except asyncio.TimeoutError:
                    print("still held")
                while len(await lock.contenders()) > 1:
                    pass
                doubt = asyncio.ensure_future(held.wait_for_doubt())
                print(held.is_held, await lock.contenders(), await lock.try_acquire(), doubt.done())
                next_one = asyncio.ensure_future(lock.acquire())
                while len(await lock.contenders()) < 2:
                    pass
            await doubt
            print((await next_one).token > held.token)
            await (await next_one).release()

            async def lead(name: str) -> str:
                return name

            print(await other.Election("/async/leader", "me").run(lead, "led"))
        await client.delete("/async", recursive=True)
    print(client.state)


def main() -> None:
    with connect() as client:
        for part in (requests, failures, access, transactions, watches, locks, elections, sessions, roots):
            print(f"-- {part.__name__}")
            part(client)
    print("-- asyncio")
    asyncio.run(asynchronous())


main()
