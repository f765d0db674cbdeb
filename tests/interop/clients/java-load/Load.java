import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Writes as long as its input is open, and prints what was acknowledged: `created PATH` for every creation, and `done`
 * at the end, when its ephemeral is still there. A lost session ends it with `lost`.
 */
final class Load {
    private static final CountDownLatch closed = new CountDownLatch(1);

    private interface Call<T> {
        T run() throws Exception;
    }

    public static void main(String[] words) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException closedBadly) {
                // The same as its end.
            }
            closed.countDown();
        });
        input.setDaemon(true);
        input.start();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(words[0], 30_000, (WatchedEvent event) -> {
            switch (event.getState()) {
                case SyncConnected -> connected.countDown();
                case Expired -> {
                    System.out.println("lost");
                    Runtime.getRuntime().halt(1);
                }
                default -> { }
            }
        });
        connected.await();
        again(() -> client.create("/java", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        again(() -> client.create("/java/ephemeral", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL));
        for (int count = 0; closed.getCount() > 0; count++) {
            String path = "/java/" + count;
            try {
                client.create(path, path.getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                System.out.println("created " + path);
            } catch (KeeperException unknown) {
                // Perhaps it is there, perhaps not.
            }
            Thread.sleep(20);
        }
        if (again(() -> client.exists("/java/ephemeral", false)) == null) {
            throw new AssertionError("the ephemeral of a session that lives is gone");
        }
        client.close();
        System.out.println("done");
    }

    /** Calls until there is an answer. */
    private static <T> T again(Call<T> call) throws Exception {
        while (true) {
            try {
                return call.run();
            } catch (KeeperException.NodeExistsException there) {
                return null;
            } catch (KeeperException unknown) {
                Thread.sleep(20);
            }
        }
    }
}
