package zebu;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * A server in a process of its own, in place of one that a suite would run in its own process.
 *
 * The property zebu.suite.server has the words of the command, separated by line ends; the configuration's name follows
 * them. Properties that a test sets for the server go to it with -D.
 */
public final class ServerProcess {
    private static final long PATIENCE_MS = 60_000;
    /** Ends with the server. A second process waits for a signal's name; when this program is gone, so is the server. */
    private static final String KEEPER = "exec 3<&0; \"$@\" </dev/null 3<&- & server=$!;"
            + " { read -r signal <&3; kill -\"${signal:-KILL}\" $server; } & reader=$!; wait $server; kill $reader";

    private final Process keeper;
    private final int port;

    private ServerProcess(Process keeper, int port) {
        this.keeper = keeper;
        this.port = port;
    }

    /** A port that nobody listens on. */
    public static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    /**
     * Starts a server. A client port that is missing or 0 becomes a free one.
     *
     * @param waits whether to wait until clients are served; a member of an ensemble may have to wait for the others
     */
    public static ServerProcess start(Map<?, ?> settings, boolean waits) throws IOException {
        Properties config = new Properties();
        settings.forEach((key, value) -> config.setProperty(key.toString(), value.toString()));
        int port = Integer.parseInt(config.getProperty("clientPort", "0"));
        if (port == 0) {
            port = freePort();
        }
        config.setProperty("clientPort", Integer.toString(port));
        config.setProperty("admin.enableServer", "false");
        if (System.getProperty("zookeeper.4lw.commands.whitelist") == null) {
            config.setProperty("4lw.commands.whitelist", "*");
        }

        Path folder = Path.of(config.getProperty("dataDir"));
        Files.createDirectories(folder);
        Path file = folder.resolve("suite.cfg");
        List<String> lines = new ArrayList<>();
        new TreeMap<>(config).forEach((key, value) -> lines.add(key + "=" + value));
        Files.write(file, lines);

        List<String> command = new ArrayList<>(List.of("sh", "-c", KEEPER, "sh"));
        command.addAll(List.of(System.getProperty("zebu.suite.server").split("\n")));
        List<String> flags = new ArrayList<>();
        for (String name : new TreeMap<>(System.getProperties()).keySet().toArray(new String[0])) {
            if (isForServers(name)) {
                flags.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        // Java wants them before the name of a class, ours anywhere.
        boolean isJava = command.get(4).endsWith("java");
        command.addAll(isJava ? 5 : command.size(), flags);
        command.add(file.toString());
        ProcessBuilder builder = new ProcessBuilder(command);
        String log = System.getProperty("zebu.suite.log");
        File output = log == null ? new File("/dev/null") : new File(log);
        builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(output));
        ServerProcess server = new ServerProcess(builder.start(), port);
        if (waits) {
            server.awaitClients();
        }
        return server;
    }

    private static boolean isForServers(String name) {
        boolean isClients = name.startsWith("zookeeper.client")
                || name.startsWith("zookeeper.sasl.client")
                || name.equals("zookeeper.clientCnxnSocket")
                || name.equals("zookeeper.serverCnxnFactory")
                || name.startsWith("zookeeper.jmx.")
                || name.equals("zookeeper.disableAutoWatchReset");
        return name.equals("readonlymode.enabled")
                || name.equals("jute.maxbuffer")
                || name.startsWith("znode.")
                || (name.startsWith("zookeeper.") && !isClients);
    }

    public int port() {
        return port;
    }

    public boolean isAlive() {
        return keeper.isAlive();
    }

    public boolean answers(String word) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1000);
            socket.setSoTimeout(5000);
            OutputStream out = socket.getOutputStream();
            out.write(word.getBytes(StandardCharsets.US_ASCII));
            out.flush();
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return !answer.isEmpty() && !answer.contains("not currently serving");
        } catch (IOException e) {
            return false;
        }
    }

    public void awaitClients() throws IOException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!answers("srvr")) {
            if (!keeper.isAlive() || System.nanoTime() > end) {
                kill();
                throw new IOException("the server at port " + port + " does not serve");
            }
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                kill();
                throw new IOException(e);
            }
        }
    }

    /** Ends the server in an orderly way. */
    public void stop() {
        end("TERM");
    }

    public void kill() {
        end("KILL");
    }

    private synchronized void end(String signal) {
        boolean isInterrupted = false;
        try {
            keeper.getOutputStream().write((signal + "\n").getBytes(StandardCharsets.US_ASCII));
            keeper.getOutputStream().flush();
        } catch (IOException e) {
            // It ended before.
        }
        while (true) {
            try {
                keeper.waitFor();
                break;
            } catch (InterruptedException e) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
