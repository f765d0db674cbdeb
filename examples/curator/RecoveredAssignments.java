import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executor;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;

/** Finds the tasks that nobody has, after whatever masters there were before. */
final class RecoveredAssignments {
    private final CuratorFramework client;
    private final Executor executor;

    /** Looks on a thread of this executor, since it waits for answers. */
    RecoveredAssignments(CuratorFramework client, Executor executor) {
        this.client = client;
        this.executor = executor;
    }

    /** Takes from absent workers what they have left, and tells the callback of all tasks that wait. */
    void recover(RecoveryCallback callback) {
        executor.execute(() -> {
            List<String> tasks;
            try {
                tasks = unassigned();
            } catch (Exception failure) {
                System.err.println("recover: " + failure);
                callback.recoveryComplete(RecoveryCallback.FAILED, List.of());
                return;
            }
            callback.recoveryComplete(RecoveryCallback.OK, tasks);
        });
    }

    private List<String> unassigned() throws Exception {
        // The server asked may be behind the one that the last master wrote to.
        client.sync().forPath("/assign");
        Set<String> present = new HashSet<>(client.getChildren().forPath("/workers"));
        Set<String> taken = new HashSet<>(client.getChildren().forPath("/status"));
        for (String worker : client.getChildren().forPath("/assign")) {
            if (present.contains(worker)) {
                taken.addAll(client.getChildren().forPath("/assign/" + worker));
            } else {
                giveBack(worker);
            }
        }
        List<String> tasks = new ArrayList<>();
        for (String task : client.getChildren().forPath("/tasks")) {
            if (taken.contains(task)) {
                // A master that creates first and deletes later died in between.
                delete("/tasks/" + task);
            } else {
                tasks.add(task);
            }
        }
        Collections.sort(tasks);
        return tasks;
    }

    /** Moves what an absent worker was to do back to /tasks, each task in one transaction, and removes its place. */
    void giveBack(String worker) throws Exception {
        String place = "/assign/" + worker;
        List<String> tasks;
        try {
            tasks = client.getChildren().forPath(place);
        } catch (KeeperException.NoNodeException nothing) {
            return;
        }
        for (String task : tasks) {
            String from = place + "/" + task;
            try {
                byte[] data = client.getData().forPath(from);
                client.transaction().forOperations(
                        client.transactionOp().create().forPath("/tasks/" + task, data),
                        client.transactionOp().delete().forPath(from));
                Program.say(task + " comes back from " + worker);
            } catch (KeeperException.NodeExistsException waits) {
                delete(from);
            } catch (KeeperException.NoNodeException gone) {
                // The worker has finished it, or somebody else has moved it.
            }
        }
        delete(place);
    }

    private void delete(String path) throws Exception {
        try {
            client.delete().forPath(path);
        } catch (KeeperException.NoNodeException | KeeperException.NotEmptyException done) {
            // It was done already; or the worker is back and has work.
        }
    }
}
