import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's recipes as they are told, one line a step: {@code LABEL VERB WHAT}. Each step
 * prints {@code LABEL yes} or {@code LABEL no} when it is done.
 */
public final class Together {
    private static final long PATIENCE_S = 180;
    private static final long MOMENT_MS = 300;
    private static final int SESSION_MS = 20000;

    private final CuratorFramework client;
    private final Map<String, InterProcessLock> locks = new HashMap<>();
    private final InterProcessSemaphoreV2 semaphore;
    private final Deque<Lease> leases = new ArrayDeque<>();
    private final DistributedAtomicLong counter;

    private Together(CuratorFramework client) {
        this.client = client;
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, "/together/rw");
        InterProcessMutex mutex = new InterProcessMutex(client, "/together/mutex");
        mutex.makeRevocable(lock -> System.out.println("revoked"));
        locks.put("mutex", mutex);
        locks.put("read", both.readLock());
        locks.put("write", both.writeLock());
        semaphore = new InterProcessSemaphoreV2(client, "/together/semaphore", 2);
        counter = new DistributedAtomicLong(client, "/together/counter", new RetryForever(1));
    }

    private boolean acquire(String what, long time, TimeUnit unit) throws Exception {
        if (!what.equals("lease")) {
            return locks.get(what).acquire(time, unit);
        }
        Lease lease = semaphore.acquire(time, unit);
        if (lease != null) {
            leases.push(lease);
        }
        return lease != null;
    }

    private boolean release(String what) throws Exception {
        if (what.equals("lease")) {
            semaphore.returnLease(leases.pop());
        } else {
            locks.get(what).release();
        }
        return true;
    }

    private boolean revoke(String path) throws Exception {
        Revoker.attemptRevoke(client, path);
        return true;
    }

    private boolean add(int count) throws Exception {
        for (int n = 0; n < count; n++) {
            if (!counter.increment().succeeded()) {
                return false;
            }
        }
        return true;
    }

    private boolean set(int number) throws Exception {
        try (SharedCount count = new SharedCount(client, "/together/count", 0)) {
            count.start();
            return count.trySetCount(count.getVersionedValue(), number);
        }
    }

    /** What is put in, and what comes out: a queue with a consumer, or without one. */
    private DistributedPriorityQueue<String> queue(QueueConsumer<String> consumer) throws Exception {
        QueueSerializer<String> serializer = new QueueSerializer<>() {
            @Override
            public byte[] serialize(String item) {
                return item.getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public String deserialize(byte[] bytes) {
                return new String(bytes, StandardCharsets.UTF_8);
            }
        };
        DistributedPriorityQueue<String> queue = QueueBuilder.builder(client, consumer, serializer, "/together/queue")
                .lockPath("/together/queue-locks")
                .buildPriorityQueue(0);
        queue.start();
        return queue;
    }

    private boolean put(String item) throws Exception {
        try (DistributedPriorityQueue<String> queue = queue(null)) {
            queue.put(item, item.length());
        }
        return true;
    }

    /** Prints what comes out, until the program ends. */
    private boolean consume() throws Exception {
        queue(new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                System.out.println("consumed " + item);
            }

            @Override
            public void stateChanged(CuratorFramework changed, ConnectionState state) {}
        });
        return true;
    }

    private boolean lead(String id) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, "/together/latch", id);
        latch.start();
        boolean leads = latch.await(PATIENCE_S, TimeUnit.SECONDS);
        latch.close();
        return leads;
    }

    private boolean step(String verb, String what) throws Exception {
        switch (verb) {
            case "try":
                return acquire(what, MOMENT_MS, TimeUnit.MILLISECONDS);
            case "take":
                return acquire(what, PATIENCE_S, TimeUnit.SECONDS);
            case "release":
                return release(what);
            case "revoke":
                return revoke(what);
            case "put":
                return put(what);
            case "consume":
                return consume();
            case "lead":
                return lead(what);
            case "add":
                return add(Integer.parseInt(what));
            case "set":
                return set(Integer.parseInt(what));
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] words) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(words[0], SESSION_MS, SESSION_MS, new RetryForever(100));
        client.start();
        Together together = new Together(client);
        // A lock belongs to a thread.
        ExecutorService thread = Executors.newSingleThreadExecutor();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] step = line.split(" ");
            thread.submit(() -> {
                String result;
                try {
                    result = together.step(step[1], step[2]) ? "yes" : "no";
                } catch (Exception failed) {
                    result = failed.toString();
                }
                System.out.println(step[0] + " " + result);
            });
        }
        thread.shutdown();
        thread.awaitTermination(PATIENCE_S, TimeUnit.SECONDS);
        client.close();
        System.exit(0);
    }
}
