/*
 * Publishes the rows of a query in real-time mode, each as it comes: what tasks run that spark.live.write has started.
 *
 * Compiled when a query is started, in memory, by Janino (which Spark has): so there are no lambdas and no type
 * arguments. No `try` has both `catch` and `finally`: Janino 3.1.9 runs the latter twice where the former ends well, and
 * never where it throws. It speaks the publisher port (docs/reference/protocol.md, section 6), and writes MessagePack by
 * itself. The columns of its rows are those of spark/live/columns.py, in that order.
 */

package fastpath.live;

import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.LocalDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.util.TaskCompletionListener;

public class LiveWriter extends ForeachWriter {
    static final int VERSION = 1;
    static final int FIELDS_MAX = 256;
    static final int FRAME_BYTES_MAX = 4 << 20;
    static final int FRAME_ROWS_MAX = 2000;
    static final int NAME_CHARS_MAX = 256;

    // The columns of a row; behind them the parts of the subject, then the fields or the one map that has them.
    static final int TOPIC = 0, PARTITION = 1, OFFSET = 2, CONTENT = 3, RETAINED = 4, REMOVED = 5, QOS = 6, CLOSURE = 7,
        REPLY_TO = 8, AS_OF = 9, AS_OF_VERSION = 10, PARTS = 11;

    /** What may be given by name; all texts but the lists. */
    final HashMap settings;

    transient Map lines;
    transient Letters letters;
    transient String query, random;
    transient long batch;
    transient int task;

    /** `settings` are those that spark/live/writing.py makes. */
    public LiveWriter(Map settings) {
        this.settings = new HashMap();
        for (Iterator each = settings.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            Object value = entry.getValue();
            if (value instanceof List) value = new ArrayList((List) value);
            if (value instanceof Map) value = new HashMap((Map) value);
            this.settings.put(entry.getKey(), value);
        }
    }

    String text(String name) {
        Object value = settings.get(name);
        return value == null ? "" : value.toString();
    }

    List list(String name) {
        return (List) settings.get(name);
    }

    long number(String name) {
        return Long.parseLong(text(name));
    }

    public boolean open(long partition, long epoch) {
        TaskContext context = TaskContext.get();
        String known = context == null ? null : context.getLocalProperty("sql.streaming.queryId");
        query = known == null ? text("query") : known;
        batch = epoch;
        task = (int) partition;
        byte[] bytes = new byte[12];
        new SecureRandom().nextBytes(bytes);
        random = hex(bytes);
        lines = new HashMap();
        letters = text("dead_letter").isEmpty() ? null
            : new Letters(text("dead_letter"), query + "-" + epoch + "-" + partition + "-" + random + ".jsonl",
                (Map) settings.get("hadoop"));
        if (context != null) {
            context.addTaskCompletionListener(new TaskCompletionListener() {
                public void onTaskCompletion(TaskContext ended) {
                    drop();
                }
            });
        }
        return true;
    }

    public void process(Object value) {
        Row row = (Row) value;
        boolean once = "true".equals(text("once"));
        String topic = once ? row.getString(TOPIC) : "";
        int partition = once ? row.getInt(PARTITION) : task;
        String place = topic + ":" + partition;
        Line line = (Line) lines.get(place);
        if (line == null) {
            line = new Line(this, once ? name(query, topic, partition) : query + ":" + batch + ":" + task + ":" + random);
            lines.put(place, line);
        }
        long number = once ? row.getLong(OFFSET) + 1 : line.last + 1;
        if (number <= line.last) {
            throw new IllegalStateException("offset " + (number - 1) + " of " + topic + ", partition " + partition
                + ", came after offset " + (line.last - 1)
                + ": each record can be one row alone, and in its order. Give delivery='at_least_once'");
        }
        line.last = number;
        Message message = new Message(this, row);
        if (message.why != null) {
            refuse(message.letter(), number, topic, partition, "invalid", message.why);
            return;
        }
        line.add(message, number, topic, partition);
    }

    public void close(Throwable error) {
        try {
            try {
                if (error == null) {
                    for (Iterator each = lines.values().iterator(); each.hasNext();) ((Line) each.next()).finish();
                    if (letters != null) letters.close();
                }
            } finally {
                drop();
            }
        } catch (IOException failure) {
            throw new RuntimeException(failure.getMessage(), failure);
        }
    }

    void drop() {
        for (Iterator each = lines.values().iterator(); each.hasNext();) ((Line) each.next()).abort();
        if (letters != null) letters.drop();
    }

    /** The publisher's name of a partition of Kafka's: the same whenever the query runs. */
    static String name(String query, String topic, int partition) {
        String name = query + ":" + topic + ":" + partition;
        // Behind it a number may come. A topic has up to 249 characters.
        return name.length() <= NAME_CHARS_MAX - 20 ? name : query + ":" + digest(topic) + ":" + partition;
    }

    /** A row that stands in no message, or is wanted nowhere: to the dead letters, or an error. */
    void refuse(Map letter, long number, String topic, int partition, String code, String reason) {
        boolean once = !topic.isEmpty();
        if (letters == null) {
            String where = once ? "the row of offset " + (number - 1) + " of " + topic + ", partition " + partition
                : "row " + number + " of partition " + partition;
            Object subject = letter.get("subject");
            throw new RuntimeException(where + (subject == null ? "" : ", subject " + subject) + ", was refused"
                + (subject == null ? ", " : " by the sidecar, ") + code + ": " + reason);
        }
        Map all = new LinkedHashMap();
        all.put("transaction", query);
        all.put("batch", Long.valueOf(batch));
        all.put("partition", Long.valueOf(partition));
        all.put("row", Long.valueOf(number));
        if (once) {
            all.put("topic", topic);
            all.put("offset", Long.valueOf(number - 1));
        }
        all.putAll(letter);
        all.put("code", code);
        all.put("reason", reason);
        all.put("time", Long.valueOf(System.currentTimeMillis()));
        try {
            letters.add(all);
        } catch (IOException failure) {
            throw new RuntimeException("the dead letters cannot be written: " + failure.getMessage(), failure);
        }
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < bytes.length; at++) {
            text.append(Character.forDigit((bytes[at] >> 4) & 15, 16)).append(Character.forDigit(bytes[at] & 15, 16));
        }
        return text.toString();
    }

    static String digest(String text) {
        try {
            byte[] whole = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return hex(Arrays.copyOf(whole, 16));
        } catch (java.security.NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** What a row says: subject, content, fields and meta (6.2); `why` it is refused, where it makes no message. */
    static class Message {
        String subject, why;
        Object content;
        final Map fields = new LinkedHashMap();
        final Map meta = new LinkedHashMap();

        Message(LiveWriter writer, Row row) {
            List parts = writer.list("parts");
            subject(writer, row, parts);
            boolean removed = !row.isNullAt(REMOVED) && row.getBoolean(REMOVED);
            content = removed ? null : value(row.get(CONTENT));
            if (content == null) content = "";
            if (!removed) fields(writer, row, PARTS + parts.size());
            if (fields.size() > FIELDS_MAX && why == null) {
                why = "it has " + fields.size() + " fields, a message has at most " + FIELDS_MAX;
            }
            meta(writer, row, removed);
        }

        void subject(LiveWriter writer, Row row, List parts) {
            List template = writer.list("template");
            if (template == null) {
                subject = row.isNullAt(PARTS) ? null : row.getString(PARTS);
                if (subject == null) why = "the subject is null";
                return;
            }
            StringBuilder text = new StringBuilder((String) template.get(0));
            for (int at = 0; at < parts.size(); at++) {
                Object part = value(row.get(PARTS + at));
                if (!(part instanceof String) || ((String) part).isEmpty() || ((String) part).indexOf('/') >= 0) {
                    why = "its column `" + parts.get(at) + "` is " + (part instanceof String ? "'" + part + "'" : part)
                        + ", which cannot stand in the subject '" + writer.text("subject")
                        + "': it must be text without a slash";
                    return;
                }
                text.append((String) part).append((String) template.get(at + 1));
            }
            subject = text.toString();
        }

        void fields(LiveWriter writer, Row row, int from) {
            List names = writer.list("fields");
            if (names != null) {
                for (int at = 0; at < names.size(); at++) field((String) names.get(at), row.get(from + at));
            } else if (!row.isNullAt(from)) {
                for (Iterator each = row.getJavaMap(from).entrySet().iterator(); each.hasNext();) {
                    Map.Entry entry = (Map.Entry) each.next();
                    field((String) entry.getKey(), entry.getValue());
                }
            }
        }

        void field(String name, Object value) {
            Object text = value(value);
            if (text != null) fields.put(name, text);
        }

        void meta(LiveWriter writer, Row row, boolean removed) {
            if (!removed && !row.isNullAt(RETAINED) && !row.getBoolean(RETAINED)) meta.put("retained", Boolean.FALSE);
            String qos = row.isNullAt(QOS) ? null : row.getString(QOS);
            if (qos != null && !qos.equals("guaranteed") && !qos.equals("standard") && why == null) {
                why = "its qos is '" + qos + "', not one of guaranteed, standard";
            }
            if (qos != null) meta.put("qos", qos);
            String reply = row.isNullAt(REPLY_TO) ? "" : row.getString(REPLY_TO);
            if (!removed && !reply.isEmpty()) meta.put("reply_to", reply);
            if (!row.isNullAt(CLOSURE)) meta.put("closure", row.getString(CLOSURE));
            if ("true".equals(writer.text("as_of"))) {
                Map as_of = new LinkedHashMap();
                if (!row.isNullAt(AS_OF)) as_of.put("time", row.get(AS_OF));
                if (!row.isNullAt(AS_OF_VERSION)) as_of.put("version", Long.valueOf(row.getLong(AS_OF_VERSION)));
                as_of.put("batch", Long.valueOf(writer.batch));
                if (!writer.text("job").isEmpty()) as_of.put("job", writer.text("job"));
                meta.put("as_of", as_of);
            }
            if (removed) meta.put("removed", Boolean.TRUE);
        }

        /** What dead letters have of it. */
        Map letter() {
            return letter(subject, content, fields);
        }

        static Map letter(Object subject, Object content, Object fields) {
            Map letter = new LinkedHashMap();
            letter.put("subject", subject);
            letter.put("content", content);
            letter.put("fields", fields == null ? new LinkedHashMap() : fields);
            return letter;
        }

        /** Text and binary as they are, all else as the text that the sink makes of it (spark/sink/values.py). */
        static Object value(Object value) {
            if (value == null || value instanceof String || value instanceof byte[]) return value;
            if (value instanceof Double) return Numbers.text(((Double) value).doubleValue(), false);
            if (value instanceof Float) return Numbers.text(((Float) value).doubleValue(), true);
            if (value instanceof BigDecimal) return ((BigDecimal) value).toPlainString();
            if (value instanceof LocalDateTime) {
                LocalDateTime time = (LocalDateTime) value;
                String seconds = time.withNano(0).toString();
                if (seconds.length() == 16) seconds += ":00";
                int micros = time.getNano() / 1000;
                return micros == 0 ? seconds : seconds + "." + String.valueOf(1000000 + micros).substring(1);
            }
            return value.toString();
        }
    }

    /** Floating point as Python writes it: the shortest text that is read as the same number. */
    static class Numbers {
        static String text(double number, boolean single) {
            if (Double.isNaN(number)) return "nan";
            if (Double.isInfinite(number)) return number > 0 ? "inf" : "-inf";
            if (number == 0) return 1 / number < 0 ? "-0.0" : "0.0";
            BigDecimal shortest = shortest(Math.abs(number), single).stripTrailingZeros();
            String digits = shortest.unscaledValue().toString();
            int exponent = digits.length() - shortest.scale() - 1;
            String sign = number < 0 ? "-" : "";
            if (exponent < -4 || exponent >= 16) {
                String size = (Math.abs(exponent) < 10 ? "0" : "") + Math.abs(exponent);
                return sign + digits.charAt(0) + (digits.length() > 1 ? "." + digits.substring(1) : "") + "e"
                    + (exponent < 0 ? "-" : "+") + size;
            }
            String plain = shortest.toPlainString();
            return sign + plain + (plain.indexOf('.') < 0 ? ".0" : "");
        }

        static BigDecimal shortest(double number, boolean single) {
            BigDecimal exact = new BigDecimal(number);
            boolean normal = number >= (single ? Float.MIN_NORMAL : Double.MIN_NORMAL);
            // A text of so many digits is always read as the same number: none of fewer digits has to be looked for.
            int sure = single ? 6 : 15;
            for (int digits = normal ? sure : 1; digits < (single ? 9 : 17); digits++) {
                BigDecimal near = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
                if (same(near, number, single)) return near;
                near = exact.round(new MathContext(digits, RoundingMode.UP));
                if (same(near, number, single)) return near;
            }
            return exact.round(new MathContext(single ? 9 : 17, RoundingMode.HALF_EVEN));
        }

        static boolean same(BigDecimal text, double number, boolean single) {
            return single ? text.floatValue() == (float) number : text.doubleValue() == number;
        }
    }

    /** MessagePack, as far as the publisher port needs it; integers in their shortest form. */
    public static class Pack {
        byte[] bytes = new byte[512];
        int size;

        /** All that was written. */
        public byte[] made() {
            return Arrays.copyOf(bytes, size);
        }

        void room(int more) {
            if (size + more > bytes.length) bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, size + more));
        }

        void octet(int value) {
            room(1);
            bytes[size++] = (byte) value;
        }

        void big(long value, int octets) {
            room(octets);
            for (int at = octets - 1; at >= 0; at--) bytes[size++] = (byte) (value >>> (8 * at));
        }

        void raw(byte[] from, int start, int end) {
            room(end - start);
            System.arraycopy(from, start, bytes, size, end - start);
            size += end - start;
        }

        void sized(int length, int fix, int fixed, int one, int two, int four) {
            if (length < fixed) octet(fix | length);
            else if (one != 0 && length < 1 << 8) { octet(one); big(length, 1); }
            else if (length < 1 << 16) { octet(two); big(length, 2); }
            else { octet(four); big(length, 4); }
        }

        void array(int length) {
            sized(length, 0x90, 16, 0, 0xdc, 0xdd);
        }

        void map(int length) {
            sized(length, 0x80, 16, 0, 0xde, 0xdf);
        }

        void integer(long value) {
            if (value >= 0) {
                if (value < 128) octet((int) value);
                else if (value < 1L << 8) { octet(0xcc); big(value, 1); }
                else if (value < 1L << 16) { octet(0xcd); big(value, 2); }
                else if (value < 1L << 32) { octet(0xce); big(value, 4); }
                else { octet(0xcf); big(value, 8); }
            } else if (value >= -32) octet((int) value);
            else if (value >= -(1L << 7)) { octet(0xd0); big(value, 1); }
            else if (value >= -(1L << 15)) { octet(0xd1); big(value, 2); }
            else if (value >= -(1L << 31)) { octet(0xd2); big(value, 4); }
            else { octet(0xd3); big(value, 8); }
        }

        public void any(Object value) {
            if (value == null) octet(0xc0);
            else if (value instanceof Boolean) octet(((Boolean) value).booleanValue() ? 0xc3 : 0xc2);
            else if (value instanceof byte[]) {
                byte[] binary = (byte[]) value;
                sized(binary.length, 0, 0, 0xc4, 0xc5, 0xc6);
                raw(binary, 0, binary.length);
            } else if (value instanceof Number) integer(((Number) value).longValue());
            else if (value instanceof Map) {
                map(((Map) value).size());
                for (Iterator each = ((Map) value).entrySet().iterator(); each.hasNext();) {
                    Map.Entry entry = (Map.Entry) each.next();
                    any(entry.getKey());
                    any(entry.getValue());
                }
            } else if (value instanceof List) {
                array(((List) value).size());
                for (Iterator each = ((List) value).iterator(); each.hasNext();) any(each.next());
            } else {
                byte[] text = value.toString().getBytes(StandardCharsets.UTF_8);
                sized(text.length, 0xa0, 32, 0xd9, 0xda, 0xdb);
                raw(text, 0, text.length);
            }
        }

        /** A row of a batch; answers where the number begins, which is the last that it has. */
        int row(Message message, long number) {
            array(4);
            any(message.subject);
            any(message.content);
            if (message.fields.isEmpty()) octet(0xc0);
            else any(message.fields);
            map(message.meta.size() + 1);
            for (Iterator each = message.meta.entrySet().iterator(); each.hasNext();) {
                Map.Entry entry = (Map.Entry) each.next();
                any(entry.getKey());
                any(entry.getValue());
            }
            any("id");
            int at = size;
            integer(number);
            return at;
        }
    }

    /** Reads MessagePack: numbers as Long, text as String, the others as Boolean, byte[], List, LinkedHashMap. */
    public static class Unpack {
        final byte[] bytes;
        int at;

        public Unpack(byte[] bytes, int at) {
            this.bytes = bytes;
            this.at = at;
        }

        long big(int octets) {
            long value = 0;
            for (int each = 0; each < octets; each++) value = value << 8 | bytes[at++] & 255;
            return value;
        }

        public Object next() throws IOException {
            int kind = bytes[at++] & 255;
            if (kind < 0x80) return Long.valueOf(kind);
            if (kind < 0x90) return map(kind & 15);
            if (kind < 0xa0) return array(kind & 15);
            if (kind < 0xc0) return text(kind & 31);
            if (kind >= 0xe0) return Long.valueOf((byte) kind);
            switch (kind) {
                case 0xc0: return null;
                case 0xc2: return Boolean.FALSE;
                case 0xc3: return Boolean.TRUE;
                case 0xc4: return binary((int) big(1));
                case 0xc5: return binary((int) big(2));
                case 0xc6: return binary((int) big(4));
                case 0xca: return Double.valueOf(Float.intBitsToFloat((int) big(4)));
                case 0xcb: return Double.valueOf(Double.longBitsToDouble(big(8)));
                case 0xcc: return Long.valueOf(big(1));
                case 0xcd: return Long.valueOf(big(2));
                case 0xce: return Long.valueOf(big(4));
                case 0xcf: return Long.valueOf(big(8));
                case 0xd0: return Long.valueOf((byte) big(1));
                case 0xd1: return Long.valueOf((short) big(2));
                case 0xd2: return Long.valueOf((int) big(4));
                case 0xd3: return Long.valueOf(big(8));
                case 0xd9: return text((int) big(1));
                case 0xda: return text((int) big(2));
                case 0xdb: return text((int) big(4));
                case 0xdc: return array((int) big(2));
                case 0xdd: return array((int) big(4));
                case 0xde: return map((int) big(2));
                case 0xdf: return map((int) big(4));
                default: throw new IOException("what answers is no publisher port: octet " + kind);
            }
        }

        String text(int length) {
            at += length;
            return new String(bytes, at - length, length, StandardCharsets.UTF_8);
        }

        byte[] binary(int length) {
            at += length;
            return Arrays.copyOfRange(bytes, at - length, at);
        }

        List array(int length) throws IOException {
            List values = new ArrayList(Math.min(length, bytes.length));
            for (int each = 0; each < length; each++) values.add(next());
            return values;
        }

        Map map(int length) throws IOException {
            Map values = new LinkedHashMap();
            for (int each = 0; each < length; each++) {
                Object key = next();
                values.put(key, next());
            }
            return values;
        }
    }

    /** Some rows on their way: encoded one after the other, each with its number. */
    static class Frame {
        final Pack rows = new Pack();
        int[] ends = new int[16], ids = new int[16];
        long[] numbers = new long[16];
        int count;
        long since, batch;

        void add(byte[] from, int start, int id, int end, long number) {
            if (count == ends.length) {
                ends = Arrays.copyOf(ends, 2 * count);
                ids = Arrays.copyOf(ids, 2 * count);
                numbers = Arrays.copyOf(numbers, 2 * count);
            }
            if (count == 0) since = System.nanoTime();
            ids[count] = rows.size + id - start;
            rows.raw(from, start, end);
            ends[count] = rows.size;
            numbers[count++] = number;
        }

        void add(Frame other, int index) {
            add(other.rows.bytes, other.start(index), other.ids[index], other.ends[index], other.numbers[index]);
        }

        int start(int index) {
            return index == 0 ? 0 : ends[index - 1];
        }

        int size(int index) {
            return ends[index] - start(index);
        }

        /** The frame of the protocol, with its length in front. */
        Pack packet() {
            Pack head = new Pack();
            head.array(3);
            head.any("batch");
            head.integer(batch);
            head.array(count);
            Pack whole = new Pack();
            whole.big(head.size + rows.size, 4);
            whole.raw(head.bytes, 0, head.size);
            whole.raw(rows.bytes, 0, rows.size);
            return whole;
        }
    }

    /** A connection to the publisher port, after its welcome. */
    static class Link {
        final Socket socket;
        final OutputStream out;
        final InputStream in;
        byte[] buffer = new byte[1 << 14];
        int filled, window = 1;
        volatile long heard = System.nanoTime();

        Link(LiveWriter writer, int index, String name, SSLContext[] context) throws IOException, Rejected {
            String host = (String) writer.list("hosts").get(index);
            int port = ((Number) writer.list("ports").get(index)).intValue();
            int timeout = (int) writer.number("timeout_ms");
            Socket plain = new Socket();
            Socket made = plain;
            try {
                plain.connect(new InetSocketAddress(host, port), timeout);
                plain.setTcpNoDelay(true);
                plain.setSoTimeout(timeout);
                if (((Boolean) writer.list("tls").get(index)).booleanValue()) {
                    if (context[0] == null) context[0] = trusting(writer.text("ca_file"));
                    SSLSocket secure = (SSLSocket) context[0].getSocketFactory().createSocket(plain, host, port, true);
                    made = secure;
                    SSLParameters parameters = secure.getSSLParameters();
                    parameters.setEndpointIdentificationAlgorithm("HTTPS");
                    secure.setSSLParameters(parameters);
                    secure.startHandshake();
                }
                socket = made;
                out = made.getOutputStream();
                in = made.getInputStream();
                greet(writer, name);
            } catch (IOException error) {
                quietly(made);
                throw error;
            } catch (Rejected error) {
                quietly(made);
                throw error;
            }
        }

        void greet(LiveWriter writer, String name) throws IOException, Rejected {
            Map hello = new LinkedHashMap();
            hello.put("version", Long.valueOf(VERSION));
            if (!writer.text("token").isEmpty()) hello.put("token", writer.text("token"));
            hello.put("publisher", name);
            hello.put("client", "spark/1");
            Pack body = new Pack();
            body.array(2);
            body.any("hello");
            body.any(hello);
            Pack whole = new Pack();
            whole.big(body.size, 4);
            whole.raw(body.bytes, 0, body.size);
            write(whole);
            List frame = read();
            while (frame == null) frame = read();
            check(frame);
            if (!"welcome".equals(frame.get(0))) throw new IOException("what answers is no publisher port");
            Map welcome = (Map) frame.get(1);
            if (((Number) welcome.get("version")).longValue() != VERSION) {
                throw new Rejected("the sidecar speaks version " + welcome.get("version"));
            }
            Object allowed = welcome.get("window");
            window = (int) Math.min(writer.number("window"), allowed == null ? 1 : ((Number) allowed).longValue());
        }

        void write(Pack whole) throws IOException {
            out.write(whole.bytes, 0, whole.size);
            out.flush();
        }

        /** The next frame; null when nothing more came within the socket's timeout, or only a part of one. */
        List read() throws IOException {
            while (true) {
                int size = filled < 4 ? -1 : (int) new Unpack(buffer, 0).big(4);
                if (filled >= 4 && (size < 0 || size > 1 << 30)) throw new IOException("what answers is no publisher port");
                if (size >= 0 && filled - 4 >= size) {
                    List frame;
                    try {
                        frame = (List) new Unpack(buffer, 4).next();
                    } catch (RuntimeException error) {  // no array, or one that is cut off
                        throw new IOException("what answers is no publisher port");
                    }
                    filled -= 4 + size;
                    System.arraycopy(buffer, 4 + size, buffer, 0, filled);
                    return frame;
                }
                if (filled == buffer.length) buffer = Arrays.copyOf(buffer, 2 * filled);
                int count;
                try {
                    count = in.read(buffer, filled, buffer.length - filled);
                } catch (SocketTimeoutException silence) {
                    return null;
                }
                if (count < 0) throw new IOException("the server closed the connection");
                filled += count;
                heard = System.nanoTime();
            }
        }

        /** Raises what a frame `close` says: Rejected where another connection would be of no use (7). */
        static void check(List frame) throws IOException, Rejected {
            if (!"close".equals(frame.get(0))) return;
            long code = ((Number) frame.get(1)).longValue();
            String why = code + " " + frame.get(2);
            boolean again = code >= 4000 && code <= 4499 && code != 4007 || code >= 1000 && code < 1016 && code != 1002
                && code != 1007 && code != 1009;
            if (again) throw new IOException(why);
            throw new Rejected("the sidecar refused the publisher, " + why);
        }

        static SSLContext trusting(String file) throws IOException, Rejected {
            try {
                SSLContext context = SSLContext.getInstance("TLS");
                if (file.isEmpty()) {
                    context.init(null, null, null);
                    return context;
                }
                KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
                store.load(null, null);
                InputStream in = new FileInputStream(file);
                try {
                    Iterator each = CertificateFactory.getInstance("X.509").generateCertificates(in).iterator();
                    for (int at = 0; each.hasNext(); at++) store.setCertificateEntry("ca" + at, (Certificate) each.next());
                } finally {
                    in.close();
                }
                TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                trust.init(store);
                context.init(null, trust.getTrustManagers(), null);
                return context;
            } catch (Exception error) {
                throw new Rejected("option 'ca_file' '" + file + "': " + error.getMessage());
            }
        }

        static void quietly(Socket socket) {
            try {
                socket.close();
            } catch (IOException ignored) {
                // it is of no use any more
            }
        }
    }

    /** Trying again would be of no use. */
    static class Rejected extends Exception {
        Rejected(String message) {
            super(message);
        }
    }

    /**
     * The rows of one publisher's name: gathered into small frames, sent, acknowledged, and sent again over another
     * connection where one is lost. One thread sends, one for each connection reads; `add` and `finish` are the task's.
     */
    static class Line implements Runnable {
        static final long PING_NANOS = TimeUnit.SECONDS.toNanos(10);
        static final long PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 2000;
        static final int READ_MS = 500;

        final LiveWriter writer;
        final String name;
        final int frameBytes, addresses;
        final long linger, buffer, timeout, retry;
        final ReentrantLock lock = new ReentrantLock();
        final Condition changed = lock.newCondition(), settled = lock.newCondition();
        final ArrayDeque queue = new ArrayDeque(), sent = new ArrayDeque(), held = new ArrayDeque(), late = new ArrayDeque();
        final SSLContext[] tls = new SSLContext[1];
        final Random draw = new Random();
        String topic = "";
        int partition;
        long last;
        Frame filling = new Frame();
        long bytes, rows, batches, waitingSince, troubleSince, pause = PAUSE_MIN_MS;
        boolean finishing, over, pinged, elsewhere;
        int index, failures;
        RuntimeException failure;
        Link link;
        String lost, why = "";

        Line(LiveWriter writer, String name) {
            this.writer = writer;
            this.name = name;
            frameBytes = (int) writer.number("frame_bytes");
            linger = TimeUnit.MICROSECONDS.toNanos(writer.number("linger_us"));
            buffer = writer.number("buffer_bytes");
            timeout = TimeUnit.MILLISECONDS.toNanos(writer.number("timeout_ms"));
            retry = TimeUnit.MILLISECONDS.toNanos(writer.number("retry_ms"));
            addresses = writer.list("hosts").size();
            index = writer.task % addresses;
            start(this, "sends");
        }

        void start(Runnable run, String what) {
            Thread thread = new Thread(run, "fastpath-live-" + what);
            thread.setDaemon(true);
            thread.start();
        }

        /** Take a row; waits while too much is not acknowledged yet. */
        void add(Message message, long number, String topic, int partition) {
            Pack row = new Pack();
            int id = row.row(message, number);
            if (row.size > FRAME_BYTES_MAX - 64) {
                String reason = row.size + " bytes do not fit a frame of " + FRAME_BYTES_MAX + " bytes";
                writer.refuse(message.letter(), number, topic, partition, "too_large", reason);
                return;
            }
            try {
                lock.lock();
                try {
                    this.topic = topic;
                    this.partition = partition;
                    while (failure == null && bytes > 0 && bytes + row.size > buffer) settled.await();
                    check();
                    if (filling.rows.size + row.size > FRAME_BYTES_MAX - 64) next();
                    filling.add(row.bytes, 0, id, row.size, number);
                    bytes += row.size;
                    rows++;
                    boolean full = filling.rows.size >= frameBytes || filling.count >= FRAME_ROWS_MAX;
                    if (full) next();
                    if (full || filling.count == 1) changed.signal();
                } finally {
                    lock.unlock();
                }
            } catch (InterruptedException stop) {
                interrupted(stop);
            }
        }

        static void interrupted(InterruptedException stop) {
            Thread.currentThread().interrupt();
            throw new RuntimeException("interrupted while waiting for the sidecar", stop);
        }

        void next() {
            if (filling.count > 0) queue.addLast(filling);
            filling = new Frame();
        }

        /** Wait until every row is acknowledged, then close. */
        void finish() {
            try {
                try {
                    lock.lock();
                    try {
                        finishing = true;
                        changed.signal();
                        while (failure == null && rows > 0) settled.await();
                        check();
                    } finally {
                        lock.unlock();
                    }
                } finally {
                    abort();
                }
            } catch (InterruptedException stop) {
                interrupted(stop);
            }
        }

        void abort() {
            lock.lock();
            try {
                over = true;
                if (link != null) Link.quietly(link.socket);
                changed.signalAll();
                settled.signalAll();
            } finally {
                lock.unlock();
            }
        }

        void check() {
            // A new one each time: what is thrown gets the trace of the task, not that of the thread that met it.
            if (failure != null) throw new RuntimeException(failure.getMessage(), failure.getCause());
            if (over) throw new RuntimeException("the writer is closed");
        }

        void fail(RuntimeException error) {
            lock.lock();
            try {
                if (failure == null) failure = error;
                changed.signalAll();
                settled.signalAll();
            } finally {
                lock.unlock();
            }
        }

        public void run() {
            try {
                lock.lock();
                try {
                    while (!over && failure == null) turn();
                } finally {
                    if (link != null) Link.quietly(link.socket);
                    lock.unlock();
                }
            } catch (InterruptedException stop) {
                fail(new RuntimeException("interrupted", stop));
            } catch (RuntimeException error) {
                fail(error);
            }
        }

        /** One step of the sending thread, which holds the lock. */
        void turn() throws InterruptedException {
            if (lost != null) {
                drop();
            } else if (link == null) {
                connect();
            } else if (!late.isEmpty()) {
                sendLate((Frame) late.peekFirst());
            } else if (!held.isEmpty() && sent.isEmpty()) {
                release();
            } else if (held.isEmpty() && sent.size() < link.window && ready()) {
                Frame frame = (Frame) queue.pollFirst();
                frame.batch = ++batches;
                if (sent.isEmpty()) waitingSince = System.nanoTime();
                sent.addLast(frame);
                send(frame.packet());
            } else {
                idle();
            }
        }

        /** Whether there is a frame to be sent now. */
        boolean ready() throws InterruptedException {
            if (!queue.isEmpty()) return true;
            if (filling.count == 0) return false;
            long left = filling.since + linger - System.nanoTime();
            if (left > 0 && !finishing) {
                changed.awaitNanos(left);
                return false;
            }
            next();
            return true;
        }

        void idle() throws InterruptedException {
            long now = System.nanoTime();
            if (sent.isEmpty() && !pinged && filling.count == 0 && now - link.heard > PING_NANOS) {
                pinged = true;
                waitingSince = now;
                Pack ping = new Pack();
                ping.big(7, 4);
                ping.array(2);
                ping.any("ping");
                ping.integer(1);
                send(ping);
            } else if (filling.count == 0 || sent.size() >= link.window || !held.isEmpty()) {
                changed.awaitNanos(PING_NANOS / 4);
            }
        }

        void send(Pack packet) {
            Link to = link;
            IOException error = null;
            lock.unlock();
            try {
                try {
                    to.write(packet);
                } catch (IOException lost) {
                    error = lost;
                }
            } finally {
                lock.lock();
            }
            if (error != null) gone(to, error);
        }

        void gone(Link from, Exception error) {
            lock.lock();
            try {
                if (link == from && lost == null) lost = error.getMessage() == null ? error.toString() : error.getMessage();
                changed.signal();
            } finally {
                lock.unlock();
            }
        }

        /** The connection is lost: what is not acknowledged is sent again, over the next one. */
        void drop() throws InterruptedException {
            String reason = lost;
            Link.quietly(link.socket);
            link = null;
            lost = null;
            rewind();
            elsewhere(reason);
        }

        void rewind() {
            while (!held.isEmpty()) sent.addLast(held.pollFirst());
            Object[] frames = sent.toArray();
            Arrays.sort(frames, new Comparator() {
                public int compare(Object one, Object other) {
                    return Long.compare(((Frame) other).numbers[0], ((Frame) one).numbers[0]);
                }
            });
            for (int at = 0; at < frames.length; at++) queue.addFirst(frames[at]);
            sent.clear();
            batches = 0;
            pinged = false;
        }

        /** To the next address; only a round through all of them is followed by a pause. */
        void elsewhere(String reason) throws InterruptedException {
            index = (index + 1) % addresses;
            failures++;
            pause(reason, failures % addresses == 0);
        }

        void pause(String reason, boolean wait) throws InterruptedException {
            long now = System.nanoTime();
            // While nothing waits for an acknowledgement it may be away for as long as it likes.
            if (rows == 0) troubleSince = 0;
            else if (troubleSince == 0) troubleSince = now;
            if (troubleSince != 0 && now - troubleSince >= retry) {
                throw new RuntimeException("nothing was acknowledged for " + TimeUnit.NANOSECONDS.toSeconds(retry)
                    + " s by the publisher port " + writer.text("url") + ": " + reason);
            }
            long until = now + TimeUnit.MILLISECONDS.toNanos((long) (draw.nextDouble() * pause));
            if (!wait) return;
            pause = Math.min(PAUSE_MAX_MS, 2 * pause);
            while (!over && System.nanoTime() < until) changed.awaitNanos(until - System.nanoTime());
        }

        void well() {
            troubleSince = 0;
            failures = 0;
            pause = PAUSE_MIN_MS;
        }

        void connect() throws InterruptedException {
            Link made = null;
            Exception error = null;
            lock.unlock();
            try {
                try {
                    made = new Link(writer, index, name, tls);
                    made.socket.setSoTimeout(READ_MS);
                } catch (Exception other) {
                    error = other;
                }
            } finally {
                lock.lock();
            }
            if (error instanceof Rejected) throw new RuntimeException(error.getMessage());
            if (error != null) {
                elsewhere(error.getMessage() == null ? error.toString() : error.getMessage());
            } else if (over) {
                Link.quietly(made.socket);
            } else {
                link = made;
                if (rows == 0) well();
                final Link reading = made;
                start(new Runnable() {
                    public void run() {
                        receive(reading);
                    }
                }, "reads");
            }
        }

        /** What the server answers over one connection, until it ends. */
        void receive(Link from) {
            try {
                while (true) {
                    List frame = from.read();
                    lock.lock();
                    try {
                        if (over || link != from) return;
                        if (frame != null) answered(frame);
                        long since = Math.max(from.heard, waitingSince);
                        if ((pinged || !sent.isEmpty()) && System.nanoTime() - since > timeout) {
                            throw new IOException("no answer within " + TimeUnit.NANOSECONDS.toSeconds(timeout) + " s");
                        }
                    } finally {
                        lock.unlock();
                    }
                }
            } catch (Rejected rejected) {
                fail(new RuntimeException(rejected.getMessage()));
            } catch (IOException error) {
                gone(from, error);
                Link.quietly(from.socket);
            } catch (ClassCastException error) {
                gone(from, new IOException("what answers is no publisher port"));
            } catch (RuntimeException error) {
                fail(error);
            }
        }

        void answered(List frame) throws IOException, Rejected {
            Link.check(frame);
            if ("pong".equals(frame.get(0))) pinged = false;
            if ("ack".equals(frame.get(0))) acknowledged(((Number) frame.get(1)).longValue(), (List) frame.get(3));
            if (sent.isEmpty()) changed.signal();
        }

        void acknowledged(long batch, List results) throws IOException {
            Frame frame = (Frame) sent.peekFirst();
            if (frame == null || frame.batch != batch || frame.count != results.size()) {
                throw new IOException("an acknowledgement that fits no batch: " + batch);
            }
            sent.pollFirst();
            waitingSince = System.nanoTime();
            Frame again = new Frame();
            Frame orphans = new Frame();
            for (int at = 0; at < frame.count; at++) {
                String code = code(results.get(at));
                if (code.equals("not_ready") || code.equals("unavailable")) {
                    again.add(frame, at);
                    why = (String) ((List) results.get(at)).get(1);
                    elsewhere |= code.equals("unavailable");
                } else if (code.equals("out_of_order")) {
                    orphans.add(frame, at);
                } else {
                    settle(frame, at, code, results.get(at));
                    well();
                }
            }
            if (again.count > 0) held.addLast(again);
            if (orphans.count > 0) late.addLast(orphans);
            changed.signal();
        }

        static String code(Object result) {
            return result instanceof List && ((List) result).get(0) instanceof String ? (String) ((List) result).get(0) : "";
        }

        /**
         * A row is done with: stored (`stale`: so long ago that its position is not known any more), overtaken by a newer
         * version, or refused for good.
         */
        void settle(Frame frame, int at, String code, Object result) throws IOException {
            if (!code.isEmpty() && !code.equals("stale") && !code.equals("outdated")) {
                List row = (List) new Unpack(frame.rows.bytes, frame.start(at)).next();
                Map letter = Message.letter(row.get(0), row.get(1), row.get(2));
                writer.refuse(letter, frame.numbers[at], topic, partition, code, (String) ((List) result).get(1));
            }
            bytes -= frame.size(at);
            rows--;
            settled.signalAll();
        }

        /** Rows were held back, and nothing is on the wire any more: they come again, before what is later. */
        void release() throws InterruptedException {
            boolean other = elsewhere && addresses > 1;
            elsewhere = false;
            if (other) {
                lost = why;
                return;
            }
            pause(why, true);
            if (lost == null) {
                while (!held.isEmpty()) queue.addFirst(held.pollLast());
            }
        }

        /**
         * Rows that were not stored while later ones were: their numbers are of no use any more, so that each gets a
         * publisher's name of its own. It is the same when the row is read again, and so it is stored once, too.
         */
        void sendLate(Frame rows) throws InterruptedException {
            String trouble = "";
            for (int at = 0; at < rows.count && trouble.isEmpty(); at++) {
                if (rows.numbers[at] == 0) continue;  // it is done with
                Object result = null;
                Exception error = null;
                lock.unlock();
                try {
                    try {
                        result = publishAlone(rows, at);
                    } catch (Exception other) {
                        error = other;
                    }
                } finally {
                    lock.lock();
                }
                if (error instanceof Rejected) throw new RuntimeException(error.getMessage());
                String code = error == null ? code(result) : "unavailable";
                if (code.equals("not_ready") || code.equals("unavailable")) {
                    trouble = error == null ? (String) ((List) result).get(1) : String.valueOf(error.getMessage());
                } else {
                    try {
                        settle(rows, at, code, result);
                    } catch (IOException impossible) {
                        throw new RuntimeException(impossible.getMessage(), impossible);
                    }
                    rows.numbers[at] = 0;
                    well();
                }
            }
            if (trouble.isEmpty()) late.pollFirst();
            else pause(trouble, true);
        }

        Object publishAlone(Frame rows, int at) throws IOException, Rejected {
            Link alone = new Link(writer, index, name + ":" + rows.numbers[at], tls);
            try {
                Pack row = new Pack();
                row.raw(rows.rows.bytes, rows.start(at), rows.ids[at]);
                int id = row.size;
                row.integer(1);
                Frame one = new Frame();
                one.add(row.bytes, 0, id, row.size, 1);
                one.batch = 1;
                alone.write(one.packet());
                while (true) {
                    List frame = alone.read();
                    if (frame == null) throw new IOException("no answer");
                    Link.check(frame);
                    if ("ack".equals(frame.get(0))) return ((List) frame.get(3)).get(0);
                }
            } finally {
                Link.quietly(alone.socket);
            }
        }
    }

    /** The dead letters of one attempt, as lines of JSON in a file of their own; nothing is written while there are none. */
    static class Letters {
        final String folder, file;
        final Map hadoop;
        OutputStream out;

        Letters(String folder, String file, Map hadoop) {
            this.folder = folder;
            this.file = file;
            this.hadoop = hadoop;
        }

        synchronized void add(Map letter) throws IOException {
            if (out == null) out = folder.indexOf("://") < 0 ? local() : remote();
            StringBuilder line = new StringBuilder();
            json(line, letter);
            out.write(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
            // Each is safe before its row counts as done with: nobody can ask for it again.
            if (out instanceof FileOutputStream) ((FileOutputStream) out).getFD().sync();
            else ((FSDataOutputStream) out).hsync();
        }

        OutputStream local() throws IOException {
            java.io.File made = new java.io.File(folder);
            made.mkdirs();
            return new FileOutputStream(new java.io.File(made, file));
        }

        OutputStream remote() throws IOException {
            Path path = new Path(folder, file);
            Configuration known = new Configuration();
            for (Iterator each = hadoop.entrySet().iterator(); each.hasNext();) {
                Map.Entry entry = (Map.Entry) each.next();
                known.set((String) entry.getKey(), (String) entry.getValue());
            }
            FileSystem files = path.getFileSystem(known);
            return files.create(path, true);
        }

        synchronized void close() throws IOException {
            OutputStream open = out;
            out = null;
            if (open != null) open.close();
        }

        void drop() {
            try {
                close();
            } catch (IOException ignored) {
                // the attempt has failed already
            }
        }

        static void json(StringBuilder line, Object value) {
            if (value == null || value instanceof Number || value instanceof Boolean) {
                line.append(value);
            } else if (value instanceof byte[]) {
                line.append("{\"base64\": \"").append(Base64.getEncoder().encodeToString((byte[]) value)).append("\"}");
            } else if (value instanceof Map) {
                String before = "{";
                for (Iterator each = ((Map) value).entrySet().iterator(); each.hasNext(); before = ", ") {
                    Map.Entry entry = (Map.Entry) each.next();
                    json(line.append(before), entry.getKey());
                    json(line.append(": "), entry.getValue());
                }
                line.append(((Map) value).isEmpty() ? "{}" : "}");
            } else {
                line.append('"');
                String text = value.toString();
                for (int at = 0; at < text.length(); at++) {
                    char each = text.charAt(at);
                    if (each == '"' || each == '\\') line.append('\\').append(each);
                    else if (each < ' ') line.append(String.format("\\u%04x", new Object[] {Integer.valueOf(each)}));
                    else line.append(each);
                }
                line.append('"');
            }
        }
    }
}
