/*
 * Creates a topic of Kafka, and writes records into it as lines on the standard input say; kafka.py starts and feeds it.
 *
 * Compiled when it starts, in memory, by Janino (which comes with Spark): so there are no lambdas and no type arguments.
 * "RATE COUNT" writes so many records, RATE of them in a second, 0: as fast as it goes; then it prints "done" and how many
 * there are. Values are the record's number and when it was written, in microseconds since 1970, keys one of fifty.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class Feed {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("linger.ms", "0");
        settings.put("acks", "1");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        AdminClient admin = AdminClient.create(settings);
        int partitions = Integer.parseInt(words[2]);
        admin.createTopics(Collections.singleton(new NewTopic(words[1], partitions, (short) 1))).all().get();
        admin.close();
        KafkaProducer producer = new KafkaProducer(settings);
        producer.partitionsFor(words[1]);
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        long number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] asked = line.split(" ");
            double rate = Double.parseDouble(asked[0]);
            long count = Long.parseLong(asked[1]);
            long began = System.nanoTime();
            for (long at = 0; at < count; at++, number++) {
                if (rate > 0) {
                    long due = began + (long) (at * 1e9 / rate), now = System.nanoTime();
                    if (due > now) Thread.sleep((due - now) / 1000000, (int) ((due - now) % 1000000));
                }
                Instant now = Instant.now();
                String value = number + " " + (now.getEpochSecond() * 1000000 + now.getNano() / 1000);
                byte[] key = ("S" + number % 50).getBytes(StandardCharsets.UTF_8);
                Integer partition = Integer.valueOf((int) (number % partitions));
                producer.send(new ProducerRecord(words[1], partition, key, value.getBytes(StandardCharsets.UTF_8)));
            }
            producer.flush();
            System.out.println("done " + number);
        }
        producer.close();
    }
}
