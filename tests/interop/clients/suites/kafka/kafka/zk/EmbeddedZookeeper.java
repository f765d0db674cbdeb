package kafka.zk;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.util.Map;
import org.apache.kafka.common.utils.Utils;
import zebu.ServerProcess;

/** Where Kafka's test harness would run a server inside the program, there is one in a process of its own. */
public class EmbeddedZookeeper implements Closeable {
    private static final int TICK_MS = 800;

    private final File folder;
    private final ServerProcess server;

    public EmbeddedZookeeper() {
        try {
            folder = Files.createTempDirectory("suite").toFile();
            server = ServerProcess.start(
                    Map.of("dataDir", folder, "tickTime", TICK_MS, "maxClientCnxns", 0), true);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public int port() {
        return server.port();
    }

    public int tickTime() {
        return TICK_MS;
    }

    public void shutdown() {
        server.stop();
        try {
            Utils.delete(folder);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        shutdown();
    }
}
