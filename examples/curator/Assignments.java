import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheEvent;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheListener;
import org.apache.curator.utils.ZKPaths;
import org.apache.zookeeper.KeeperException;

/**
 * The work of a master while it leads: assigns tasks, and takes them back from workers that have gone.
 *
 * <p>One transaction moves a task, so the task is always in exactly one place. The transaction also checks that the
 * worker exists: no task is assigned to a worker after the notification of its end. Both are also true for a former
 * master that does not know yet that it has lost the mastership.
 *
 * <p>One thread uses the fields of this class. Other threads wait for answers.
 */
final class Assignments implements AutoCloseable {
    private static final ThreadFactory DAEMONS = task -> {
        Thread thread = new Thread(task, "assignments");
        thread.setDaemon(true);
        return thread;
    };

    private final CuratorFramework client;
    private final Runnable failed;
    private final CuratorCache workersCache;
    private final CuratorCache tasksCache;
    private final ExecutorService single = Executors.newSingleThreadExecutor(DAEMONS);
    private final ExecutorService waiting = Executors.newCachedThreadPool(DAEMONS);
    private final Executor thread = unlessClosed(single);
    private final RecoveredAssignments recovered;

    private final List<String> workers = new ArrayList<>();
    private final Queue<Task> withoutWorker = new ArrayDeque<>();

    /** A task to assign, and a callback for its assignment. */
    private record Task(String name, Runnable assigned) {}

    /** A request that is sent without waiting for its answer. */
    private interface Request {
        void send() throws Exception;
    }

    /** Does nothing before {@link #begin}. {@code failed} is called if the tasks cannot be read. */
    Assignments(CuratorFramework client, Runnable failed) {
        this.client = client;
        this.failed = failed;
        recovered = new RecoveredAssignments(client, unlessClosed(waiting));
        workersCache = cache("/workers", (curator, event) -> workerEvent(event));
        tasksCache = cache("/tasks", (curator, event) -> taskEvent(event));
    }

    private static Executor unlessClosed(ExecutorService executor) {
        return task -> {
            try {
                executor.execute(task);
            } catch (RejectedExecutionException closed) {
                // Later events are the next master's work.
            }
        };
    }

    private CuratorCache cache(String path, PathChildrenCacheListener listener) {
        CuratorCache cache = CuratorCache.build(client, path);
        cache.listenable().addListener(
                CuratorCacheListener.builder().forPathChildrenCache(path, client, listener).build(), thread);
        return cache;
    }

    /**
     * Starts with the list of workers. Then it looks for the tasks of workers that have gone: the end of a worker after
     * that is reported as an event. Last, it assigns new tasks.
     */
    void begin() {
        workersCache.start();
    }

    private void workerEvent(PathChildrenCacheEvent event) {
        switch (event.getType()) {
            case CHILD_ADDED -> {
                String worker = name(event);
                if (!workers.contains(worker)) {
                    workers.add(worker);
                }
                List<Task> tasks = new ArrayList<>(withoutWorker);
                withoutWorker.clear();
                tasks.forEach(this::assign);
            }
            case CHILD_REMOVED -> {
                String worker = name(event);
                workers.remove(worker);
                Program.say(worker + " is gone");
                getAbsentWorkerTasks(worker);
            }
            case INITIALIZED -> recovered.recover((rc, tasks) -> thread.execute(() -> assignRecovered(rc, tasks)));
            default -> { }
        }
    }

    private void taskEvent(PathChildrenCacheEvent event) {
        if (event.getType() == PathChildrenCacheEvent.Type.CHILD_ADDED) {
            assignTask(name(event), () -> { });
        }
    }

    private static String name(PathChildrenCacheEvent event) {
        return ZKPaths.getNodeFromPath(event.getData().getPath());
    }

    private void assignRecovered(int rc, List<String> tasks) {
        if (rc != RecoveryCallback.OK) {
            failed.run();
            return;
        }
        Program.say(tasks.size() + " left from before");
        CountDownLatch recovery = new CountDownLatch(tasks.size());
        for (String task : tasks) {
            assignTask(task, recovery::countDown);
        }
        unlessClosed(waiting).execute(() -> {
            try {
                recovery.await();
            } catch (InterruptedException closed) {
                return;
            }
            Program.say("new tasks from now on");
            thread.execute(tasksCache::start);
        });
    }

    private void getAbsentWorkerTasks(String worker) {
        unlessClosed(waiting).execute(() -> {
            try {
                recovered.giveBack(worker);
            } catch (InterruptedException closed) {
                Thread.currentThread().interrupt();
            } catch (Exception failure) {
                System.err.println("take back from " + worker + ": " + failure);
                failed.run();
            }
        });
    }

    private void assignTask(String name, Runnable assigned) {
        assign(new Task(name, assigned));
    }

    private void assign(Task task) {
        if (workers.isEmpty()) {
            withoutWorker.add(task);
            return;
        }
        ask(() -> client.getData().inBackground((curator, event) -> gotTask(event, task), thread).forPath(waits(task)));
    }

    private void gotTask(CuratorEvent event, Task task) {
        switch (KeeperException.Code.get(event.getResultCode())) {
            case OK -> move(task, event.getData());
            case NONODE -> task.assigned.run();
            default -> again(event, task);
        }
    }

    private void move(Task task, byte[] data) {
        if (workers.isEmpty()) {
            withoutWorker.add(task);
            return;
        }
        String worker = workers.get(ThreadLocalRandom.current().nextInt(workers.size()));
        ask(() -> client.transaction().inBackground((curator, event) -> moved(event, task, worker), thread)
                .forOperations(
                        client.transactionOp().check().forPath("/workers/" + worker),
                        client.transactionOp().create().forPath("/assign/" + worker + "/" + task.name, data),
                        client.transactionOp().delete().forPath(waits(task))));
    }

    private void moved(CuratorEvent event, Task task, String worker) {
        KeeperException.Code code = KeeperException.Code.get(event.getResultCode());
        if (code == KeeperException.Code.OK) {
            Program.say(task.name + " goes to " + worker);
            task.assigned.run();
            return;
        }
        int failed = failedOperation(event.getOpResults());
        if (failed == 0 && code == KeeperException.Code.NONODE) {
            // The notification of the worker's end has not arrived yet.
            workers.remove(worker);
            assign(task);
        } else if (failed == 1 && code == KeeperException.Code.NODEEXISTS) {
            // The worker already has the task: a master created it there and ended before the deletion.
            ask(() -> client.delete().inBackground((curator, done) -> task.assigned.run(), thread)
                    .forPath(waits(task)));
        } else if (failed == 1 && code == KeeperException.Code.NONODE) {
            // The worker's znode below /assign was removed after its earlier end, while it returned.
            ask(() -> client.create().inBackground((curator, done) -> assign(task), thread)
                    .forPath("/assign/" + worker));
        } else if (failed == 2 && code == KeeperException.Code.NONODE) {
            // An earlier attempt without an answer has assigned it, or another master has.
            task.assigned.run();
        } else {
            again(event, task);
        }
    }

    /** The index of the operation at which a transaction failed, or -1 if it is unknown. */
    private static int failedOperation(List<CuratorTransactionResult> results) {
        for (int at = 0; results != null && at < results.size(); at++) {
            if (results.get(at).getError() != 0) {
                return at;
            }
        }
        return -1;
    }

    private void again(CuratorEvent event, Task task) {
        switch (KeeperException.Code.get(event.getResultCode())) {
            case CONNECTIONLOSS, OPERATIONTIMEOUT, SESSIONEXPIRED -> assign(task);
            default -> {
                // The task stays below /tasks. Other tasks do not wait for it.
                System.err.println("assign " + task.name + ": " + event.getResultCode());
                task.assigned.run();
            }
        }
    }

    private static String waits(Task task) {
        return "/tasks/" + task.name;
    }

    private void ask(Request request) {
        try {
            request.send();
        } catch (Exception failure) {
            if (!single.isShutdown()) {
                System.err.println("ask: " + failure);
                failed.run();
            }
        }
    }

    /** Assigns no further tasks. Requests that are already sent may still be executed. */
    @Override
    public void close() {
        single.shutdownNow();
        waiting.shutdownNow();
        workersCache.close();
        tasksCache.close();
    }
}
