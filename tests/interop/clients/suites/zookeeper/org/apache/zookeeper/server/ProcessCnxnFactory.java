package org.apache.zookeeper.server;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import zebu.ServerProcess;

/**
 * Serves clients by a server in a process of its own, over the directories of the server object it was given. That
 * object is not started.
 */
public class ProcessCnxnFactory extends ServerCnxnFactory {
    private InetSocketAddress address;
    private int connectionsMax;
    private ServerProcess process;

    @Override
    public void configure(InetSocketAddress addr, int maxcc, int backlog, boolean secure) throws IOException {
        if (secure) {
            throw new IOException("no TLS here");
        }
        int port = addr.getPort() == 0 ? ServerProcess.freePort() : addr.getPort();
        address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        connectionsMax = maxcc;
    }

    @Override
    public void startup(ZooKeeperServer server, boolean startServer) throws IOException {
        setZooKeeperServer(server);
        Map<String, Object> config = new HashMap<>();
        // Its directories are those below, "version-2".
        File data = server.getTxnLogFactory().getSnapDir().getParentFile();
        config.put("dataDir", data);
        config.put("dataLogDir", server.getTxnLogFactory().getDataLogDir().getParentFile());
        config.put("tickTime", server.getTickTime());
        config.put("maxClientCnxns", Math.max(connectionsMax, 0));
        config.put("minSessionTimeout", server.getMinSessionTimeout());
        config.put("maxSessionTimeout", server.getMaxSessionTimeout());
        config.put("reconfigEnabled", QuorumPeerConfig.isReconfigEnabled());
        config.put("clientPort", address.getPort());
        process = ServerProcess.start(config, true);
        server.setZKDatabase(new ZKDatabase(server.getTxnLogFactory()));
    }

    @Override
    public void shutdown() {
        if (process != null) {
            process.stop();
            process = null;
        }
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {}

    @Override
    public int getLocalPort() {
        return address.getPort();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return Collections.emptyList();
    }

    @Override
    public void reconfigure(InetSocketAddress addr) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return connectionsMax;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int max) {
        connectionsMax = max;
    }

    @Override
    public int getSocketListenBacklog() {
        return -1;
    }

    @Override
    public void join() {}

    @Override
    public void start() {}

    @Override
    public void resetAllConnectionStats() {}

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return Collections.emptyList();
    }
}
