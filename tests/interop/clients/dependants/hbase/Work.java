import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.BitSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/** An application of HBase: it writes rows all the time, makes tables when it is told to, and reads back what was acknowledged. */
public final class Work {
    private static final byte[] FAMILY = Bytes.toBytes("f");
    private static final TableName TABLE = TableName.valueOf("work");

    private final Connection connection;
    private final BitSet acknowledged = new BitSet();
    private volatile boolean goesOn = true;

    private Work(Connection connection) {
        this.connection = connection;
    }

    private static Put row(int number) {
        return new Put(Bytes.toBytes(number)).addColumn(FAMILY, FAMILY, Bytes.toBytes(number));
    }

    private void make(TableName name) throws IOException {
        try (Admin admin = connection.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(name)
                    .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY)).build());
        }
        try (Table table = connection.getTable(name)) {
            table.put(row(0));
        }
    }

    private void write() {
        try (Table table = connection.getTable(TABLE)) {
            for (int number = 1; goesOn; number++) {
                try {
                    table.put(row(number));
                    acknowledged.set(number);
                } catch (IOException e) {
                    System.out.println("refused: " + e);
                }
                Thread.sleep(5);
            }
        } catch (IOException | InterruptedException e) {
            System.out.println("ended: " + e);
        }
    }

    private BitSet read() throws IOException {
        BitSet seen = new BitSet();
        try (Table table = connection.getTable(TABLE); ResultScanner rows = table.getScanner(new Scan())) {
            for (Result row : rows) {
                seen.set(Bytes.toInt(row.getValue(FAMILY, FAMILY)));
            }
        }
        return seen;
    }

    public static void main(String[] words) throws Exception {
        Configuration configuration = HBaseConfiguration.create();
        Work work = new Work(ConnectionFactory.createConnection(configuration));
        work.make(TABLE);
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
                work.make(TableName.valueOf(line));
                System.out.println("made " + line);
            }
        }
    }
}
