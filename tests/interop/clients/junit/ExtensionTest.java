import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.extension.ExtendWith;
import org.zebu.junit.ZebuExtension;
import org.zebu.junit.ZebuServer;

/** The extension as a program of others uses it. */
@ExtendWith(ZebuExtension.class)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ExtensionTest {
    private static int first;

    private static ZooKeeper connect(ZebuServer zebu) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(zebu.connectString(), 30_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(30, TimeUnit.SECONDS)) {
            throw new AssertionError("no connection:\n" + zebu.log());
        }
        return client;
    }

    private static void create(ZooKeeper client, String path) throws Exception {
        client.create(path, new byte[] {1}, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    @Test
    @Order(1)
    void aTestHasAServer(ZebuServer zebu) throws Exception {
        first = zebu.port();
        try (ZooKeeper client = connect(zebu)) {
            create(client, "/a");
        }
    }

    @Test
    @Order(2)
    void theTestsOfAClassShareIt(ZebuServer zebu) throws Exception {
        assertEquals(first, zebu.port());
        try (ZooKeeper client = connect(zebu)) {
            assertNotNull(client.exists("/a", false));
        }
    }

    @Test
    @Order(3)
    void aRestartKeepsTheData(ZebuServer zebu) throws Exception {
        zebu.stop();
        assertFalse(zebu.isRunning());
        zebu.restart();
        assertEquals(first, zebu.port());
        try (ZooKeeper client = connect(zebu)) {
            assertArrayEquals(new byte[] {1}, client.getData("/a", false, null));
        }
    }

    @Test
    @Order(4)
    void anotherServerIsAnotherOne(ZebuServer zebu) throws Exception {
        try (ZebuServer other = ZebuServer.start(Map.of("jute.maxbuffer", "1000", "enforce.auth.enabled", "false"));
                ZooKeeper client = connect(other)) {
            assertNotEquals(zebu.port(), other.port());
            assertNull(client.exists("/a", false));
            byte[] large = new byte[5000];
            assertThrows(KeeperException.ConnectionLossException.class,
                    () -> client.create("/b", large, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        }
    }

    @Test
    @Order(5)
    void whatDoesNotStartSaysWhy() {
        RuntimeException failure =
                assertThrows(RuntimeException.class, () -> ZebuServer.start(Map.of("tickTime", "words")));
        assertFalse(failure.getMessage().isEmpty());
    }
}
