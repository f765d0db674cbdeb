import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Curator's recipes, each used by two sessions: fails unless it does what it says, and prints what happened. */
public final class Recipes {
    private static final long PATIENCE_S = 180;
    private static final long MOMENT_MS = 300;
    private static final int SESSION_MS = 20000;

    private final String server;
    private final CuratorFramework one;
    private final CuratorFramework two;
    /** A lock belongs to a thread: the two threads of the two sessions. */
    private final ExecutorService first = Executors.newSingleThreadExecutor();
    private final ExecutorService second = Executors.newSingleThreadExecutor();

    private Recipes(String server) {
        this.server = server;
        one = open(server);
        two = open(server);
    }

    private static CuratorFramework open(String server) {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(server, SESSION_MS, SESSION_MS, new RetryForever(100));
        client.start();
        return client;
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("not so: " + what);
        }
        System.out.println(what);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static <T> T wait(Future<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static <T> T on(ExecutorService thread, Callable<T> work) throws Exception {
        return wait(thread.submit(work));
    }

    /** Whether it is had within a moment. */
    private static boolean soon(ExecutorService thread, InterProcessLock lock) throws Exception {
        return on(thread, () -> lock.acquire(MOMENT_MS, TimeUnit.MILLISECONDS));
    }

    private static Future<Boolean> later(ExecutorService thread, InterProcessLock lock) {
        return thread.submit(() -> lock.acquire(PATIENCE_S, TimeUnit.SECONDS));
    }

    private static void release(ExecutorService thread, InterProcessLock lock) throws Exception {
        on(thread, () -> {
            lock.release();
            return null;
        });
    }

    private static void take(ExecutorService thread, InterProcessLock lock) throws Exception {
        if (!wait(later(thread, lock))) {
            throw new AssertionError("never acquired");
        }
    }

    private void mutex() throws Exception {
        InterProcessMutex mine = new InterProcessMutex(one, "/mutex");
        InterProcessMutex yours = new InterProcessMutex(two, "/mutex");
        take(first, mine);
        take(first, mine);
        expect(!soon(second, yours), "mutex: one at a time");
        expect(mine.getParticipantNodes().size() == 1, "mutex: who gives up leaves the line");
        release(first, mine);
        expect(!soon(second, yours), "mutex: released as often as acquired");
        Future<Boolean> waits = later(second, yours);
        release(first, mine);
        expect(wait(waits), "mutex: the next one gets it");
        release(second, yours);
        CuratorFramework mortal = open(server);
        take(second, new InterProcessMutex(mortal, "/mutex"));
        Future<Boolean> heir = later(first, mine);
        mortal.close();
        expect(wait(heir), "mutex: inherited from an ended session");
        release(first, mine);
    }

    private void readWriteLock() throws Exception {
        InterProcessReadWriteLock mine = new InterProcessReadWriteLock(one, "/rw");
        InterProcessReadWriteLock yours = new InterProcessReadWriteLock(two, "/rw");
        take(first, mine.readLock());
        expect(wait(later(second, yours.readLock())), "rw: readers together");
        release(second, yours.readLock());
        expect(!soon(second, yours.writeLock()), "rw: no writer beside a reader");
        Future<Boolean> writes = later(second, yours.writeLock());
        release(first, mine.readLock());
        expect(wait(writes), "rw: a writer after the readers");
        expect(!soon(first, mine.readLock()), "rw: no reader beside a writer");
        take(second, yours.readLock());
        release(second, yours.writeLock());
        take(first, mine.readLock());
        expect(true, "rw: a writer becomes a reader");
        release(first, mine.readLock());
        release(second, yours.readLock());
    }

    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 mine = new InterProcessSemaphoreV2(one, "/semaphore", 2);
        InterProcessSemaphoreV2 yours = new InterProcessSemaphoreV2(two, "/semaphore", 2);
        Lease lease = mine.acquire();
        Lease other = yours.acquire();
        expect(yours.acquire(MOMENT_MS, TimeUnit.MILLISECONDS) == null, "semaphore: two and no more");
        Future<Lease> third = second.submit(() -> yours.acquire());
        mine.returnLease(lease);
        expect(wait(third) != null, "semaphore: what was returned is had");
        yours.returnAll(List.of(other, wait(third)));
    }

    private void barriers() throws Exception {
        DistributedBarrier mine = new DistributedBarrier(one, "/barrier");
        DistributedBarrier yours = new DistributedBarrier(two, "/barrier");
        mine.setBarrier();
        expect(!yours.waitOnBarrier(MOMENT_MS, TimeUnit.MILLISECONDS), "barrier: holds");
        Future<Boolean> passes = second.submit(() -> yours.waitOnBarrier(PATIENCE_S, TimeUnit.SECONDS));
        mine.removeBarrier();
        expect(wait(passes), "barrier: passed when removed");
        expect(yours.waitOnBarrier(PATIENCE_S, TimeUnit.SECONDS), "barrier: none");
        DistributedDoubleBarrier in = new DistributedDoubleBarrier(one, "/double", 2);
        DistributedDoubleBarrier also = new DistributedDoubleBarrier(two, "/double", 2);
        Future<Boolean> enters = first.submit(() -> in.enter(PATIENCE_S, TimeUnit.SECONDS));
        expect(also.enter(PATIENCE_S, TimeUnit.SECONDS) && wait(enters), "double barrier: entered together");
        Future<Boolean> leaves = first.submit(() -> in.leave(PATIENCE_S, TimeUnit.SECONDS));
        expect(also.leave(PATIENCE_S, TimeUnit.SECONDS) && wait(leaves), "double barrier: left together");
    }

    private void counter() throws Exception {
        DistributedAtomicLong mine = new DistributedAtomicLong(one, "/counter", new RetryForever(1));
        DistributedAtomicLong yours = new DistributedAtomicLong(two, "/counter", new RetryForever(1));
        Future<Integer> failures = first.submit(() -> increments(mine));
        Future<Integer> others = second.submit(() -> increments(yours));
        expect(wait(failures) + wait(others) == 0, "counter: every increment succeeds");
        AtomicValue<Long> value = mine.get();
        expect(value.succeeded() && value.postValue() == 60, "counter: and counts once");
        expect(!yours.compareAndSet(59L, 1L).succeeded(), "counter: compared before it is set");
    }

    private static int increments(DistributedAtomicLong counter) throws Exception {
        int failures = 0;
        for (int n = 0; n < 30; n++) {
            failures += counter.increment().succeeded() ? 0 : 1;
        }
        return failures;
    }

    /** The znode, once it is there and belongs to another session than this one. */
    private Stat awaited(String path, long otherThan) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (System.nanoTime() < end) {
            Stat stat = two.checkExists().forPath(path);
            if (stat != null && stat.getEphemeralOwner() != otherThan) {
                return stat;
            }
            Thread.sleep(20);
        }
        throw new AssertionError(path + " does not come");
    }

    private void persistentNode() throws Exception {
        CuratorFramework owner = open(server);
        try (PersistentNode node = new PersistentNode(owner, CreateMode.EPHEMERAL, false, "/kept/node", bytes("a"))) {
            node.start();
            expect(node.waitForInitialCreate(PATIENCE_S, TimeUnit.SECONDS), "node: made with its parents");
            ZooKeeper session = owner.getZookeeperClient().getZooKeeper();
            long id = session.getSessionId();
            expect(two.checkExists().forPath("/kept/node").getEphemeralOwner() == id, "node: of its session");
            two.delete().forPath("/kept/node");
            expect(awaited("/kept/node", 0).getEphemeralOwner() == id, "node: comes back");
            // Whoever knows a session's password may end it.
            CuratorFramework thief = CuratorFrameworkFactory.builder()
                    .connectString(server).sessionTimeoutMs(SESSION_MS).retryPolicy(new RetryForever(100))
                    .zookeeperFactory((connect, timeout, watcher, readOnly) ->
                            new ZooKeeper(connect, timeout, watcher, id, session.getSessionPasswd()))
                    .build();
            thief.start();
            thief.checkExists().forPath("/");
            thief.close();
            awaited("/kept/node", id);
            expect(true, "node: comes back in a new session");
            expect(new String(two.getData().forPath("/kept/node"), StandardCharsets.UTF_8).equals("a"),
                    "node: with its data");
        }
        expect(two.checkExists().forPath("/kept/node") == null, "node: closed");
        owner.close();
    }

    private static String shown(ChildData data) {
        return data == null ? "-" : data.getPath() + "=" + new String(data.getData(), StandardCharsets.UTF_8);
    }

    private static void happens(BlockingQueue<String> events, String wanted) throws Exception {
        String event = events.poll(PATIENCE_S, TimeUnit.SECONDS);
        expect(wanted.equals(event), event);
    }

    @SuppressWarnings("deprecation") // TreeCache, which others still use
    private void caches() throws Exception {
        BlockingQueue<String> recursive = new LinkedBlockingQueue<>();
        BlockingQueue<String> levels = new LinkedBlockingQueue<>();
        two.create().forPath("/cached", bytes("root"));
        try (CuratorCache cache = CuratorCache.build(one, "/cached");
                TreeCache tree = TreeCache.newBuilder(one, "/cached").build()) {
            cache.listenable().addListener(
                    (type, before, after) -> recursive.add(type + " " + shown(before) + " " + shown(after)));
            tree.getListenable().addListener(
                    (client, event) -> levels.add(event.getType() + " " + shown(event.getData())));
            cache.start();
            tree.start();
            happens(recursive, "NODE_CREATED - /cached=root");
            happens(levels, "NODE_ADDED /cached=root");
            happens(levels, "INITIALIZED -");
            two.create().forPath("/cached/a", bytes("1"));
            happens(recursive, "NODE_CREATED - /cached/a=1");
            happens(levels, "NODE_ADDED /cached/a=1");
            two.create().forPath("/cached/a/deep", bytes("2"));
            happens(recursive, "NODE_CREATED - /cached/a/deep=2");
            happens(levels, "NODE_ADDED /cached/a/deep=2");
            two.setData().forPath("/cached/a", bytes("3"));
            happens(recursive, "NODE_CHANGED /cached/a=1 /cached/a=3");
            happens(levels, "NODE_UPDATED /cached/a=3");
            two.delete().forPath("/cached/a/deep");
            happens(recursive, "NODE_DELETED /cached/a/deep=2 -");
            happens(levels, "NODE_REMOVED /cached/a/deep=2");
            expect(cache.size() == 2 && tree.size() == 2, "caches: two znodes");
            expect(shown(cache.get("/cached/a").orElse(null)).equals(shown(tree.getCurrentData("/cached/a"))),
                    "caches: the same");
        }
    }

    private static void show(List<CuratorTransactionResult> results) {
        for (CuratorTransactionResult result : results) {
            System.out.println(result.getType() + " " + result.getForPath() + " " + result.getResultPath() + " "
                    + (result.getResultStat() == null ? "-" : result.getResultStat().getVersion()) + " "
                    + result.getError());
        }
    }

    private void transactions() throws Exception {
        CuratorOp make = one.transactionOp().create().forPath("/all", bytes("0"));
        CuratorOp line = one.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/all/n-");
        CuratorOp set = one.transactionOp().setData().withVersion(0).forPath("/all", bytes("1"));
        CuratorOp check = one.transactionOp().check().withVersion(1).forPath("/all");
        CuratorOp remove = one.transactionOp().delete().forPath("/all/n-0000000000");
        show(one.transaction().forOperations(make, line, set, check, remove));
        CuratorOp again = one.transactionOp().setData().forPath("/all", bytes("2"));
        CuratorOp stale = one.transactionOp().check().withVersion(1).forPath("/all");
        try {
            one.transaction().forOperations(again, stale, remove);
            throw new AssertionError("a stale version passes");
        } catch (KeeperException.BadVersionException refused) {
            refused.getResults().forEach(result -> System.out.println(result.getClass().getSimpleName()));
        }
        expect(one.checkExists().forPath("/all").getVersion() == 1, "transaction: all or nothing");
        BlockingQueue<String> answers = new LinkedBlockingQueue<>();
        one.transaction().inBackground((client, event) -> {
            show(event.getOpResults());
            answers.add("answer " + event.getResultCode());
        }).forOperations(again, stale, remove);
        happens(answers, "answer " + KeeperException.Code.BADVERSION.intValue());
    }

    public static void main(String[] words) throws Exception {
        Recipes recipes = new Recipes(words[0]);
        recipes.mutex();
        recipes.readWriteLock();
        recipes.semaphore();
        recipes.barriers();
        recipes.counter();
        recipes.persistentNode();
        recipes.caches();
        recipes.transactions();
        recipes.one.close();
        recipes.two.close();
        System.exit(0);
    }
}
