package org.zebu.junit;

import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives the tests of a class a server of their own, as a parameter of the type {@link ZebuServer}.
 *
 * <pre>{@code
 * @ExtendWith(ZebuExtension.class)
 * class OurTest {
 *     @Test
 *     void works(ZebuServer zebu) throws Exception {
 *         try (ZooKeeper client = new ZooKeeper(zebu.connectString(), 10_000, event -> {})) {
 *             ...
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p>The server starts before the first test of the class and ends after the last one.
 */
public final class ZebuExtension implements BeforeAllCallback, ParameterResolver {
    private static final ExtensionContext.Namespace NAMESPACE =
            ExtensionContext.Namespace.create(ZebuExtension.class);

    /** What JUnit closes when the tests of a class are over. */
    private static final class Running implements ExtensionContext.Store.CloseableResource {
        private final ZebuServer server = ZebuServer.start();

        @Override
        public void close() {
            server.close();
        }
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        context.getStore(NAMESPACE).getOrComputeIfAbsent(Running.class, key -> new Running(), Running.class);
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == ZebuServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getStore(NAMESPACE)
                .getOrComputeIfAbsent(Running.class, key -> new Running(), Running.class)
                .server;
    }
}
