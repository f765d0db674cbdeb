"""The recipes of the Python package, against one server: `recipes.py HOSTS`. Prints what it sees."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from datetime import timedelta

import zebu
import zebu.aio

PATIENCE = 60.0
HOSTS = sys.argv[1]


def connect() -> zebu.Client:
    return zebu.Client(HOSTS, 10, default_acl=zebu.open_to_all())


def locks(one: zebu.Client, two: zebu.Client) -> None:
    with one.ReadLock("/rw", "reader") as held, two.ReadLock("/rw", "other reader"):
        print(held.is_held, two.WriteLock("/rw").try_acquire())
        try:
            two.WriteLock("/rw").acquire(timeout=0.2)
        except TimeoutError:
            print("still read")
    with two.WriteLock("/rw", "writer") as held:
        print(held.is_held, one.ReadLock("/rw").try_acquire())
    for wrong in (lambda: one.Lock("/rw", layout="none"), lambda: one.Election("/rw", layout="none")):
        try:
            wrong()
        except ValueError as error:
            print(error)


def semaphores(one: zebu.Client, two: zebu.Client) -> None:
    first, second = one.Semaphore("/leases", "one", 2), two.Semaphore("/leases", "two", 2)
    with first as held:
        other = second.acquire(PATIENCE)
        print(held.token != other.token, sorted(first.lease_holders()), second.try_acquire())
        try:
            second.acquire(timeout=0.2)
        except TimeoutError:
            print("no lease left")
        other.release()
        last = second.try_acquire()
        print(last is not None)
        del last, other
        gc.collect()
    second.acquire(PATIENCE).release()


def barriers(one: zebu.Client, two: zebu.Client) -> None:
    barrier = one.Barrier("/barrier")
    barrier.create()
    print(two.Barrier("/barrier").wait(timeout=0.1))
    passed: list[bool] = []
    waiting = threading.Thread(target=lambda: passed.append(two.Barrier("/barrier").wait()))
    waiting.start()
    barrier.remove()
    waiting.join(PATIENCE)
    print(passed, barrier.wait())
    try:
        one.DoubleBarrier("/double", 2, "one").enter(timeout=0.2)
    except TimeoutError:
        print("alone")
    order: list[str] = []

    def come_and_go(client: zebu.Client, name: str) -> None:
        with client.DoubleBarrier("/double", 2, name):
            order.append("in")
        order.append("out")

    programs = [threading.Thread(target=come_and_go, args=(client, name)) for client, name in ((one, "1"), (two, "2"))]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE)
    print(order)


def queues(one: zebu.Client, two: zebu.Client) -> None:
    queue = one.Queue("/queue")
    queue.put(b"later")
    queue.put(b"sooner", priority=1)
    print(queue.size())
    with two.Queue("/queue").take(PATIENCE) as data:
        print(data)
    try:
        with queue.take(PATIENCE):
            raise KeyError("the work fails")
    except KeyError:
        print("given back")
    item = two.Queue("/queue").take(PATIENCE)
    print(item.data)
    try:
        queue.take(timeout=0.2)
    except TimeoutError:
        print("nobody else gets it")
    item.give_back()
    queue.take(PATIENCE).finish()
    print(queue.size())
    try:
        item.finish()
    except RuntimeError as error:
        print(error)


def counters(one: zebu.Client, two: zebu.Client) -> None:
    counter = one.Counter("/counter", default=40)
    counter += 1
    print(counter.value, two.Counter("/counter").add(2), one.get("/counter")[0])

    def count(client: zebu.Client) -> None:
        for _ in range(25):
            client.Counter("/counter").add(1)

    programs = [threading.Thread(target=count, args=(client,)) for client in (one, two)]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE)
    print(counter.value)
    one.create("/word", b"forty")
    try:
        print(one.Counter("/word").value)
    except zebu.ZebuError as error:
        print(error.kind)


def parties(one: zebu.Client, two: zebu.Client) -> None:
    party = one.Party("/party", "one")
    print(party.members())
    with party, two.Party("/party", "two") as other:
        print(sorted(party), len(other))
    print(list(party))


def watchers(one: zebu.Client, two: zebu.Client) -> None:
    data, names = one.DataWatch("/seen"), one.ChildrenWatch("/seen")
    print(data.next(PATIENCE), names.next(PATIENCE))
    try:
        data.next(timeout=0.05)
    except TimeoutError:
        print("nothing yet")
    two.create("/seen", b"1")
    read = data.next(PATIENCE)
    print(read and read[0], names.next(PATIENCE))
    two.create("/seen/child")
    print(names.next(PATIENCE))
    seen: list[bytes | None] = []

    def follow() -> None:
        for read in data:
            seen.append(read and read[0])

    thread = threading.Thread(target=follow)
    thread.start()
    two.set("/seen", b"2")
    while not seen:
        thread.join(0.01)
    data.close()
    thread.join(PATIENCE)
    names.close()
    print(seen, thread.is_alive())


def caches(one: zebu.Client, two: zebu.Client) -> None:
    two.create("/cached/a", b"1", makepath=True)
    cache = one.Cache("/cached")
    print(cache.wait(PATIENCE), cache.is_current, len(cache), cache.get_children("/cached"))
    znode = cache.get("/cached/a")
    print(znode and znode.data, cache.get("/none"))
    with cache.changes() as changes:
        told: list[str] = []

        def until(expected: str) -> None:
            while told[-1:] != [expected]:
                change = changes.next(PATIENCE)
                told.append(change.kind if change.znode is None else f"{change.kind} {change.znode.path}")

        two.set("/cached/a", b"2")
        # A cache shows no znode that is gone before it has been read.
        two.create("/cached/a/b", b"3")
        until("created /cached/a/b")
        two.delete("/cached/a/b")
        until("deleted /cached/a/b")
        print(told[0], "current" in told, "created /cached/a/b" in told)
    try:
        one.Cache("/cached", depth="none")
    except ValueError as error:
        print(error)
    flat = one.Cache("/cached", depth="children", data=False)
    print(flat.wait(PATIENCE), flat.get_children("/cached"))


def leases(one: zebu.Client, two: zebu.Client) -> None:
    hour = timedelta(hours=1)
    print(one.NonBlockingLease("/job", hour, "one"), two.NonBlockingLease("/job", hour, "two"))
    print(one.NonBlockingLease("/job", timedelta(seconds=-1), "one"), two.NonBlockingLease("/job", hour, "two"))
    print([client.MultiNonBlockingLease(2, "/jobs", hour, name) for client, name in ((one, "1"), (two, "2"), (one, "3"))])


def shallow_parties(one: zebu.Client, two: zebu.Client) -> None:
    with one.ShallowParty("/shallow", "one") as party, two.ShallowParty("/shallow", "two"):
        print(sorted(party), len(party), sorted(name.partition("-")[2] for name in one.get_children("/shallow")))
    try:
        one.ShallowParty("/shallow", "no/name").join()
    except zebu.ZebuError as error:
        print(error.kind)


def kazoos_forms(one: zebu.Client, two: zebu.Client) -> None:
    first, second = one.Semaphore("/kl", "one", 2, layout="kazoo"), two.Semaphore("/kl", "two", 2, layout="kazoo")
    with first as held, second:
        print(held.is_held, sorted(first.lease_holders()), second.try_acquire(), one.get("/kl")[0])
    try:
        one.Semaphore("/kl", "one", 3, layout="kazoo").acquire(PATIENCE)
    except zebu.ZebuError as error:
        print(error)
    queue = one.LockingQueue("/kq")
    queue.put_all([b"later", b"last"], priority=999)
    queue.put(b"sooner", priority=1)
    with two.LockingQueue("/kq").take(PATIENCE) as data:
        print(data, queue.size())
    item = queue.take(PATIENCE)
    print(item.data, sorted(one.get_children("/kq/entries")) == ["entry-999-0000000000", "entry-999-0000000001"])
    item.give_back()
    removing = one.KazooQueue("/kr")
    removing.put(b"1")
    print(removing.size(), two.KazooQueue("/kr").get(), removing.get(), removing.size())
    try:
        removing.put(b"1", priority=1000)
    except zebu.ZebuError as error:
        print(error)
    order: list[str] = []

    def come_and_go(client: zebu.Client, name: str) -> None:
        with client.DoubleBarrier("/kb", 2, name, layout="kazoo"):
            order.append("in")
        order.append("out")

    programs = [threading.Thread(target=come_and_go, args=(client, name)) for client, name in ((one, "1"), (two, "2"))]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE)
    print(order, one.get_children("/kb"))


def partitions(one: zebu.Client, two: zebu.Client) -> None:
    items = ["c", "a", "b"]
    first = one.SetPartitioner("/set", items, "one", time_boundary=0.2)
    second = two.SetPartitioner("/set", items, "two", time_boundary=0.2)
    with first.acquire(PATIENCE) as part:
        print(list(part), len(part), part.is_held, part.is_wanted)
        second.join()
        print(part.wait_for_request(PATIENCE), part.is_wanted)
    parts: dict[str, zebu.Part] = {}

    def share(name: str, partitioner: zebu.SetPartitioner) -> None:
        parts[name] = partitioner.acquire(PATIENCE)

    programs = [threading.Thread(target=share, args=pair) for pair in (("one", first), ("two", second))]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE)
    print(list(parts["one"]), list(parts["two"]), parts["one"].token == max(parts["one"].items.values()))
    second.finish()
    print(parts["one"].wait_for_request(PATIENCE), parts["two"].is_held)
    parts["one"].release()
    parts["two"].release()
    with first.acquire(PATIENCE) as part:
        print(list(part), parts["one"].is_over)
    first.finish()
    first.finish()


def patience(one: zebu.Client, two: zebu.Client) -> None:
    with one.PatientChildrenWatch("/patient", 0.2) as settled:
        print(settled.next(PATIENCE))
        try:
            settled.next(timeout=0.5)
        except TimeoutError:
            print("no change")
        two.create("/patient")
        for name in ("a", "b"):
            two.create(f"/patient/{name}")
        print(settled.next(PATIENCE))


async def asynchronous() -> None:
    acl = zebu.open_to_all()
    async with await zebu.aio.connect(HOSTS, 10, default_acl=acl) as one, await zebu.aio.connect(
        HOSTS, 10, default_acl=acl
    ) as two:
        async with one.ReadLock("/a/rw"), two.ReadLock("/a/rw"):
            print(await one.WriteLock("/a/rw").try_acquire())
        async with one.Semaphore("/a/leases", "one", 1) as held:
            print(held.is_held, await two.Semaphore("/a/leases", "two", 1).try_acquire())
            print(await one.Semaphore("/a/leases").lease_holders())
        barrier = one.Barrier("/a/barrier")
        await barrier.create()
        passing = asyncio.ensure_future(two.Barrier("/a/barrier").wait())
        done, _ = await asyncio.wait([passing], timeout=0.1)
        await barrier.remove()
        await passing
        print(len(done))

        async def come_and_go(client: zebu.aio.Client, name: str) -> str:
            async with client.DoubleBarrier("/a/double", 2, name):
                return name

        print(await asyncio.gather(come_and_go(one, "1"), come_and_go(two, "2")))
        queue = one.Queue("/a/queue")
        waiting = asyncio.ensure_future(two.Queue("/a/queue").take())
        await asyncio.sleep(0.05)
        await queue.put(b"work", priority=7)
        async with await waiting as data:
            print(data, await queue.size())
        print(await queue.size())
        counter = one.Counter("/a/counter")
        await asyncio.gather(*(client.Counter("/a/counter").add(1) for client in (one, two) for _ in range(10)))
        print(await counter.value)
        async with one.Party("/a/party", "one") as party, two.Party("/a/party", "two"):
            print(sorted(await party.members()))
        seen = one.DataWatch("/a/seen")
        print(await seen.next())
        await two.create("/a/seen", b"1")
        read = await seen.next()
        print(read and read[0])
        names = one.ChildrenWatch("/a/seen")
        print(await names.next())
        cache = one.Cache("/a/seen")
        await cache.wait()
        async with cache.changes() as changes:
            print([(await changes.next()).kind for _ in range(2)])
        znode = cache.get("/a/seen")
        print(znode and znode.data, cache.get_children("/a/seen"), len(cache), cache.is_current)
        hour = timedelta(hours=1)
        print(await one.NonBlockingLease("/a/job", hour, "one"), await two.NonBlockingLease("/a/job", hour, "two"))
        print(await one.MultiNonBlockingLease(1, "/a/jobs", hour), await two.MultiNonBlockingLease(1, "/a/jobs", hour, "x"))
        async with one.SetPartitioner("/a/set", ["x", "y"], "one", 0.2) as first:
            async with two.SetPartitioner("/a/set", ["x", "y"], "two", 0.2) as second:
                parts = await asyncio.gather(first.acquire(PATIENCE), second.acquire(PATIENCE))
                print([list(part) for part in parts], await parts[0].wait_for_loss(0.05))
                await asyncio.gather(*(part.release() for part in parts))
        try:
            await one.LockingQueue("/a/kq").take(timeout=0.1)
        except TimeoutError:
            print("no item")
        await two.LockingQueue("/a/kq").put(b"1")
        async with await one.LockingQueue("/a/kq").take(PATIENCE) as data:
            print(data, await one.KazooQueue("/a/kr").get())
        async with one.ShallowParty("/a/shallow", "one") as shallow:
            print(await shallow.members(), await one.PatientChildrenWatch("/a/none", 0.1).next(PATIENCE))


PARTS = (
    locks,
    semaphores,
    barriers,
    queues,
    counters,
    parties,
    watchers,
    caches,
    leases,
    shallow_parties,
    kazoos_forms,
    partitions,
    patience,
)


def main() -> None:
    with connect() as one, connect() as two:
        for part in PARTS:
            print(f"-- {part.__name__}")
            part(one, two)
    print("-- asyncio")
    asyncio.run(asynchronous())


main()
