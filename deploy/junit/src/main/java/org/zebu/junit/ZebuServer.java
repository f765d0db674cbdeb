package org.zebu.junit;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * A server of its own on a free port of the loopback interface, with its data in a temporary directory.
 *
 * <p>The program is the one that the system property {@code zebu.binary} names, or the environment variable
 * {@code ZEBU_BIN}, or {@code zebu} on the path.
 */
public final class ZebuServer implements AutoCloseable {
    /** A server that does not serve by then is broken. */
    private static final long PATIENCE_MILLIS = 30_000;

    private static final int ATTEMPTS = 5;

    private final Path directory;
    private final Map<String, String> settings;
    private final Thread atExit = new Thread(this::end);
    private int port;
    private Process process;

    private ZebuServer(Map<String, String> settings) throws IOException {
        this.settings = new TreeMap<>(settings);
        this.directory = Files.createTempDirectory("zebu-junit");
    }

    /** Starts a server, and returns when it serves. */
    public static ZebuServer start() {
        return start(Map.of());
    }

    /** Starts a server with these settings of {@code zoo.cfg} besides. */
    public static ZebuServer start(Map<String, String> settings) {
        try {
            ZebuServer server = new ZebuServer(settings);
            try {
                server.launchSomewhere();
            } catch (IOException | RuntimeException failure) {
                server.close();
                throw failure;
            }
            Runtime.getRuntime().addShutdownHook(server.atExit);
            return server;
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** What a client connects to. */
    public String connectString() {
        return "127.0.0.1:" + port;
    }

    /** The port for clients. */
    public int port() {
        return port;
    }

    /** Whether the process runs. */
    public boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** Stops the server and keeps its data: clients lose their connections, not their sessions. */
    public void stop() {
        end();
    }

    /** Starts the server again, on the same port and with the same data. */
    public void restart() {
        end();
        try {
            if (!launch()) {
                throw new IOException("zebu ended at once:\n" + log());
            }
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** What the server has said. */
    public String log() {
        try {
            return Files.readString(directory.resolve("log"), StandardCharsets.UTF_8);
        } catch (IOException missing) {
            return "";
        }
    }

    /** Ends the server and deletes its data. */
    @Override
    public void close() {
        end();
        try {
            Runtime.getRuntime().removeShutdownHook(atExit);
        } catch (IllegalStateException endingAnyway) {
            // The virtual machine is ending.
        }
        try {
            Files.walkFileTree(directory, new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes about) throws IOException {
                    Files.delete(file);
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path folder, IOException failure) throws IOException {
                    Files.delete(folder);
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** Another program may take a port between the moment it was free and the moment the server wants it. */
    private void launchSomewhere() throws IOException {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = free.getLocalPort();
            }
            if (launch()) {
                return;
            }
        }
        throw new IOException("zebu ended at once:\n" + log());
    }

    /** Returns whether the server serves; {@code false} if it has ended. */
    private boolean launch() throws IOException {
        List<String> command = new ArrayList<>(List.of(binary(), "server"));
        Path config = directory.resolve("zoo.cfg");
        StringBuilder lines = new StringBuilder();
        Map<String, String> all = new TreeMap<>(Map.of("tickTime", "2000", "admin.enableServer", "false"));
        all.putAll(settings);
        all.put("dataDir", directory.resolve("data").toString());
        all.put("clientPort", Integer.toString(port));
        all.put("clientPortAddress", "127.0.0.1");
        all.forEach((name, value) -> lines.append(name).append('=').append(value).append('\n'));
        Files.writeString(config, lines, StandardCharsets.UTF_8);
        command.add(config.toString());
        process = new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(directory.resolve("log").toFile()))
                .start();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MILLIS);
        while (System.nanoTime() < end) {
            if (!process.isAlive()) {
                return false;
            }
            if (serves() && process.isAlive()) {
                return true;
            }
            pause();
        }
        end();
        throw new IOException("zebu does not serve:\n" + log());
    }

    private boolean serves() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            socket.setSoTimeout(1000);
            socket.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
            byte[] answer = socket.getInputStream().readAllBytes();
            return new String(answer, StandardCharsets.UTF_8).contains("Mode:");
        } catch (IOException notYet) {
            return false;
        }
    }

    private static void pause() {
        try {
            Thread.sleep(2);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while a server starts", interrupted);
        }
    }

    private synchronized void end() {
        Process ending = process;
        if (ending == null) {
            return;
        }
        process = null;
        ending.destroy();
        try {
            if (!ending.waitFor(10, TimeUnit.SECONDS)) {
                ending.destroyForcibly().waitFor();
            }
        } catch (InterruptedException interrupted) {
            ending.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    private static String binary() {
        String named = System.getProperty("zebu.binary", System.getenv("ZEBU_BIN"));
        return named == null || named.isEmpty() ? "zebu" : new File(named).getAbsolutePath();
    }
}
