package zebu;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs test classes and prints one line for each test: "::passed", "::failed" or "::skipped", its name and, of one that
 * failed, why. A word "-CLASS#METHOD" leaves a test out, "CLASS#METHOD" runs one alone.
 */
public final class RunSuite {
    private RunSuite() {}

    public static void main(String[] words) {
        List<DiscoverySelector> selectors = new ArrayList<>();
        Set<String> without = new HashSet<>();
        Set<String> only = new HashSet<>();
        for (String word : words) {
            if (word.startsWith("-")) {
                without.add(word.substring(1));
                continue;
            }
            String[] parts = word.split("#");
            selectors.add(DiscoverySelectors.selectClass(parts[0]));
            if (parts.length == 2) {
                only.add(word);
            }
        }
        PostDiscoveryFilter filter = descriptor -> {
            String name = methodName(descriptor.getSource().orElse(null), descriptor);
            if (name == null) {
                return FilterResult.included("no test");
            }
            boolean isWanted = !without.contains(name) && (only.isEmpty() || only.contains(name));
            return FilterResult.includedIf(isWanted);
        };
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(selectors)
                .filters(filter)
                .configurationParameter("junit.jupiter.execution.timeout.testable.method.default", "300 s")
                .build();
        Launcher launcher = LauncherFactory.create();
        launcher.execute(request, new Teller());
        System.out.println("::end");
        System.out.flush();
        // Some tests leave threads behind.
        Runtime.getRuntime().halt(0);
    }

    private static String methodName(Object source, TestDescriptor descriptor) {
        if (!(source instanceof MethodSource)) {
            return null;
        }
        // The class that was asked for, which may only inherit the method.
        String className = ((MethodSource) source).getClassName();
        for (var segment : descriptor.getUniqueId().getSegments()) {
            if (segment.getType().equals("class")) {
                className = segment.getValue();
            }
        }
        return className + "#" + ((MethodSource) source).getMethodName();
    }

    private static final class Teller implements TestExecutionListener {
        private static String name(TestIdentifier test) {
            StringBuilder name = new StringBuilder();
            for (var segment : test.getUniqueIdObject().getSegments()) {
                switch (segment.getType()) {
                    case "class" -> name.append(segment.getValue());
                    case "method", "test-template", "test-factory" ->
                        name.append('#').append(segment.getValue().replaceAll("\\(.*", ""));
                    case "test-template-invocation", "dynamic-test" -> name.append(segment.getValue().replace("#", "[")).append("]");
                    default -> { }
                }
            }
            return name.toString();
        }

        private static synchronized void say(String what, TestIdentifier test, String more) {
            System.out.println("::" + what + " " + name(test) + " " + more.replace('\n', ' '));
            System.out.flush();
        }

        private long start;

        @Override
        public void executionStarted(TestIdentifier test) {
            start = System.nanoTime();
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            say("skipped", test, reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean isOk = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            String took = (System.nanoTime() - start) / 1_000_000 + "ms";
            if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
                say("skipped", test, String.valueOf(result.getThrowable().orElse(null)));
            } else if (!isOk) {
                Throwable why = result.getThrowable().orElse(null);
                StringBuilder text = new StringBuilder(took + " " + why);
                if (why != null) {
                    for (StackTraceElement frame : why.getStackTrace()) {
                        if (!frame.getClassName().startsWith("org.junit") && !frame.getClassName().startsWith("java.")) {
                            text.append(" at ").append(frame);
                        }
                    }
                }
                say("failed", test, text.substring(0, Math.min(text.length(), 2000)));
            } else if (test.isTest()) {
                say("passed", test, took);
            }
        }
    }
}
