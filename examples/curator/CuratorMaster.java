import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListener;
import org.apache.curator.framework.state.ConnectionState;

/**
 * A master for as long as one call lasts: with Curator's LeaderSelector. Ends with its mastership, or with its
 * session; whoever starts it again begins with what the servers know.
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

    /** Gets in line. */
    void runForMaster() {
        selector.start();
        Program.say("in line");
    }

    /** Waits until this is the master, or will never be. */
    boolean awaitLeadership() throws InterruptedException {
        leadership.await();
        return isLeader;
    }

    /** Waits until mastership is to be released, and returns what the program is to exit with. */
    int awaitClose() throws InterruptedException {
        closing.await();
        return status;
    }

    private void fail() {
        status = 1;
        closing.countDown();
    }

    /** Mastership lasts until this returns. */
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
            // Perhaps the servers will still know the session. Until then nothing can be asked for.
            case SUSPENDED -> Program.say("suspended");
            case LOST -> {
                Program.say("session over");
                closing.countDown();
                leadership.countDown();
            }
            // The client asks again for what was lost with the last connection, and the caches for what they missed.
            case CONNECTED, RECONNECTED, READ_ONLY -> { }
        }
    }

    /** Releases mastership, or leaves the line. */
    @Override
    public void close() {
        closing.countDown();
        leadership.countDown();
        thread.shutdown();
        try {
            // So that the next one need not wait for the end of the session.
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
