import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;

/** The start of both programs. */
final class Program {
    private static final int RETRY_MS = 100;
    private static final int SESSION_MS = 15000;

    private static final ACLProvider CREATOR_ONLY = new ACLProvider() {
        @Override
        public List<ACL> getDefaultAcl() {
            return ZooDefs.Ids.CREATOR_ALL_ACL;
        }

        @Override
        public List<ACL> getAclForPath(String path) {
            return ZooDefs.Ids.CREATOR_ALL_ACL;
        }
    };

    private Program() {}

    static void say(String line) {
        System.out.println(line);
    }

    /** Closes these objects, in this order, when the process must stop. */
    static void closeAtEnd(AutoCloseable... all) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (AutoCloseable each : all) {
                try {
                    each.close();
                } catch (Exception failure) {
                    System.err.println("close: " + failure);
                }
            }
        }));
    }

    /** An id that users see below /master. */
    static String id() {
        return Long.toHexString(ProcessHandle.current().pid());
    }

    /**
     * Opens a session and creates the top znodes of the example.
     *
     * <p>If a connection is lost, the client repeats the request, without limit. All requests here permit that.
     */
    static CuratorFramework open(String[] words) throws Exception {
        String auth = System.getenv("ZK_AUTH");
        if (words.length < 1 || words.length > 2 || auth == null) {
            System.err.println(
                    "usage: ZK_AUTH=NAME:PASSWORD java ... HOST:PORT[,HOST:PORT...][/CHROOT] [SESSION TIMEOUT IN MS]");
            System.exit(2);
        }
        int sessionMs = words.length == 2 ? Integer.parseInt(words[1]) : SESSION_MS;
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(words[0])
                .sessionTimeoutMs(sessionMs)
                .connectionTimeoutMs(sessionMs)
                .retryPolicy(new RetryForever(RETRY_MS))
                .authorization("digest", auth.getBytes(StandardCharsets.UTF_8))
                .aclProvider(CREATOR_ONLY)
                .build();
        client.start();
        for (String path : List.of("/workers", "/assign", "/tasks", "/status")) {
            try {
                client.create().forPath(path, new byte[0]);
            } catch (KeeperException.NodeExistsException prepared) {
                // An earlier master has created it.
            }
        }
        return client;
    }
}
