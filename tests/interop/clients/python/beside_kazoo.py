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


def main():
    kazoo = KazooClient(HOSTS)
    kazoo.start(PATIENCE)
    with zebu.Client(HOSTS, 10, default_acl=zebu.open_to_all()) as client:
        for part in (locks, elections, barriers, counters, parties, leases):
            print(f"-- {part.__name__}")
            part(kazoo, client)
    kazoo.stop()
    kazoo.close()


main()
