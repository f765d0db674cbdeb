import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;

/** An application of Kafka: it produces all the time, makes topics when it is told to, and reads back what was acknowledged. */
public final class Work {
    private static final String TOPIC = "work";
    private static final int REPLICAS = 2;

    private final Properties common = new Properties();
    private final BitSet acknowledged = new BitSet();
    private volatile boolean goesOn = true;

    private Work(String brokers) {
        common.put("bootstrap.servers", brokers);
    }

    private Properties with(Map<String, ?> more) {
        Properties all = new Properties();
        all.putAll(common);
        all.putAll(more);
        return all;
    }

    private void make(String topic) throws Exception {
        try (Admin admin = Admin.create(common)) {
            NewTopic wanted = new NewTopic(topic, 3, (short) REPLICAS);
            admin.createTopics(List.of(wanted)).all().get(60, TimeUnit.SECONDS);
        }
        try (KafkaProducer<Integer, Integer> producer = producer()) {
            producer.send(new ProducerRecord<>(topic, 0, 0)).get(60, TimeUnit.SECONDS);
        }
    }

    private KafkaProducer<Integer, Integer> producer() {
        Properties all = with(Map.of("acks", "all", "delivery.timeout.ms", "120000"));
        return new KafkaProducer<>(all, new IntegerSerializer(), new IntegerSerializer());
    }

    private void produce() {
        try (KafkaProducer<Integer, Integer> producer = producer()) {
            for (int number = 0; goesOn; number++) {
                int sent = number;
                producer.send(new ProducerRecord<>(TOPIC, sent, sent), (where, error) -> {
                    if (error == null) {
                        synchronized (acknowledged) {
                            acknowledged.set(sent);
                        }
                    } else {
                        System.out.println("refused: " + error);
                    }
                });
                Thread.sleep(2);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private BitSet read() {
        BitSet seen = new BitSet();
        Properties all = with(Map.of("auto.offset.reset", "earliest"));
        try (KafkaConsumer<Integer, Integer> consumer =
                new KafkaConsumer<>(all, new IntegerDeserializer(), new IntegerDeserializer())) {
            List<TopicPartition> parts = consumer.partitionsFor(TOPIC).stream()
                    .map((PartitionInfo part) -> new TopicPartition(part.topic(), part.partition())).toList();
            consumer.assign(parts);
            consumer.seekToBeginning(parts);
            Map<TopicPartition, Long> ends = consumer.endOffsets(parts);
            while (parts.stream().anyMatch(part -> consumer.position(part) < ends.get(part))) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> seen.set(record.value()));
            }
        }
        return seen;
    }

    public static void main(String[] words) throws Exception {
        Work work = new Work(words[0]);
        work.make(TOPIC);
        Thread producing = new Thread(work::produce);
        producing.start();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("check")) {
                work.goesOn = false;
                producing.join();
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
