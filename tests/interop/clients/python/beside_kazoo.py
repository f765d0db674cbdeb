"""Programs with kazoo and with the package use the same znodes: `beside_kazoo.py HOSTS`. Prints what it sees."""

from __future__ import annotations

import datetime
import sys
import threading

from kazoo.client import KazooClient

import zebu

PATIENCE = 60.0
HOSTS = sys.argv[1]


def locks(kazoo, client):
    theirs, ours = kazoo.Lock("/lock", "kazoo"), client.Lock("/lock", "zebu", layout="kazoo")
    with theirs:
        print(ours.try_acquire(), ours.contenders())
        got = []
        waiting = threading.Thread(target=lambda: got.append(ours.acquire()))
        waiting.start()
        while len(theirs.contenders()) < 2:
            pass
        print(theirs.contenders(), ours.contenders())
    waiting.join(PATIENCE)
    print(got[0].is_held, kazoo.Lock("/lock").acquire(blocking=False))
    got[0].release()
    print(theirs.acquire(timeout=PATIENCE))
    theirs.release()
    readers, read = kazoo.ReadLock("/rw", "kazoo"), client.ReadLock("/rw", "zebu", layout="kazoo")
    with readers, read:
        print(kazoo.WriteLock("/rw").acquire(blocking=False))
        print(client.WriteLock("/rw", layout="kazoo").try_acquire())
    with client.WriteLock("/rw", layout="kazoo"):
        print(readers.acquire(blocking=False))


def elections(kazoo, client):
    order, leads, may_end = [], threading.Event(), threading.Event()

    def lead():
        order.append("kazoo leads")
        leads.set()
        may_end.wait(PATIENCE)

    election = kazoo.Election("/election", "kazoo")
    thread = threading.Thread(target=election.run, args=(lead,))
    thread.start()
    leads.wait(PATIENCE)
    ours = client.Election("/election", "zebu", layout="kazoo")
    second = threading.Thread(target=ours.run, args=(order.append, "zebu leads"))
    second.start()
    while len(ours.contenders()) < 2:
        pass
    print(ours.contenders(), election.contenders())
    may_end.set()
    thread.join(PATIENCE)
    second.join(PATIENCE)
    print(order)


def barriers(kazoo, client):
    theirs, ours = kazoo.Barrier("/barrier"), client.Barrier("/barrier")
    theirs.create()
    print(ours.wait(timeout=0.1))
    ours.remove()
    print(theirs.wait(PATIENCE))
    ours.create()
    print(theirs.wait(0.1), theirs.remove(), ours.wait(PATIENCE))


def counters(kazoo, client):
    theirs, ours = kazoo.Counter("/counter"), client.Counter("/counter")
    print(theirs.value, ours.value)
    theirs += 3
    print(ours.value, ours.add(4), theirs.value)

    def count(counter):
        for _ in range(20):
            counter += 1

    programs = [threading.Thread(target=count, args=(counter,)) for counter in (theirs, ours)]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE)
    print(theirs.value, ours.value)


def parties(kazoo, client):
    theirs, ours = kazoo.Party("/party", "kazoo"), client.Party("/party", "zebu")
    theirs.join()
    ours.join()
    print(sorted(theirs), sorted(ours), len(theirs), len(ours))
    theirs.leave()
    print(list(theirs), list(ours))
    ours.leave()
    print(list(theirs), list(ours))


def leases(kazoo, client):
    hour, over = datetime.timedelta(hours=1), datetime.timedelta(seconds=-1)
    print(bool(kazoo.NonBlockingLease("/job", hour, "kazoo")), client.NonBlockingLease("/job", hour, "zebu"))
    print(bool(kazoo.NonBlockingLease("/job", over, "kazoo")), client.NonBlockingLease("/job", hour, "zebu"))
    print(bool(kazoo.NonBlockingLease("/job", hour, "kazoo")))
    print(bool(kazoo.MultiNonBlockingLease(2, "/jobs", hour, "kazoo")))
    print([client.MultiNonBlockingLease(2, "/jobs", hour, name) for name in ("zebu", "another")])


def semaphores(kazoo, client):
    theirs, ours = kazoo.Semaphore("/leases", "kazoo", 2), client.Semaphore("/leases", "zebu", 2, layout="kazoo")
    with theirs, ours:
        print(sorted(theirs.lease_holders()), sorted(ours.lease_holders()))
        print(kazoo.Semaphore("/leases", "third", 2).acquire(blocking=False), ours.try_acquire())
        got = []
        waiting = threading.Thread(target=lambda: got.append(client.Semaphore("/leases", "next", 2, layout="kazoo").acquire()))
        waiting.start()
        while not client.get_children("/leases-__lock__"):
            pass
    waiting.join(PATIENCE)
    print(got[0].is_held, ours.lease_holders())
    got[0].release()
    try:
        kazoo.Semaphore("/leases", "kazoo", 3).acquire()
    except ValueError as error:
        print(error)


def double_barriers(kazoo, client):
    for size, names in ((2, "kz"), (3, "kzz"), (4, "kkzz")):
        path, order = f"/double-{size}", []

        def come_and_go(barrier):
            barrier.enter()
            order.append("in")
            # kazoo does not see that the barrier was open, if others leave too soon.
            while order.count("in") < size:
                pass
            order.append("leave")
            barrier.leave()
            order.append("out")

        theirs = [kazoo.DoubleBarrier(path, size) for name in names if name == "k"]
        ours = [client.DoubleBarrier(path, size, layout="kazoo") for name in names if name == "z"]
        programs = [threading.Thread(target=come_and_go, args=(barrier,)) for barrier in theirs + ours]
        for program in programs:
            program.start()
        for program in programs:
            program.join(PATIENCE)
        print(order, client.get_children(path))


def queues(kazoo, client):
    theirs, ours = kazoo.Queue("/queue"), client.KazooQueue("/queue")
    theirs.put(b"3", 200)
    ours.put(b"1", 7)
    theirs.put(b"2")
    ours.put(b"4", 200)
    print(len(theirs), ours.size())
    print(ours.get(), theirs.get(), ours.get(), theirs.get(), ours.get(), theirs.get())
    theirs, ours = kazoo.LockingQueue("/locking"), client.LockingQueue("/locking")
    theirs.put_all([b"2", b"3"])
    ours.put(b"1", 7)
    item = ours.take(PATIENCE)
    print(item.data, theirs.get(PATIENCE), len(theirs), ours.size())
    other = client.LockingQueue("/locking").take(PATIENCE)
    print(other.data, theirs.holds_lock(), theirs.consume(), ours.size())
    item.finish()
    other.give_back()
    print(theirs.get(PATIENCE), theirs.release())
    with ours.take(PATIENCE) as data:
        print(data)
    print(len(theirs), theirs.get(0.1))


def parties_without_data(kazoo, client):
    theirs, ours = kazoo.ShallowParty("/shallow", "kazoo"), client.ShallowParty("/shallow", "zebu")
    theirs.join()
    ours.join()
    print(sorted(theirs), sorted(ours), len(theirs), len(ours))
    theirs.leave()
    print(list(theirs), list(ours))
    ours.leave()


def partitions(kazoo, client):
    items = ["a", "b", "c", "d", "e"]
    theirs = kazoo.SetPartitioner("/set", items, identifier="kazoo", time_boundary=1)
    ours = client.SetPartitioner("/set", items, "zebu", time_boundary=1)
    parts = []
    sharing = threading.Thread(target=lambda: parts.append(ours.acquire(PATIENCE)))
    sharing.start()
    while sharing.is_alive() or not theirs.acquired:
        if theirs.release:
            theirs.release_set()
        theirs.wait_for_acquire(0.1)
    print(sorted(theirs), list(parts[0]))
    theirs.finish()
    print(parts[0].wait_for_request(PATIENCE))
    parts[0].release()
    with ours.acquire(PATIENCE) as part:
        print(list(part))
    ours.finish()


PARTS = (
    locks,
    elections,
    barriers,
    counters,
    parties,
    leases,
    semaphores,
    double_barriers,
    queues,
    parties_without_data,
    partitions,
)


def main():
    kazoo = KazooClient(HOSTS)
    kazoo.start(PATIENCE)
    with zebu.Client(HOSTS, 10, default_acl=zebu.open_to_all()) as client:
        for part in PARTS:
            print(f"-- {part.__name__}")
            part(kazoo, client)
    kazoo.stop()
    kazoo.close()


main()
