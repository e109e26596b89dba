<?php
// Publishes and subscribes over plain HTTP with PHP 8 alone; https needs its extension openssl.
//
//   php fastpath.php subscribe SUBJECT...         prints every event as a line: its name and its JSON
//   php fastpath.php publish SUBJECT CONTENT      prints the server's answer
//
// SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
// a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).

declare(strict_types=1);

/** To ask again would not help. */
class Refused extends Exception
{
}

/** The next attempt may succeed. */
class Passing extends Exception
{
}

/** What the program is for: here it prints. */
function handle(string $name, string $data): void
{
    echo "$name $data\n";
    // message: json_decode($data, true), with subject, content, fields, epoch and seq
    // resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
    // denied, revoked: no right to the subject at present; it begins by itself when the right comes.
}

/** Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once. */
class Backoff
{
    public int $failures = 0;

    public function wait(string $reason): void
    {
        $seconds = min(30, 2 ** $this->failures) * (0.5 + mt_rand() / mt_getrandmax() / 2);
        $this->failures += 1;
        fprintf(STDERR, "%s; again in %.1f s\n", $reason, $seconds);
        usleep((int) (1e6 * $seconds));
    }
}

class Client
{
    public function __construct(private string $site, private string $token, private float $silence)
    {
    }

    public function subscribe(array $subjects): void
    {
        $query = implode("&", array_map(fn ($subject) => "subject=" . rawurlencode($subject), $subjects));
        $place = ""; // the id of the last event that was handled
        $backoff = new Backoff();
        while (true) {
            try {
                $this->follow($query, $place, $backoff);
            } catch (Passing $error) {
                $backoff->wait($error->getMessage());
            }
        }
    }

    public function publish(string $subject, string $content): void
    {
        $body = json_encode(["subject" => $subject, "content" => $content], JSON_THROW_ON_ERROR);
        $headers = ["Content-Type: application/json", "Idempotency-Key: " . bin2hex(random_bytes(16))];
        $backoff = new Backoff();
        while (true) { // The same key each time: whatever became of an answer, the message is stored once.
            try {
                $answer = stream_get_contents($this->ask("POST", "/api/publish", $headers, $body));
                $results = json_decode($answer, true)["results"] ?? throw new Passing("the answer has no end");
                echo "$answer\n";
                $status = $results[0]["status"];
                if ($status === "ok" || $status === "stale") { // stale: an earlier attempt has stored it, long ago
                    return;
                }
                if ($status !== "unavailable" && $status !== "not_ready") {
                    throw new Refused($answer);
                }
                $backoff->wait($status);
            } catch (Passing $error) {
                $backoff->wait($error->getMessage());
            }
        }
    }

    /** Reads one stream to its end: https://html.spec.whatwg.org/multipage/server-sent-events.html */
    private function follow(string $query, string &$place, Backoff $backoff): never
    {
        $headers = ["Accept: text/event-stream"];
        if ($place !== "") {
            $headers[] = "Last-Event-ID: $place";
        }
        $stream = $this->ask("GET", "/events?$query", $headers);
        [$name, $data, $id] = ["message", "", ""];
        while (($line = fgets($stream)) !== false && str_ends_with($line, "\n")) {
            $line = rtrim($line, "\r\n");
            [$field, $value] = explode(": ", $line, 2) + ["", ""];
            match ($field) {
                "event" => $name = $value,
                "data" => $data .= $value,
                "id" => $id = $value,
                default => null,
            };
            if ($line !== "") {
                continue;
            }
            if ($name === "connected") {
                $backoff->failures = 0;
            }
            if ($data !== "") {
                handle($name, $data);
                $place = $id ?: $place;
            }
            if ($name === "close") {
                throw json_decode($data)->code >= 4500 ? new Refused($data) : new Passing("closed: $data");
            }
            [$name, $data, $id] = ["message", "", ""];
        }
        $isSilent = stream_get_meta_data($stream)["timed_out"];
        throw new Passing($isSilent ? "nothing came for $this->silence s" : "the stream has ended");
    }

    /** @return resource the body of an answer of 200 */
    private function ask(string $method, string $path, array $headers, string $content = "")
    {
        if ($this->token !== "") {
            $headers[] = "Authorization: Bearer $this->token";
        }
        // HTTP/1.1 may be answered in chunks, of which PHP gives nothing away before it has 8 KiB.
        $options = ["method" => $method, "header" => $headers, "content" => $content, "timeout" => $this->silence,
            "protocol_version" => "1.0", "ignore_errors" => true, "follow_location" => 0];
        $stream = @fopen($this->site . $path, "r", false, stream_context_create(["http" => $options]));
        if ($stream === false) {
            throw new Passing(error_get_last()["message"]);
        }
        $status = (int) explode(" ", $http_response_header[0])[1];
        if ($status === 200) {
            return $stream;
        }
        $reason = "$status " . stream_get_contents($stream);
        throw $status >= 500 || $status === 408 || $status === 429 ? new Passing($reason) : new Refused($reason);
    }
}

$silence = (float) (getenv("SILENCE") ?: 60);
$client = new Client(getenv("SITE") ?: "http://127.0.0.1:8800", getenv("TOKEN") ?: "", $silence);
$arguments = array_slice($argv, 2);
try {
    match (true) {
        ($argv[1] ?? "") === "subscribe" && count($arguments) > 0 => $client->subscribe($arguments),
        ($argv[1] ?? "") === "publish" && count($arguments) === 2 => $client->publish(...$arguments),
        default => throw new Refused("usage: fastpath.php subscribe SUBJECT... | publish SUBJECT CONTENT"),
    };
} catch (Refused $error) {
    fwrite(STDERR, "refused: " . $error->getMessage() . "\n");
    exit(1);
}
