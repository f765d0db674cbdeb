package org.apache.curator.test;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import zebu.ServerProcess;

/** Where Curator's test harness would run a server inside the program, there is one in a process of its own. */
public class ZooKeeperServerEmbeddedAdapter implements ZooKeeperMainFace {
    /** Members that run, by the lines that name them all. */
    private static final Map<Map<String, String>, List<ServerProcess>> ENSEMBLES = new HashMap<>();

    private volatile ServerProcess server;

    @Override
    public void start(QuorumPeerConfigBuilder builder) {
        try {
            Properties config = builder.buildProperties();
            Map<String, String> members = new TreeMap<>();
            for (String name : config.stringPropertyNames()) {
                if (name.startsWith("server.")) {
                    members.put(name, config.getProperty(name));
                }
            }
            // A switch of the original's class.
            if (QuorumPeerConfig.isReconfigEnabled()) {
                config.setProperty("reconfigEnabled", "true");
            }
            server = ServerProcess.start(config, members.isEmpty());
            if (!members.isEmpty()) {
                joined(members, server);
            }
        } catch (Exception e) {
            throw new FailedServerStartException(e);
        }
    }

    /**
     * With its last member an ensemble is complete, and begins when all of them serve: tests reconfigure it at once, and
     * count on all.
     */
    private static synchronized void joined(Map<String, String> members, ServerProcess server) throws IOException {
        List<ServerProcess> all = ENSEMBLES.computeIfAbsent(members, any -> new ArrayList<>());
        all.removeIf(other -> !other.isAlive());
        all.add(server);
        if (all.size() == members.size()) {
            for (ServerProcess member : all) {
                member.awaitClients();
            }
        }
    }

    @Override
    public int getClientPort() {
        return server.port();
    }

    @Override
    public void kill() {
        if (server != null) {
            server.kill();
        }
    }

    @Override
    public void close() {
        if (server != null) {
            server.stop();
        }
    }
}
