import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.solr.client.solrj.SolrQuery;
import org.apache.solr.client.solrj.SolrServerException;
import org.apache.solr.client.solrj.impl.CloudHttp2SolrClient;
import org.apache.solr.client.solrj.impl.CloudSolrClient;
import org.apache.solr.client.solrj.request.CollectionAdminRequest;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrInputDocument;
import org.apache.solr.common.cloud.SolrZkClient;
import org.apache.solr.common.cloud.ZkMaintenanceUtils;

/** An application of Solr: it adds documents all the time, makes collections when it is told to, and reads back what was acknowledged. */
public final class Work {
    private static final String NAME = "work";
    private static final int ALL = 1_000_000;

    private final CloudSolrClient client;
    private final BitSet acknowledged = new BitSet();
    private volatile boolean goesOn = true;

    private Work(CloudSolrClient client) {
        this.client = client;
    }

    private static SolrInputDocument document(int number) {
        SolrInputDocument document = new SolrInputDocument();
        document.setField("id", Integer.toString(number));
        return document;
    }

    private void make(String name) throws SolrServerException, IOException {
        CollectionAdminRequest.createCollection(name, NAME, 2, 2).process(client);
        
        client.add(name, document(0));
    }

    private void write() {
        try {
            for (int number = 1; goesOn; number++) {
                try {
                    client.add(NAME, document(number));
                    acknowledged.set(number);
                } catch (SolrServerException | IOException | RuntimeException e) {
                    System.out.println("refused: " + e);
                }
                Thread.sleep(5);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private BitSet read() throws SolrServerException, IOException {
        client.commit(NAME);
        BitSet seen = new BitSet();
        for (SolrDocument document : client.query(NAME, new SolrQuery("*:*").setFields("id").setRows(ALL)).getResults()) {
            seen.set(Integer.parseInt((String) document.getFieldValue("id")));
        }
        return seen;
    }

    public static void main(String[] words) throws Exception {
        try (SolrZkClient zooKeeper = new SolrZkClient.Builder()
                .withUrl(words[0]).withTimeout(30, TimeUnit.SECONDS).build()) {
            ZkMaintenanceUtils.uploadToZK(zooKeeper, Path.of(words[1]), "/configs/" + NAME, null);
        }
        List<String> servers = List.of(words[0].split(","));
        Work work = new Work(new CloudHttp2SolrClient.Builder(servers, Optional.empty()).build());
        work.make(NAME);
        Thread writing = new Thread(work::write);
        writing.start();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("check")) {
                work.goesOn = false;
                writing.join();
                BitSet lost = (BitSet) work.acknowledged.clone();
                lost.andNot(work.read());
                System.out.println("acknowledged " + work.acknowledged.cardinality() + ", lost " + lost.cardinality());
            } else {
                work.make(line);
                System.out.println("made " + line);
            }
        }
    }
}
