import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;

/** A master with Curator's LeaderLatch: notifications begin and end its mastership. It can lead several times. */
public final class CuratorMasterLatch implements LeaderLatchListener, AutoCloseable {
    private final CuratorFramework client;
    private final LeaderLatch latch;
    private final CountDownLatch closing = new CountDownLatch(1);
    private Assignments assignments;
    private volatile int status;

    CuratorMasterLatch(CuratorFramework client, String id) {
        this.client = client;
        latch = new LeaderLatch(client, "/master", id);
    }

    /** Joins the line of candidates. */
    void runForMaster() throws Exception {
        latch.addListener(this);
        latch.start();
        Program.say("in line");
    }

    /** Waits until this is closed, or cannot continue. Returns the exit code of the program. */
    int awaitClose() throws InterruptedException {
        closing.await();
        return status;
    }

    private void fail() {
        status = 1;
        closing.countDown();
    }

    @Override
    public synchronized void isLeader() {
        Program.say("leading");
        assignments = new Assignments(client, this::fail);
        assignments.begin();
    }

    /** Also called when the connection is suspended: another program may lead before there is a new connection. */
    @Override
    public synchronized void notLeader() {
        if (assignments != null) {
            Program.say("leading no more");
            assignments.close();
            assignments = null;
        }
    }

    /** Releases the mastership, or leaves the line. */
    @Override
    public void close() throws IOException {
        closing.countDown();
        latch.close(LeaderLatch.CloseMode.NOTIFY_LEADER);
    }

    public static void main(String[] words) throws Exception {
        CuratorFramework client = Program.open(words);
        CuratorMasterLatch master = new CuratorMasterLatch(client, Program.id());
        Program.closeAtEnd(master, client);
        master.runForMaster();
        System.exit(master.awaitClose());
    }
}
