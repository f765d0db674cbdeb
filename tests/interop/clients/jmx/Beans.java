import com.sun.tools.attach.VirtualMachine;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Prints the attributes and operations of a ZooKeeper server's beans: a line each, with the bean's class, its name, and
 * the attribute's value.
 */
public class Beans {
    public static void main(String[] args) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(args[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : new TreeSet<>(server.queryNames(new ObjectName("org.apache.ZooKeeperService:*"), null))) {
                var info = server.getMBeanInfo(name);
                String bean = info.getClassName().replaceAll(".*\\.", "");
                for (MBeanAttributeInfo attribute : info.getAttributes()) {
                    String value;
                    try {
                        value = String.valueOf(server.getAttribute(name, attribute.getName()));
                    } catch (Exception error) {
                        value = "";
                    }
                    print("attribute", bean, attribute.getName(), name.getCanonicalName(), value);
                }
                for (MBeanOperationInfo operation : info.getOperations()) {
                    print("operation", bean, operation.getName(), name.getCanonicalName(), "");
                }
            }
        }
    }

    private static void print(String... fields) {
        System.out.println(String.join("\t", fields).replace('\n', ' '));
    }
}
