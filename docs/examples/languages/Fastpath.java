// Publishes and subscribes over plain HTTP with Java 17's own classes alone.
//
//   java Fastpath.java subscribe SUBJECT...         prints every event as a line: its name and its JSON
//   java Fastpath.java publish SUBJECT CONTENT      prints the server's answer
//
// SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
// a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public final class Fastpath {
    /** To ask again would not help. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super(reason);
        }
    }

    /** Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once. */
    static final class Backoff {
        private int failures = 0;

        void reset() {
            failures = 0;
        }

        void await(String reason) throws InterruptedException {
            double seconds = Math.min(30, Math.pow(2, failures)) * (0.5 + Math.random() / 2);
            failures += 1;
            System.err.printf(Locale.ROOT, "%s; again in %.1f s%n", reason, seconds);
            Thread.sleep((long) (1000 * seconds));
        }
    }

    private static final Pattern CODE = Pattern.compile("\"code\": ?(\\d+)");
    private static final Pattern STATUS = Pattern.compile("\\{\"results\": ?\\[\\{\"status\": ?\"(\\w+)\"");

    private final HttpClient http = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(10)).build();
    private final PrintStream out = new PrintStream(System.out, true, UTF_8);
    private final String site;
    private final String token;
    private final long silenceMs;

    Fastpath(String site, String token, double silence) {
        this.site = site;
        this.token = token;
        this.silenceMs = (long) (1000 * silence);
    }

    /** What the program is for: here it prints. */
    void handle(String name, String data) {
        out.println(name + " " + data);
        // message: {"subject", "content", "fields", "epoch", "seq", ...}, for the JSON library of your choice
        // resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
        // denied, revoked: no right to the subject at present; it begins by itself when the right comes.
    }

    private HttpRequest.Builder request(String path) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(site + path));
        return token.isEmpty() ? builder : builder.header("Authorization", "Bearer " + token);
    }

    private <T> HttpResponse<T> send(HttpRequest request, HttpResponse.BodyHandler<T> into)
            throws IOException, InterruptedException {
        CompletableFuture<HttpResponse<T>> coming = http.sendAsync(request, into);
        try {
            return coming.get(silenceMs, MILLISECONDS);
        } catch (TimeoutException error) {
            coming.cancel(true);
            throw new IOException("no answer for " + silenceMs / 1000.0 + " s");
        } catch (ExecutionException error) {
            throw new IOException(error.getCause().toString());
        }
    }

    private static void check(int status, String text) throws IOException, Refused {
        if (status == 200) return;
        String reason = status + " " + text;
        if (status >= 500 || status == 408 || status == 429) throw new IOException(reason);
        throw new Refused(reason);
    }

    void subscribe(Stream<String> subjects) throws InterruptedException, Refused {
        String query = subjects.map(each -> "subject=" + URLEncoder.encode(each, UTF_8))
            .collect(Collectors.joining("&"));
        Backoff backoff = new Backoff();
        String[] place = {""};  // the id of the last event that was handled
        while (true) {
            try {
                follow(query, place, backoff);
            } catch (IOException error) {
                backoff.await(error.getMessage());
            }
        }
    }

    /** Reads one stream to its end: https://html.spec.whatwg.org/multipage/server-sent-events.html */
    private void follow(String query, String[] place, Backoff backoff)
            throws IOException, InterruptedException, Refused {
        HttpRequest.Builder request = request("/events?" + query);
        if (!place[0].isEmpty()) request.header("Last-Event-ID", place[0]);
        HttpResponse<InputStream> answer = send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
        ScheduledExecutorService watch = Executors.newSingleThreadScheduledExecutor();
        try (InputStream body = answer.body()) {
            check(answer.statusCode(), answer.statusCode() == 200 ? "" : new String(body.readAllBytes(), UTF_8));
            BufferedReader lines = new BufferedReader(new InputStreamReader(body, UTF_8));
            String name = "message", data = "", id = "";
            while (true) {
                // Nothing else ends a read of a connection whose other end has vanished.
                var alarm = watch.schedule(() -> { answer.body().close(); return null; }, silenceMs, MILLISECONDS);
                String line = lines.readLine();
                if (!alarm.cancel(false)) throw new IOException("nothing came for " + silenceMs / 1000.0 + " s");
                if (line == null) throw new IOException("the stream has ended");
                if (line.startsWith("event: ")) name = line.substring(7);
                if (line.startsWith("data: ")) data += line.substring(6);
                if (line.startsWith("id: ")) id = line.substring(4);
                if (!line.isEmpty()) continue;
                if (name.equals("connected")) backoff.reset();
                if (!data.isEmpty()) {
                    handle(name, data);
                    if (!id.isEmpty()) place[0] = id;
                }
                if (name.equals("close")) {
                    Matcher code = CODE.matcher(data);
                    if (code.find() && Integer.parseInt(code.group(1)) >= 4500) throw new Refused(data);
                    throw new IOException("closed: " + data);
                }
                name = "message";
                data = id = "";
            }
        } finally {
            watch.shutdownNow();
        }
    }

    void publish(String subject, String content) throws InterruptedException, Refused {
        String body = "{\"subject\": " + quoted(subject) + ", \"content\": " + quoted(content) + "}";
        HttpRequest request = request("/api/publish").header("Content-Type", "application/json")
            .header("Idempotency-Key", UUID.randomUUID().toString())
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        Backoff backoff = new Backoff();
        while (true) {  // The same key each time: whatever became of an answer, the message is stored once.
            try {
                HttpResponse<String> answer = send(request, HttpResponse.BodyHandlers.ofString());
                check(answer.statusCode(), answer.body());
                out.println(answer.body());
                Matcher told = STATUS.matcher(answer.body());
                String status = told.lookingAt() ? told.group(1) : "no answer of a sidecar";
                switch (status) {
                    case "ok", "stale" -> { return; }  // stale: an earlier attempt has stored it, long ago
                    case "unavailable", "not_ready" -> backoff.await(status);
                    default -> throw new Refused(status);
                }
            } catch (IOException error) {
                backoff.await(error.getMessage());
            }
        }
    }

    /** The text as JSON writes it. */
    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') json.append('\\').append(each);
            else if (each < ' ') json.append(String.format("\\u%04x", (int) each));
            else json.append(each);
        }
        return json.append('"').toString();
    }

    public static void main(String[] arguments) throws InterruptedException {
        var given = System.getenv();
        Fastpath client = new Fastpath(given.getOrDefault("SITE", "http://127.0.0.1:8800"),
            given.getOrDefault("TOKEN", ""), Double.parseDouble(given.getOrDefault("SILENCE", "60")));
        String command = arguments.length > 0 ? arguments[0] : "";
        try {
            if (command.equals("subscribe") && arguments.length > 1) client.subscribe(Stream.of(arguments).skip(1));
            else if (command.equals("publish") && arguments.length == 3) client.publish(arguments[1], arguments[2]);
            else throw new Refused("usage: Fastpath subscribe SUBJECT... | publish SUBJECT CONTENT");
        } catch (Refused error) {
            System.err.println("refused: " + error.getMessage());
            System.exit(1);
        }
    }
}
