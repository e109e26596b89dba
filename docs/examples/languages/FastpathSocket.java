// Publishes and subscribes over a WebSocket, in the JSON form of the protocol, with Java 17's own classes alone.
//
//   java FastpathSocket.java subscribe SUBJECT...         prints what it is told as lines: a name and its JSON
//   java FastpathSocket.java publish SUBJECT CONTENT      prints the server's answer
//
// SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
// a frame a connection counts as lost (60; the server pings every FASTPATH_PING_SECONDS, 25).
//
// The numbers in comments are the sections of docs/reference/protocol.md.

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeoutException;

public final class FastpathSocket {
    /** To ask again would not help. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super(reason);
        }
    }

    /** What the program is for: here it prints. */
    interface Handler {
        /** A message, or what is told of a subject: of resynchronised, begin anew with the snapshot that follows. */
        void handle(String name, Map<String, Object> data);
    }

    /** What one client knows, over all its connections: frames go in, frames and events come out, and nothing else. */
    static final class State {
        /** Up to where a subject was read: number {@code seq} of what stood in {@code epoch}. */
        record Place(long epoch, long seq) {}

        final List<Map<String, Object>> out = new ArrayList<>();  // to be sent
        private final String token;
        private final String publisher;
        private final Map<String, Object> publication;
        private final Handler handler;
        private final Set<String> subjects = new LinkedHashSet<>();  // and patterns
        private final Set<String> patterns = new HashSet<>();  // that have begun, on whatever connection
        private final Map<String, String> rights = new HashMap<>();  // denied or partial: of patterns without all
        private final Map<String, Place> places = new LinkedHashMap<>();
        private final Map<String, Long> announced = new HashMap<>();  // up to where a recovery comes by itself (4.7)
        private final Map<String, Long> asked = new HashMap<>();  // with which command, while it is not answered
        private final Set<String> waiting = new HashSet<>();  // for a right, or for room
        private final Map<Long, String> names = new HashMap<>();  // of subjects, by the sid that the connection has
        private final Map<Long, Long> epochs = new HashMap<>();  // of a sid (5.3)
        private boolean stands = false;
        private long base = 0;
        private long id = 0;

        State(String token, String publisher, Map<String, Object> publication, Handler handler) {
            this.token = token;
            this.publisher = publisher;
            this.publication = publication;
            this.handler = handler;
        }

        void subscribe(List<String> more) {
            subjects.addAll(more);
            if (stands) ask(more);
        }

        /** A connection stands. */
        void opened() {
            stands = true;
            out.clear();
            names.clear();
            announced.clear();
            asked.clear();
            waiting.clear();
            Map<String, Object> connect = command("connect");
            if (!token.isEmpty()) connect.put("token", token);
            connect.put("client", "java-example/1");
            connect.put("publisher", publisher);
            out.add(connect);
            if (!subjects.isEmpty()) ask(List.copyOf(subjects));
            if (publication == null) return;
            // The same number each time: whatever became of an answer, the message is stored once (3.7).
            Map<String, Object> publish = command("publish");
            publish.putAll(publication);
            publish.put("closure", "1");
            publish.put("publication", 1);
            out.add(publish);
        }

        /** 3.6 */
        void ping() {
            out.add(command("ping"));
        }

        /** It has ended. */
        void closed() {
            stands = false;
        }

        /** One frame of the server's. */
        void receive(Object frame) throws Refused {
            if (frame instanceof List<?> message) {
                arrived(message);
                return;
            }
            Map<String, Object> told = map(frame);
            switch ((String) told.get("op")) {
                case "connected" -> {
                    base = number(told, "base");
                    handler.handle("connected", told);
                }
                case "base" -> base = number(told, "base");
                case "subscribed" -> {
                    for (Object result : (List<?>) told.get("results")) began(map(result), (Long) told.get("id"));
                }
                case "epoch" -> goesOn(number(told, "sid"), number(told, "epoch"), number(told, "seq"));
                case "error" -> throw new Refused(Json.write(told));
                case "revoked" -> revoked(told);
                case "published", "expiring", "notice" -> handler.handle((String) told.get("op"), told);
                default -> { }  // to what this client does not ask, and of later versions
            }
        }

        /** 4.2: a subject begins, or does not. */
        private void began(Map<String, Object> result, Long answered) {
            String subject = (String) result.get("subject");
            boolean isKnown = subjects.contains(subject) || asked.containsKey(subject) || result.containsKey("pattern");
            if (!isKnown) return;
            if (answered != null && !answered.equals(asked.get(subject))) return;  // it was asked for anew meanwhile
            if (result.get("error") instanceof String error) {
                asked.remove(subject);
                refused(subject, error, answered != null, result);
                return;
            }
            if (!result.containsKey("sid")) {  // a pattern, whose subjects come by themselves
                asked.remove(subject);
                patterns.add(subject);
                found(subject, result, answered != null);
                return;
            }
            long sid = number(result, "sid"), epoch = number(result, "epoch"), seq = number(result, "seq");
            long messages = result.containsKey("messages") ? number(result, "messages") : 0;
            names.put(sid, subject);
            epochs.put(sid, epoch);
            asked.remove(subject);
            announced.remove(subject);
            Place place = places.get(subject);
            Object recovery = result.get("recovery");
            if (waiting.remove(subject)) handler.handle("granted", result);
            handler.handle(recovery == null ? "subscribed" : (String) recovery, result);
            // What is announced moves the place when it is here, and not before.
            if ("recovered".equals(recovery) && place != null) {
                places.put(subject, new Place(epoch, place.seq()));
                announced.put(subject, place.seq() + messages);
            } else if (messages > 0) places.remove(subject);
            else places.put(subject, new Place(epoch, seq));
        }

        /** How much of a pattern may be read: all of it, where nothing is said; and again as rights come or go. */
        private void found(String pattern, Map<String, Object> result, boolean isAnswer) {
            String now = (String) result.get("rights");
            String before = now == null ? rights.remove(pattern) : rights.put(pattern, now);
            if ("denied".equals(now)) {
                handler.handle("denied", result);
                return;
            }
            if (isAnswer || now == null || "denied".equals(before)) {
                if (before != null && !isAnswer) handler.handle("granted", result);
                handler.handle("subscribed", result);
            }
            if (now != null) handler.handle("partial", result);
        }

        /** Without the right, or while the server is not ready, it waits for the server; else it is over. */
        private void refused(String subject, String error, boolean isAnswer, Map<String, Object> result) {
            if (error.equals("denied") || error.equals("not_ready")) {
                waiting.add(subject);
                handler.handle(error, result);
            } else if (isAnswer) {
                subjects.remove(subject);
                handler.handle("refused", result);
            } else handler.handle("limited", result);  // a pattern, which goes on with what it has
        }

        /** 4.7: nothing of these follows; another connection asks for them where they were. */
        private void revoked(Map<String, Object> told) {
            for (Object subject : (List<?>) told.get("subjects")) {
                boolean isKnown = names.values().removeIf(subject::equals);
                if (isKnown) waiting.add((String) subject);
                if (isKnown || patterns.contains(subject))
                    handler.handle("revoked", Map.of("subject", subject, "reason", told.get("reason")));
            }
        }

        /** 4.8: the subject goes on in another epoch, after this number. */
        private void goesOn(long sid, long epoch, long seq) {
            String subject = names.get(sid);
            Place place = places.get(subject);
            epochs.put(sid, epoch);
            announced.remove(subject);
            if (place == null) return;
            places.put(subject, new Place(epoch, Math.min(place.seq(), seq)));
            Map<String, Object> told = new LinkedHashMap<>(Map.of("subject", subject, "epoch", epoch, "seq", seq));
            if (place.seq() < seq) again(subject, told);
            else if (place.seq() > seq) handler.handle("resynchronised", told);  // what was read above is void
        }

        /** Something is missing: all behind the place is asked for. */
        private void again(String subject, Map<String, Object> told) {
            handler.handle("gap", told);
            ask(List.of(subject));
        }

        /** 5: [sid, seq, t, content, fields, meta]. */
        private void arrived(List<?> message) {
            long sid = (Long) message.get(0), seq = (Long) message.get(1);
            String subject = names.get(sid);
            if (subject == null) return;
            Map<String, Object> meta = message.size() > 5 ? map(message.get(5)) : Map.of();
            boolean isSnapshot = "snapshot".equals(meta.get("kind"));
            if (asked.containsKey(subject) && (seq != 0 || isSnapshot)) return;  // the answer has that, too
            Place place = places.get(subject);
            if (seq != 0 && !isSnapshot && place != null) {
                if (seq <= place.seq()) return;  // read already
                if (seq > Math.max(place.seq(), announced.getOrDefault(subject, 0L)) + 1) {  // 5.3
                    again(subject, new LinkedHashMap<>(Map.of("subject", subject, "seq", place.seq())));
                    return;
                }
            }
            Map<String, Object> event = new LinkedHashMap<>();
            event.put("subject", subject);
            event.put("content", message.get(3));
            event.put("fields", message.size() > 4 && message.get(4) != null ? message.get(4) : Map.of());
            event.put("epoch", epochs.get(sid));
            event.put("seq", seq);
            event.put("time", base + (Long) message.get(2));
            event.put("kind", "update");
            event.putAll(meta);
            handler.handle("message", event);
            if (seq != 0) places.put(subject, new Place(epochs.get(sid), seq));
        }

        /** 3.2, 3.8: with the place of each subject that has one; a pattern that was had before says so. */
        private void ask(List<String> wanted) {
            Map<String, Object> subscribe = command("subscribe"), since = new LinkedHashMap<>();
            subscribe.put("subjects", wanted);
            for (String each : wanted) {
                asked.put(each, id);
                if (patterns.contains(each)) since.put(each, List.of(0, 0));
            }
            boolean isAll = !since.isEmpty();
            places.forEach((subject, place) -> {
                if (isAll || wanted.contains(subject)) since.put(subject, List.of(place.epoch(), place.seq()));
            });
            if (!since.isEmpty()) subscribe.put("since", since);
            out.add(subscribe);
        }

        private Map<String, Object> command(String op) {
            Map<String, Object> command = new LinkedHashMap<>();
            command.put("op", op);
            command.put("id", ++id);
            return command;
        }

        @SuppressWarnings("unchecked")
        private static Map<String, Object> map(Object value) {
            return (Map<String, Object>) value;
        }

        private static long number(Map<String, Object> map, String key) {
            return (Long) map.get(key);
        }
    }

    /** JSON as maps, lists, texts, whole numbers, doubles, booleans and null; a library of your choice does as well. */
    static final class Json {
        private final String text;
        private int at = 0;

        private Json(String text) {
            this.text = text;
        }

        /** The value of a text that a server of ours has written. */
        static Object read(String text) {
            return new Json(text).value();
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> map) {
                List<String> pairs = new ArrayList<>();
                map.forEach((key, each) -> pairs.add(write(key) + ":" + write(each)));
                return "{" + String.join(",", pairs) + "}";
            }
            if (value instanceof List<?> list)
                return "[" + String.join(",", list.stream().map(Json::write).toList()) + "]";
            if (!(value instanceof String text)) return String.valueOf(value);
            StringBuilder json = new StringBuilder("\"");
            for (char each : text.toCharArray()) {
                if (each == '"' || each == '\\') json.append('\\').append(each);
                else if (each < ' ') json.append(String.format("\\u%04x", (int) each));
                else json.append(each);
            }
            return json.append('"').toString();
        }

        private Object value() {
            switch (next()) {
                case '{' -> {
                    Map<String, Object> map = new LinkedHashMap<>();
                    for (at++; next() != '}'; comma()) {
                        String key = string();
                        next();
                        at++;  // the colon
                        map.put(key, value());
                    }
                    at++;
                    return map;
                }
                case '[' -> {
                    List<Object> list = new ArrayList<>();
                    for (at++; next() != ']'; comma()) list.add(value());
                    at++;
                    return list;
                }
                case '"' -> {
                    return string();
                }
                default -> {
                    int from = at;
                    while (at < text.length() && "]},: ".indexOf(text.charAt(at)) < 0) at++;
                    String word = text.substring(from, at);
                    return switch (word) {
                        case "null" -> null;
                        case "true" -> true;
                        case "false" -> false;
                        default -> word.matches("-?\\d+") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
                    };
                }
            }
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                if (text.charAt(at) != '\\') {
                    out.append(text.charAt(at));
                    continue;
                }
                char escaped = text.charAt(++at);
                int plain = "bfnrt".indexOf(escaped);
                if (escaped == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else out.append(plain < 0 ? escaped : "\b\f\n\r\t".charAt(plain));
            }
            at++;
            return out.toString();
        }

        private char next() {
            while (text.charAt(at) == ' ') at++;
            return text.charAt(at);
        }

        private void comma() {
            if (next() == ',') at++;
        }
    }

    /** Hands on what comes, one thing at a time: the next one when it was dealt with. */
    static final class Listener implements WebSocket.Listener {
        record Closed(int code, String reason) {}

        final BlockingQueue<Object> come = new LinkedBlockingQueue<>();
        private final StringBuilder parts = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket socket, CharSequence data, boolean isLast) {
            parts.append(data);
            if (isLast) {
                come.add(parts.toString());
                parts.setLength(0);
            } else socket.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onPing(WebSocket socket, ByteBuffer message) {
            come.add("");  // a sign of life, which has been answered
            return null;
        }

        @Override
        public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
            come.add(new Closed(code, reason));
            return null;
        }

        @Override
        public void onError(WebSocket socket, Throwable error) {
            come.add(new Closed(1006, error.toString()));
        }
    }

    /** Java does not always tell that the other end has closed: what is sent then finds out. */
    private static final long PING_MS = 3000;
    private static final long LAST_WORD_MS = 1000;  // for the server's reason, once nothing goes out any more

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
    private final PrintStream out = new PrintStream(System.out, true, UTF_8);
    private final URI address;
    private final String token;
    private final long silenceMs;
    private int failures = 0;

    FastpathSocket(String site, String token, double silence) {
        this.address = URI.create(site.replaceFirst("^http", "ws") + "/ws");
        this.token = token;
        this.silenceMs = (long) (1000 * silence);
    }

    void subscribe(List<String> subjects) throws InterruptedException, Refused {
        State state = new State(token, UUID.randomUUID().toString(), null, (name, data) -> {
            out.println(name + " " + Json.write(data));
            if (name.equals("connected")) failures = 0;
        });
        state.subscribe(subjects);
        while (true) {
            try {
                follow(state, () -> false);
            } catch (IOException error) {
                await(error.getMessage());
            }
        }
    }

    void publish(String subject, String content) throws InterruptedException, Refused {
        List<Map<String, Object>> answers = new ArrayList<>();
        Map<String, Object> publication = Map.of("subject", subject, "content", content);
        State state = new State(token, UUID.randomUUID().toString(), publication, (name, data) -> {
            if (name.equals("published")) answers.add(data);
        });
        while (true) {
            String status = "";
            try {
                answers.clear();
                follow(state, () -> !answers.isEmpty());
                status = (String) answers.get(0).get("status");
                out.println(Json.write(answers.get(0)));
            } catch (IOException error) {
                await(error.getMessage());
                continue;
            }
            switch (status) {
                case "ok", "stale" -> { return; }  // stale: an earlier attempt has stored it, long ago
                case "unavailable", "not_ready" -> await(status);
                default -> throw new Refused(status);
            }
        }
    }

    private interface Condition {
        boolean holds();
    }

    /** One connection, until the condition holds, or to its end, which always has a reason. */
    private void follow(State state, Condition isDone) throws IOException, InterruptedException, Refused {
        Listener listener = new Listener();
        WebSocket socket = connected(listener);
        try {
            state.opened();
            boolean isOpen = true;
            long heardAt = System.nanoTime();
            while (!isDone.holds()) {
                for (Map<String, Object> frame : state.out) isOpen = isOpen && send(socket, Json.write(frame));
                state.out.clear();
                Object come = listener.come.poll(isOpen ? Math.min(silenceMs, PING_MS) : LAST_WORD_MS, MILLISECONDS);
                if (come == null) {
                    long silentMs = (System.nanoTime() - heardAt) / 1_000_000;
                    if (!isOpen || silentMs >= silenceMs) throw new IOException("nothing came for " + silentMs + " ms");
                    state.ping();
                    continue;
                }
                heardAt = System.nanoTime();
                if (come instanceof Listener.Closed closed) {
                    String reason = closed.code() + " " + closed.reason();
                    if (closed.code() >= 4500) throw new Refused(reason);  // 7
                    throw new IOException("closed: " + reason);
                }
                if (come instanceof String text && !text.isEmpty()) state.receive(Json.read(text));
                socket.request(1);
            }
        } finally {
            state.closed();
            socket.abort();
        }
    }

    private WebSocket connected(Listener listener) throws IOException, InterruptedException, Refused {
        var coming = http.newWebSocketBuilder().subprotocols("fastpath.v1.json").buildAsync(address, listener);
        try {
            return coming.get(silenceMs, MILLISECONDS);
        } catch (TimeoutException error) {
            coming.cancel(true);
            throw new IOException("no answer for " + silenceMs / 1000.0 + " s");
        } catch (ExecutionException error) {
            if (error.getCause() instanceof WebSocketHandshakeException refused) {
                int status = refused.getResponse().statusCode();
                if (status / 100 == 4 && status != 408 && status != 429) throw new Refused("status " + status);
            }
            throw new IOException(error.getCause().toString());
        }
    }

    /** Whether it went out. */
    private boolean send(WebSocket socket, String text) throws IOException, InterruptedException {
        try {
            socket.sendText(text, true).get(silenceMs, MILLISECONDS);
            return true;
        } catch (TimeoutException error) {
            throw new IOException("nothing goes out for " + silenceMs / 1000.0 + " s");
        } catch (ExecutionException error) {
            return false;
        }
    }

    /** Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once. */
    private void await(String reason) throws InterruptedException {
        double seconds = Math.min(30, Math.pow(2, failures)) * (0.5 + Math.random() / 2);
        failures += 1;
        System.err.printf(Locale.ROOT, "%s; again in %.1f s%n", reason, seconds);
        Thread.sleep((long) (1000 * seconds));
    }

    public static void main(String[] arguments) throws InterruptedException {
        var given = System.getenv();
        FastpathSocket client = new FastpathSocket(given.getOrDefault("SITE", "http://127.0.0.1:8800"),
            given.getOrDefault("TOKEN", ""), Double.parseDouble(given.getOrDefault("SILENCE", "60")));
        List<String> words = List.of(arguments);
        String command = words.isEmpty() ? "" : words.get(0);
        try {
            if (command.equals("subscribe") && words.size() > 1) client.subscribe(words.subList(1, words.size()));
            else if (command.equals("publish") && words.size() == 3) client.publish(words.get(1), words.get(2));
            else throw new Refused("usage: FastpathSocket subscribe SUBJECT... | publish SUBJECT CONTENT");
        } catch (Refused error) {
            System.err.println("refused: " + error.getMessage());
            System.exit(1);
        }
        System.exit(0);  // the HTTP client's threads would stay a while
    }
}
