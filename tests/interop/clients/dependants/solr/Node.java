import java.util.Properties;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/** A node of Solr: PORT CONNECT-STRING HOME. */
public final class Node {
    public static void main(String[] words) throws Exception {
        System.setProperty("zkHost", words[1]);
        JettyConfig config = JettyConfig.builder().setPort(Integer.parseInt(words[0])).build();
        new JettySolrRunner(words[2], new Properties(), config).start();
        System.out.println("the node serves");
    }
}
