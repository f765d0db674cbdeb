"""Walks through kazoo's client and recipes and prints what it sees.

usage: scenario.py host:port
"""

import logging
import os
import sys
import threading

from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import KazooException
from kazoo.protocol.connection import _CONNECTION_DROP, _SESSION_EXPIRED
from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import ACL, Id, make_acl, make_digest_acl

PATIENCE = 60
HOSTS = sys.argv[1]
logging.disable(logging.CRITICAL)


def say(*words):
    print(*words, flush=True)


def attempt(what, call, *args, **kwargs):
    """Prints the result of a call, or the name of its exception."""
    try:
        say(what + ":", call(*args, **kwargs))
    except KazooException as error:
        say(what + ":", type(error).__name__)
    except (TypeError, ValueError) as error:
        say(what + ":", type(error).__name__)


def await_(what, event):
    say(what + ":", "in time" if event.wait(PATIENCE) else "NOT in time")


def until(what, condition):
    """Polls until a condition holds."""
    pause = threading.Event()
    for _ in range(PATIENCE * 100):
        if condition():
            say(what + ":", "in time")
            return
        pause.wait(0.01)
    say(what + ":", "NOT in time")


def stat(znode):
    return "czxid=%d mzxid=%d pzxid=%d version=%d cversion=%d aversion=%d length=%d children=%d eph=%s" % (
        znode.czxid,
        znode.mzxid,
        znode.pzxid,
        znode.version,
        znode.cversion,
        znode.aversion,
        znode.dataLength,
        znode.numChildren,
        znode.ephemeralOwner != 0,
    )


def connect(**options):
    client = KazooClient(HOSTS, timeout=10, **options)
    client.start(timeout=PATIENCE)
    return client


def basics(zk):
    say("== basics")
    say("version", zk.server_version()[:2])
    say("timeout", zk._session_timeout)
    attempt("create", zk.create, "/b", b"data")
    attempt("create again", zk.create, "/b", b"data")
    attempt("makepath", zk.create, "/b/x/y/z", b"deep", makepath=True)
    attempt("ephemeral", zk.create, "/b/e", b"e", ephemeral=True)
    attempt("sequence", zk.create, "/b/s-", b"s", sequence=True)
    attempt("ephemeral sequence", zk.create, "/b/s-", b"s", ephemeral=True, sequence=True)
    attempt("below an ephemeral", zk.create, "/b/e/child", b"")
    attempt("below nothing", zk.create, "/none/child", b"")
    path, znode = zk.create("/b/stat", b"12345", include_data=True)
    say("with stat", path, stat(znode))
    data, znode = zk.get("/b")
    say("get", data, stat(znode))
    attempt("get nothing", zk.get, "/none")
    say("set", stat(zk.set("/b", b"changed")))
    attempt("set with a wrong version", zk.set, "/b", b"x", version=7)
    attempt("null", zk.create, "/b/null", None)
    say("null", zk.get("/b/null")[0])
    say("exists", stat(zk.exists("/b")), zk.exists("/none"))
    say("children", sorted(zk.get_children("/b")))
    names, znode = zk.get_children("/b", include_data=True)
    say("children and stat", sorted(names), stat(znode))
    attempt("children of nothing", zk.get_children, "/none")
    attempt("delete a parent", zk.delete, "/b")
    attempt("delete with a wrong version", zk.delete, "/b/stat", version=3)
    attempt("delete", zk.delete, "/b/stat", version=0)
    attempt("delete nothing", zk.delete, "/none")
    attempt("sync", zk.sync, "/b")
    attempt("large", zk.create, "/b/large", b"x" * 1000000)
    say("large", len(zk.get("/b/large")[0]))
    attempt("unicode", zk.create, "/b/\u043f\u0440\u0438\u0432\u0435\u0442-\u4e16\u754c", "\u00e9".encode())
    attempt("recursive", zk.delete, "/b", recursive=True)
    say("gone", zk.exists("/b"))
    for word in (b"ruok", b"isro"):
        say(word, zk.command(word))


def transactions(zk):
    say("== transactions")
    t = zk.transaction()
    t.create("/t", b"t")
    t.create("/t/s-", b"s", sequence=True)
    t.set_data("/t", b"tt")
    t.check("/t", 1)
    t.delete("/t/s-0000000000")
    say("committed", [r if isinstance(r, (str, bool)) else stat(r) for r in t.commit()])
    t = zk.transaction()
    t.create("/t/a", b"a")
    t.check("/t", 9)
    t.set_data("/t", b"never")
    say("failed", [type(r).__name__ for r in t.commit()])
    say("kept", zk.get("/t")[0], zk.get_children("/t"))
    say("empty", zk.transaction().commit())
    assert isinstance(t, TransactionRequest)


def acls(zk):
    say("== acls")
    mine = make_digest_acl("user", "secret", all=True)
    readers = make_acl("world", "anyone", read=True)
    with_auth = connect(auth_data=[("digest", "user:secret")])
    attempt("create", with_auth.create, "/acl", b"a", acl=[mine, readers])
    attempt("private", with_auth.create, "/acl/private", b"p", acl=[mine])
    say("acl", [(a.perms, a.id.scheme, a.id.id) for a in with_auth.get_acls("/acl")[0]])
    say("acl of another", [(a.perms, a.id.scheme, a.id.id) for a in zk.get_acls("/acl")[0]])
    attempt("acl of a private one", zk.get_acls, "/acl/private")
    say("read", zk.get("/acl")[0])
    attempt("read a private one", zk.get, "/acl/private")
    attempt("write", zk.set, "/acl", b"x")
    attempt("create below", zk.create, "/acl/new", b"")
    attempt("invalid", zk.create, "/bad", b"", acl=[ACL(31, Id("nonsense", "x"))])
    say("set acl", stat(with_auth.set_acls("/acl", [mine], version=0)))
    attempt("set acl, wrong version", with_auth.set_acls, "/acl", [mine], version=0)
    attempt("read now", zk.get, "/acl")
    zk.add_auth("digest", "user:secret")
    say("read with auth", zk.get("/acl")[0])
    with_auth.stop()
    with_auth.close()


def watches(zk, other):
    say("== watches")
    seen = []
    changed = threading.Event()

    def watcher(event):
        seen.append((event.type, event.state, event.path))
        changed.set()

    zk.create("/w", b"")
    zk.get("/w", watch=watcher)
    other.set("/w", b"1")
    await_("data watch", changed)
    changed.clear()
    zk.get_children("/w", watch=watcher)
    other.create("/w/child", b"")
    await_("child watch", changed)
    changed.clear()
    zk.exists("/w/later", watch=watcher)
    other.create("/w/later", b"")
    await_("exists watch", changed)
    say(seen)

    data, children, wanted = [], [], 4
    DataWatch(zk, "/w", lambda value, znode: data.append(value and value.decode()))
    ChildrenWatch(zk, "/w", lambda names: children.append(sorted(names)))
    for index in range(1, wanted):
        other.set("/w", b"data %d" % index)
        until("data %d" % index, lambda: data[-1] == "data %d" % index)
        other.create("/w/%d" % index, b"")
        until("child %d" % index, lambda: str(index) in children[-1])
    say(data)
    say(children)

    cache_events = []
    cache = TreeCache(zk, "/tree")
    ready = threading.Event()

    def listen(event):
        if event.event_type == TreeEvent.INITIALIZED:
            ready.set()
        cache_events.append(event.event_type)

    zk.ensure_path("/tree/a/b")
    cache.listen(listen)
    cache.start()
    await_("tree cache", ready)
    other.set("/tree/a/b", b"deep")
    until("tree cache sees data", lambda: cache.get_data("/tree/a/b").data == b"deep")
    other.create("/tree/a/c", b"new")
    until("tree cache sees a child", lambda: cache.get_data("/tree/a/c") is not None)
    say(sorted(cache.get_children("/tree/a")))
    other.delete("/tree/a", recursive=True)
    until("tree cache sees it go", lambda: cache.get_data("/tree/a") is None)
    kinds = {TreeEvent.INITIALIZED, TreeEvent.NODE_ADDED, TreeEvent.NODE_UPDATED, TreeEvent.NODE_REMOVED}
    until("tree cache events", lambda: kinds <= set(cache_events))
    cache.close()


def recipes(zk, other):
    say("== recipes")
    order = []
    lock = zk.Lock("/lock", "first")
    second = other.Lock("/lock", "second")
    lock.acquire(timeout=PATIENCE)

    def wait_for_lock():
        second.acquire(timeout=PATIENCE)
        order.append("second")
        second.release()

    thread = threading.Thread(target=wait_for_lock)
    thread.start()
    until("contenders", lambda: len(lock.contenders()) == 2)
    say("contenders", lock.contenders())
    order.append("first")
    lock.release()
    thread.join(PATIENCE)
    say("lock", order)

    semaphore = zk.Semaphore("/semaphore", max_leases=1)
    say("semaphore", semaphore.acquire(timeout=PATIENCE))
    say("semaphore holders", len(semaphore.lease_holders()))
    say("semaphore of another", other.Semaphore("/semaphore").acquire(blocking=False))
    semaphore.release()

    elected = threading.Event()
    election = zk.Election("/election", "me")
    thread = threading.Thread(target=lambda: election.run(elected.set))
    thread.start()
    await_("elected", elected)
    thread.join(PATIENCE)
    say("contenders", election.contenders())

    counter = zk.Counter("/counter")
    counter += 5
    counter -= 2
    say("counter", counter.value, other.Counter("/counter").value)

    queue = zk.Queue("/queue")
    for item in (b"one", b"two", b"three"):
        queue.put(item)
    queue.put(b"urgent", priority=1)
    say("queue", len(queue), [other.Queue("/queue").get() for _ in range(5)])

    locking = zk.LockingQueue("/locking")
    locking.put_all([b"a", b"b"])
    say("locking queue", locking.get(PATIENCE), locking.consume(), locking.get(PATIENCE), locking.consume())

    barrier = zk.Barrier("/barrier")
    barrier.create()
    passed = threading.Event()
    thread = threading.Thread(target=lambda: other.Barrier("/barrier").wait(PATIENCE) and passed.set())
    thread.start()
    say("barrier removed", barrier.remove())
    thread.join(PATIENCE)
    say("barrier passed", passed.is_set())

    entered = []
    barriers = [DoubleBarrier(client, "/double", 2) for client in (zk, other)]

    def enter(barrier):
        barrier.enter()
        entered.append(barrier.participating)
        barrier.leave()

    threads = [threading.Thread(target=enter, args=(barrier,)) for barrier in barriers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    say("double barrier", entered)

    party, others = zk.Party("/party", "zk"), other.ShallowParty("/shallow", "other")
    party.join()
    others.join()
    say("party", sorted(party), len(party), len(others))
    party.leave()
    say("party left", len(party))


def connection(zk):
    say("== connection")
    states = []
    events = {state: threading.Event() for state in (KazooState.SUSPENDED, KazooState.LOST)}
    connected = threading.Event()

    def listener(state):
        states.append(state)
        if state in events:
            events[state].set()
        if state == KazooState.CONNECTED:
            connected.set()

    zk.create("/ephemeral", b"", ephemeral=True)
    watched = []
    zk.get("/w", watch=lambda event: watched.append((event.type, event.path)))
    session = zk.client_id[0]
    zk.add_listener(listener)
    zk._call(_CONNECTION_DROP, None)
    await_("suspended", events[KazooState.SUSPENDED])
    await_("connected", connected)
    say("same session", zk.client_id[0] == session, "ephemeral", zk.exists("/ephemeral") is not None)
    zk.set("/w", b"after the drop")
    until("the watch survived", lambda: len(watched) == 1)
    say(watched)
    connected.clear()
    zk._call(_SESSION_EXPIRED, None)
    await_("lost", events[KazooState.LOST])
    await_("connected", connected)
    say("same session", zk.client_id[0] == session)
    zk.remove_listener(listener)
    say(states)


def sessions():
    say("== sessions")
    # Below the server's minimum; kazoo gives the server that long to answer, too.
    short = KazooClient(HOSTS, timeout=1, read_only=True)
    short.start(timeout=PATIENCE)
    say("shortest timeout", short._session_timeout)
    short.stop()
    short.close()
    long = KazooClient(HOSTS, timeout=100000)
    long.start(timeout=PATIENCE)
    say("longest timeout", long._session_timeout)
    long.stop()
    long.close()
    refused = KazooClient(HOSTS, timeout=10, auth_data=[("nonsense", "x")])
    states = []
    refused.add_listener(states.append)
    try:
        # Whether it still looks connected when this returns is a matter of luck.
        refused.start(timeout=PATIENCE)
    except refused.handler.timeout_exception:
        pass
    until("unknown scheme: lost", lambda: KazooState.LOST in states)
    # kazoo may wait for ever for a client that has lost its session this way.
    stopper = threading.Thread(target=refused.stop, daemon=True)
    stopper.start()
    stopper.join(PATIENCE)
    if not stopper.is_alive():
        refused.close()


def main():
    zk, other = connect(), connect()
    basics(zk)
    transactions(zk)
    acls(other)
    watches(zk, other)
    recipes(zk, other)
    connection(zk)
    sessions()
    for client in (zk, other):
        client.stop()
        client.close()


main()
# The thread of a client that kazoo cannot stop would keep the interpreter for ever.
sys.stdout.flush()
os._exit(0)
