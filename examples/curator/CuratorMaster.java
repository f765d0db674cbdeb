import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListener;
import org.apache.curator.framework.state.ConnectionState;

/**
 * A master with Curator's LeaderSelector: it leads during one call. The program ends with its mastership, or with its
 * session. When it is started again, it continues from the znodes.
 */
public final class CuratorMaster implements LeaderSelectorListener, AutoCloseable {
    private static final int RELEASE_SECONDS = 2;

    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final LeaderSelector selector;
    private final CountDownLatch leadership = new CountDownLatch(1);
    private final CountDownLatch closing = new CountDownLatch(1);
    private volatile boolean isLeader;
    private volatile int status;

    CuratorMaster(CuratorFramework client, String id) {
        selector = new LeaderSelector(client, "/master", thread, this);
        selector.setId(id);
    }

    /** Joins the line of candidates. */
    void runForMaster() {
        selector.start();
        Program.say("in line");
    }

    /** Waits until this program leads, or can no longer become the leader. */
    boolean awaitLeadership() throws InterruptedException {
        leadership.await();
        return isLeader;
    }

    /** Waits until the mastership must be released. Returns the exit code of the program. */
    int awaitClose() throws InterruptedException {
        closing.await();
        return status;
    }

    private void fail() {
        status = 1;
        closing.countDown();
    }

    /** The mastership lasts until this method returns. */
    @Override
    public void takeLeadership(CuratorFramework client) throws Exception {
        try (Assignments assignments = new Assignments(client, this::fail)) {
            assignments.begin();
            isLeader = true;
            leadership.countDown();
            closing.await();
        }
    }

    @Override
    public void stateChanged(CuratorFramework client, ConnectionState state) {
        switch (state) {
            // The servers may still have the session. Until the next connection, no request can be sent.
            case SUSPENDED -> Program.say("suspended");
            case LOST -> {
                Program.say("session over");
                closing.countDown();
                leadership.countDown();
            }
            // The client repeats requests that were lost with the last connection, and the caches read again.
            case CONNECTED, RECONNECTED, READ_ONLY -> { }
        }
    }

    /** Releases the mastership, or leaves the line. */
    @Override
    public void close() {
        closing.countDown();
        leadership.countDown();
        thread.shutdown();
        try {
            // So that the next master does not have to wait for the end of the session.
            if (isLeader) {
                thread.awaitTermination(RELEASE_SECONDS, TimeUnit.SECONDS);
            }
        } catch (InterruptedException impatient) {
            Thread.currentThread().interrupt();
        }
        selector.close();
    }

    public static void main(String[] words) throws Exception {
        CuratorFramework client = Program.open(words);
        CuratorMaster master = new CuratorMaster(client, Program.id());
        Program.closeAtEnd(master, client);
        master.runForMaster();
        if (master.awaitLeadership()) {
            Program.say("leading");
        }
        System.exit(master.awaitClose());
    }
}
