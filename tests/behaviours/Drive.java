// Drives the client of docs/examples/languages/FastpathSocket.java: the protocol of docs/reference/conformance.md.
//
// What a client of one page has is in the table's cases about one connection; all others it skips.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

public final class Drive {
    private static final Set<String> OPTIONS = Set.of("urls", "publisher", "transports");
    private static final Set<String> SUBSCRIBE = Set.of("do", "subjects", "to");

    private FastpathSocket.State state;
    private Map<String, Object> seen = new LinkedHashMap<>();

    public static void main(String[] arguments) throws IOException {
        Drive drive = new Drive();
        PrintStream out = new PrintStream(System.out, true, UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(FastpathSocket.Json.write(drive.answer(map(FastpathSocket.Json.read(line)))));
        }
    }

    private Map<String, Object> answer(Map<String, Object> asked) {
        seen = new LinkedHashMap<>();
        String step = (String) asked.get("do");
        switch (step) {
            case "begin" -> {
                Map<String, Object> options = map(asked.get("options"));
                if (!OPTIONS.containsAll(options.keySet())) return skip("it has no such options");
                if (!List.of("ws://a/ws").equals(options.get("urls"))) return skip("it has one server");
                if (!List.of("websocket").equals(options.get("transports"))) return skip("it has no other transport");
                state = new FastpathSocket.State("", (String) options.get("publisher"), null, this::told);
                return seen;
            }
            case "start" -> seen.put("connect", "ws://a/ws");
            case "open" -> state.opened();
            case "subscribe" -> {
                if (!SUBSCRIBE.containsAll(asked.keySet())) return skip("it has no options of subscriptions");
                if (asked.containsKey("to")) return skip("it has one owner");
                state.subscribe(list(asked.get("subjects")));
            }
            case "frame" -> {
                if (asked.get("frame") instanceof Map<?, ?> frame) {
                    if ("drain".equals(frame.get("code"))) return skip("it stays until it is closed");
                    if (frame.toString().contains("error=not_ready")) return skip("it waits for the server");
                }
                try {
                    state.receive(asked.get("frame"));
                } catch (FastpathSocket.Refused error) {
                    return skip("an error ends it");
                }
            }
            default -> {
                return skip("it has no " + step);
            }
        }
        if (!state.out.isEmpty()) seen.put("sent", List.copyOf(state.out));
        state.out.clear();
        return seen;
    }

    private void told(String name, Map<String, Object> data) {
        Map<String, Object> event = new LinkedHashMap<>(data);
        boolean isMessage = name.equals("message");
        if (isMessage) {
            event.put("to", "owner");
            event.put("qos", event.get("seq").equals(0L) ? "standard" : "guaranteed");
            event.putIfAbsent("retained", true);
            event.putIfAbsent("removed", false);
        } else {
            event.put("name", name);
            if (data.containsKey("error")) event.put("code", data.get("error"));
            if (!data.containsKey("sid")) event.putIfAbsent("pattern", event.get("subject"));
        }
        List<Object> events = new ArrayList<>(list(seen.getOrDefault(isMessage ? "messages" : "statuses", List.of())));
        events.add(event);
        seen.put(isMessage ? "messages" : "statuses", events);
    }

    private static Map<String, Object> skip(String reason) {
        return Map.of("skip", reason);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    private static <T> List<T> list(Object value) {
        return (List<T>) value;
    }
}
