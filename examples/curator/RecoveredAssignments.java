import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executor;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;

/** Finds the tasks that no present worker has, after the end of an earlier master. */
final class RecoveredAssignments {
    private final CuratorFramework client;
    private final Executor executor;

    /** Works on a thread of this executor, because it waits for answers. */
    RecoveredAssignments(CuratorFramework client, Executor executor) {
        this.client = client;
        this.executor = executor;
    }

    /** Moves the tasks of absent workers back to /tasks. The callback gets all waiting tasks. */
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
        // This program's server may be behind the server of the last master.
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
                // A master that first creates and then deletes ended between these steps.
                delete("/tasks/" + task);
            } else {
                tasks.add(task);
            }
        }
        Collections.sort(tasks);
        return tasks;
    }

    /** Moves the tasks of an absent worker back to /tasks, each in one transaction. Then removes its znode. */
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
                // The worker has finished it, or another master has moved it.
            }
        }
        delete(place);
    }

    private void delete(String path) throws Exception {
        try {
            client.delete().forPath(path);
        } catch (KeeperException.NoNodeException | KeeperException.NotEmptyException done) {
            // It is already deleted; or the worker has returned and has tasks.
        }
    }
}
