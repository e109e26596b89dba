"""The values of the test vectors: every example of protocol.md 3 to 6, and the edges of each form."""

from __future__ import annotations

from typing import Any

Case = tuple[str, str, Any]

IBM = "/stocks/us/IBM"
INBOX = "/__sys__/inbox/q0YbKxYcXyKzG1bW7S0v3A/7"
TEXT = 'Ελλάδα 日本語 🙂 "quoted" back\\slash /slash \b\t\n\f\r\x01\x1f\x7f\u2028'
"""Scripts of one to four bytes, and all that JSON must escape beside some that it must not."""

BINARY = bytes(range(256))

CLIENT_TO_SERVER: list[Case] = [
    ("connect", "3.1", {"op": "connect", "id": 1, "token": "eyJ…", "client": "js/1"}),
    ("connect anonymous", "3.1", {"op": "connect", "id": 1}),
    (
        "connect as a publisher",
        "3.1",
        {"op": "connect", "id": 1, "token": "eyJ…", "client": "js/1", "publisher": "page-81c0"},
    ),
    (
        "subscribe",
        "3.2",
        {
            "op": "subscribe",
            "id": 2,
            "subjects": [IBM],
            "history": 10,
            "conflation": 500,
            "since": {IBM: [1700000000000, 41]},
        },
    ),
    ("subscribe plain", "3.2", {"op": "subscribe", "id": 3, "subjects": ["/a/b", "/Ελλάδα/日本語/🙂"]}),
    (
        "subscribe with every key",
        "3.2",
        {
            "op": "subscribe",
            "id": 4,
            "subjects": ["/a/b", "/a/c"],
            "history": 128,
            "conflation": 3600000,
            "slow": "conflate",
            "since": {"/a/b": [1700000000000, 9007199254740991], "/a/c": [0, 0]},
        },
    ),
    (
        "subscribe to 16 subjects",
        "3.2",
        {"op": "subscribe", "id": 5, "subjects": [f"/s/{number}" for number in range(16)]},
    ),
    (
        "subscribe to a pattern",
        "3.8",
        {
            "op": "subscribe",
            "id": 6,
            "subjects": ["/stocks/us/*"],
            "since": {"/stocks/us/*": [0, 0], IBM: [1700000000000, 41]},
        },
    ),
    ("unsubscribe", "3.3", {"op": "unsubscribe", "id": 3, "subjects": [IBM]}),
    (
        "publish",
        "3.4",
        {
            "op": "publish",
            "id": 4,
            "subject": "/chat/room1",
            "content": "hi",
            "fields": {"from": "ann"},
            "retained": False,
            "qos": "standard",
            "reply_to": "/inbox/ann",
            "closure": "c-17",
        },
    ),
    (
        "publish numbered",
        "3.4",
        {"op": "publish", "id": 4, "subject": "/a/b", "content": "x", "closure": "c-18", "publication": 7},
    ),
    (
        "publish what replaces",
        "3.4",
        {"op": "publish", "id": 4, "subject": "/a/b", "content": "x", "closure": "c-19", "replace": True},
    ),
    (
        "publish a removal",
        "3.4",
        {"op": "publish", "id": 4, "subject": "/a/b", "content": "", "closure": "c-20", "removed": True},
    ),
    (
        "publish in a trace",
        "3.4",
        {
            "op": "publish",
            "id": 4,
            "subject": "/a/b",
            "content": "x",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        },
    ),
    ("publish without id", "3.4", {"op": "publish", "subject": "/a/b", "content": ""}),
    (
        "publish binary",
        "3.4",
        {"op": "publish", "id": 300, "subject": "/a/b", "content": BINARY, "fields": {"raw": b"\x00", "none": b""}},
    ),
    ("publish any script", "3.4", {"op": "publish", "subject": "/a/b", "content": TEXT, "fields": {TEXT: TEXT}}),
    ("token", "3.5", {"op": "token", "id": 5, "token": "eyJ…"}),
    ("ping", "3.6", {"op": "ping", "id": 6}),
    ("presence", "3.9", {"op": "presence", "id": 7, "subject": "/chat/room1"}),
    ("presence of all", "3.9", {"op": "presence", "id": 7}),
    ("advertise", "3.10", {"op": "advertise", "id": 8, "patterns": ["/stocks/**", "/bonds/*"]}),
    ("advertise nothing", "3.10", {"op": "advertise", "id": 8, "patterns": []}),
    ("respond", "3.11", {"op": "respond", "id": 9, "patterns": ["/quotes/*"]}),
    ("respond to nothing", "3.11", {"op": "respond", "id": 9, "patterns": []}),
    (
        "request",
        "3.12",
        {
            "op": "request",
            "id": 10,
            "subject": "/quotes/get",
            "content": "IBM",
            "fields": {"market": "us"},
            "timeout": 2000,
            "replies": 3,
        },
    ),
    ("request plain", "3.12", {"op": "request", "id": 10, "subject": "/quotes/get", "content": ""}),
    (
        "request binary",
        "3.12",
        {"op": "request", "id": 300, "subject": "/a/b", "content": BINARY, "fields": {"b": b"", TEXT: TEXT}},
    ),
    (
        "reply",
        "3.13",
        {"op": "reply", "id": 11, "to": INBOX, "content": "193.20", "fields": {"bid": "193.19"}, "more": True},
    ),
    ("reply, the last", "3.13", {"op": "reply", "id": 12, "to": INBOX, "content": BINARY}),
    ("reply of nothing", "3.13", {"op": "reply", "to": INBOX}),
    (
        "reply with an error",
        "3.13",
        {"op": "reply", "id": 13, "to": INBOX, "error": "no_such_stock", "reason": "there is no ZZZ"},
    ),
    *[
        (f"ping with the id {number}", "1.3", {"op": "ping", "id": number})
        for number in (0, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 9007199254740991)
    ],
]

SERVER_ANSWERS: list[Case] = [
    (
        "connected",
        "4.1",
        {
            "op": "connected",
            "id": 1,
            "server": "9f2c…",
            "epoch": 1700000000000,
            "user": "alice",
            "time": 1700000000500,
            "base": 1700000000000,
            "ping_ms": 25000,
            "expires": 1700043200000,
            "frame_bytes": 2162688,
        },
    ),
    (
        "connected anonymous",
        "4.1",
        {
            "op": "connected",
            "id": 1,
            "server": "9f2c",
            "epoch": 1700000000000,
            "user": "",
            "time": 1700000000500,
            "base": 1700000000000,
            "ping_ms": 25000,
        },
    ),
    (
        "subscribed",
        "4.2",
        {
            "op": "subscribed",
            "id": 2,
            "results": [
                {
                    "subject": IBM,
                    "sid": 17,
                    "epoch": 1700000000000,
                    "seq": 41,
                    "recovery": "recovered",
                    "messages": 3,
                    "conflation": 500,
                },
                {"subject": "/stocks/us/AAPL", "error": "denied", "reason": "no rule allows it"},
            ],
        },
    ),
    (
        "subscribed by itself",
        "4.2",
        {"op": "subscribed", "results": [{"subject": IBM, "sid": 0, "epoch": 1700000000000, "seq": 0}]},
    ),
    ("subscribed to a pattern", "3.8", {"op": "subscribed", "id": 6, "results": [{"subject": "/stocks/us/*"}]}),
    (
        "a pattern of which nothing may be read",
        "3.8",
        {
            "op": "subscribed",
            "id": 6,
            "results": [{"subject": "/stocks/us/*", "reason": "no rule allows it", "rights": "denied"}],
        },
    ),
    (
        "a pattern of which a part may be read by now",
        "3.8",
        {
            "op": "subscribed",
            "results": [{"subject": "/stocks/**", "reason": "rule 12 denies it", "rights": "partial"}],
        },
    ),
    (
        "subscribed by a pattern",
        "3.8",
        {
            "op": "subscribed",
            "results": [
                {
                    "subject": IBM,
                    "pattern": "/stocks/us/*",
                    "sid": 17,
                    "epoch": 1700000000000,
                    "seq": 42,
                    "recovery": "recovered",
                    "messages": 1,
                },
            ],
        },
    ),
    (
        "subscribed not ready, invalid, limit, resynchronised",
        "4.2",
        {
            "op": "subscribed",
            "id": 2,
            "results": [
                {"subject": "/a/b", "error": "not_ready", "reason": "the rights have not arrived", "retry_ms": 500},
                {"subject": "/a", "error": "invalid", "reason": "only one segment"},
                {"subject": "/a/c", "error": "limit", "reason": "10000 subscriptions"},
                {
                    "subject": "/a/d",
                    "sid": 65536,
                    "epoch": 1700000900000,
                    "seq": 9007199254740991,
                    "recovery": "resynchronised",
                    "messages": 1,
                },
            ],
        },
    ),
    ("unsubscribed", "4.3", {"op": "unsubscribed", "id": 3, "subjects": [IBM]}),
    ("unsubscribed from nothing", "4.3", {"op": "unsubscribed", "id": 3, "subjects": []}),
    (
        "published",
        "4.4",
        {"op": "published", "id": 4, "closure": "c-17", "status": "ok", "epoch": 1700000000000, "seq": 42},
    ),
    (
        "published denied",
        "4.4",
        {"op": "published", "id": 4, "closure": "c-17", "status": "denied", "reason": "no rule allows it"},
    ),
    (
        "published out of order",
        "4.4",
        {"op": "published", "id": 4, "closure": "c-18", "status": "out_of_order", "reason": "numbers rise"},
    ),
    ("published with standard quality", "4.4", {"op": "published", "closure": "c-17", "status": "ok"}),
    ("renewed", "4.5", {"op": "renewed", "id": 5, "user": "alice", "expires": 1700043200000}),
    ("pong", "4.6", {"op": "pong", "id": 6, "time": 1700000000700}),
    ("revoked", "4.7", {"op": "revoked", "subjects": [IBM], "reason": "rule 12 denies it"}),
    ("epoch", "4.8", {"op": "epoch", "sid": 17, "epoch": 1700000900000, "seq": 42}),
    ("base", "4.9", {"op": "base", "base": 1700000000000}),
    ("expiring", "4.10", {"op": "expiring", "expires": 1700043200000}),
    ("notice", "4.11", {"op": "notice", "code": "stale", "text": "nothing new arrives"}),
    (
        "notice of a drain",
        "4.11",
        {
            "op": "notice",
            "code": "drain",
            "text": "the server stops",
            "servers": [["wss://b.example.com/ws", 100], ["wss://c.example.com/ws", 0]],
        },
    ),
    ("error", "4.12", {"op": "error", "id": 9, "code": "invalid", "reason": 'unknown op "subscribee"'}),
    ("error without id", "4.12", {"op": "error", "code": "limit", "reason": TEXT}),
    ("lagging", "4.13", {"op": "lagging", "sids": [17, 18]}),
    ("caught up", "4.13", {"op": "caught_up", "sids": [17, 18]}),
    (
        "present",
        "4.14",
        {
            "op": "present",
            "id": 7,
            "subject": "/chat/room1",
            "users": [{"user": "ann", "connections": 2}],
            "anonymous": 3,
            "more": 70000,
            "stale": True,
        },
    ),
    (
        "present in any script",
        "4.14",
        {
            "op": "present",
            "id": 7,
            "subject": "/Ελλάδα/日本語",
            "users": [{"user": TEXT, "connections": 0}, {"user": "日本", "connections": 300}],
        },
    ),
    ("present nobody", "4.14", {"op": "present", "id": 7, "users": [], "stale": True}),
    (
        "advertised",
        "4.15",
        {
            "op": "advertised",
            "id": 8,
            "results": [
                {"pattern": "/stocks/**"},
                {"pattern": "/bonds", "error": "invalid", "reason": "only one segment"},
            ],
        },
    ),
    ("advertised nothing", "4.15", {"op": "advertised", "id": 8, "results": []}),
    ("wanted", "4.15", {"op": "interest", "subjects": [IBM], "wanted": True}),
    ("not wanted any more", "4.15", {"op": "interest", "subjects": [IBM, "/a/b"], "wanted": False}),
    (
        "responding",
        "4.16",
        {
            "op": "responding",
            "id": 9,
            "results": [
                {"pattern": "/quotes/*"},
                {"pattern": "/bonds", "error": "invalid", "reason": "only one segment"},
            ],
        },
    ),
    (
        "asked",
        "4.17",
        {
            "op": "asked",
            "to": INBOX,
            "subject": "/quotes/get",
            "content": "IBM",
            "fields": {"market": "us"},
            "timeout": 2000,
            "replies": 3,
            "user": "ann",
        },
    ),
    ("asked binary", "4.17", {"op": "asked", "to": INBOX, "subject": "/a/b", "content": BINARY, "timeout": 300000}),
    ("over", "4.17", {"op": "over", "to": INBOX, "reason": "the time for it is over"}),
    ("replied", "4.18", {"op": "replied", "id": 11, "status": "ok"}),
    (
        "replied too late",
        "4.18",
        {"op": "replied", "id": 12, "status": "gone", "reason": "nobody waits for this reply any more"},
    ),
    (
        "response",
        "4.19",
        {"op": "response", "id": 10, "content": "193.20", "fields": {"bid": "193.19"}, "more": True},
    ),
    ("response, the last", "4.19", {"op": "response", "id": 10, "content": BINARY, "fields": {"b": b"\x00"}}),
    ("response of nothing", "4.19", {"op": "response", "id": 10}),
    (
        "response of nobody",
        "4.19",
        {
            "op": "response",
            "id": 10,
            "error": "no_responders",
            "reason": "nobody answers requests to this subject",
            "own": True,
        },
    ),
    (
        "response with a responder's error",
        "4.19",
        {"op": "response", "id": 10, "error": "no_such_stock", "reason": "there is no ZZZ"},
    ),
    ("lagging in many", "4.13", {"op": "lagging", "sids": [0, 127, 128, 65536, 9007199254740991, *range(12)]}),
]

MESSAGES: list[Case] = [
    ("update", "5.1", [17, 42, 5230, "193.20", {"bid": "193.19"}]),
    ("update without fields", "5.1", [17, 43, 5231, "193.21"]),
    ("standard quality", "5.1", [17, 0, 5231, "193.22"]),
    ("snapshot", "5.2", [17, 41, 5200, "193.10", {"bid": "193.00"}, {"kind": "snapshot"}]),
    ("recovered", "5.2", [17, 42, 5230, "193.20", None, {"kind": "recovered"}]),
    ("historical", "5.2", [17, 40, 5100, "193.00", {"bid": "192.90"}, {"kind": "historical"}]),
    ("removal", "5.4", [17, 45, 5310, "", None, {"removed": True}]),
    (
        "a message of a trace",
        "5.5",
        [17, 46, 5320, "x", None, {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}],
    ),
    ("removed since", "5.4", [17, 45, 5310, "", None, {"kind": "snapshot", "removed": True}]),
    ("not retained", "5.2", [17, 44, 5300, "193.30", None, {"retained": False}]),
    (
        "every key of meta",
        "5.2",
        [
            17,
            45,
            5301,
            "question",
            {"a": "1"},
            {
                "kind": "recovered",
                "retained": False,
                "reply_to": "/inbox/ann",
                "closure": "c-17",
                "as_of": "2026-01-01T00:00:00Z",
            },
        ],
    ),
    ("as of a number", "5.2", [17, 46, 5302, "x", None, {"as_of": 1700000000000}]),
    ("as of a map", "5.2", [17, 46, 5302, "x", None, {"as_of": {"time": 17, "batch": 41, "job": "b", "version": 7}}]),
    ("as of a map with a text", "5.2", [17, 46, 5302, "x", None, {"as_of": {"time": "then"}}]),
    ("empty content", "1.4", [17, 47, 5303, ""]),
    ("empty field", "1.4", [17, 48, 5304, "x", {"a": ""}]),
    ("any script", "1.4", [17, 49, 5305, TEXT, {TEXT: TEXT}]),
    ("binary content", "1.4", [17, 50, 5306, BINARY]),
    ("binary field", "1.4", [17, 51, 5307, "x", {"raw": BINARY, "text": "y"}]),
    ("empty binary", "1.4", [17, 52, 5308, b"", {"raw": b""}]),
    ("binary with meta", "1.4", [17, 53, 5309, b"\xff", None, {"kind": "snapshot"}]),
    ("sixteen fields", "1.3", [17, 54, 5310, "x", {f"field {number}": str(number) for number in range(16)}]),
    *[(f"text of {length} bytes", "1.3", [17, 55, 5311, "x" * length]) for length in (31, 32, 255, 256)],
    ("binary of 255 bytes", "1.3", [17, 56, 5312, b"x" * 255]),
    ("the largest numbers", "1.3", [4294967295, 9007199254740991, 4294967296, "x"]),
    *[
        (f"a time of {time} ms", "1.5", [0, 1, time, "x"])
        for time in (0, 127, 128, 255, 256, 65535, 65536, -1, -32, -33, -128, -129, -32768, -32769, -2147483649)
    ],
]

PUBLISHER_TO_SERVER: list[Case] = [
    ("hello", "6.2", ["hello", {"version": 1, "token": "eyJ…", "publisher": "desk-7", "client": "py/1"}]),
    ("hello anonymous", "6.2", ["hello", {"version": 1}]),
    (
        "batch",
        "6.2",
        [
            "batch",
            1,
            [
                ["/a/b", "x"],
                ["/a/b", TEXT, {"bid": "193.19", "raw": b"\x00\xff"}],
                ["/a/b", BINARY, None, {"retained": False}],
                [
                    "/a/b",
                    "question",
                    {"a": ""},
                    {
                        "retained": False,
                        "qos": "standard",
                        "reply_to": "/inbox/ann",
                        "closure": "c-17",
                        "id": 71,
                        "as_of": "2026-01-01T00:00:00Z",
                    },
                ],
            ],
        ],
    ),
    ("batch of nothing", "6.2", ["batch", 65536, []]),
    ("batch with a version", "6.2", ["batch", 3, [["/a/b", "x", None, {"as_of": {"version": 7}}]]]),
    ("batch with a removal", "6.2", ["batch", 4, [["/a/b", "", None, {"removed": True}]]]),
    ("batch numbered", "6.2", ["batch", 2, [["/a/b", "x"], ["/a/c", "y", {"bid": "1"}]], 4711]),
    ("publisher's ping", "6.2", ["ping", 7]),
    ("publisher advertises", "6.2", ["advertise", 8, ["/stocks/**", "/bonds/*"]]),
    ("publisher advertises nothing", "6.2", ["advertise", 9, []]),
]

SERVER_TO_PUBLISHER: list[Case] = [
    (
        "welcome",
        "6.3",
        [
            "welcome",
            {
                "version": 1,
                "server": "9f2c…",
                "epoch": 1700000000000,
                "user": "spark",
                "window": 16,
                "frame_bytes": 4194304,
                "batch_messages": 10000,
            },
        ],
    ),
    ("ack", "6.3", ["ack", 1, 1700000000000, [42, 0, ["denied", "no rule allows it"], 9007199254740991]]),
    ("ack of a retry", "6.3", ["ack", 2, 1700000000000, [[1600000000000, 41], 43, ["stale", "too old"]]]),
    ("publisher's pong", "6.3", ["pong", 7]),
    ("publisher advertised", "6.3", ["advertised", 8, [0, ["invalid", "only one segment"]]]),
    ("publisher told of interest", "6.3", ["interest", [IBM, "/a/b"], True]),
    ("close", "6.3", ["close", 4000, "drain: the server is stopping"]),
]

FILES: list[tuple[str, str, list[Case]]] = [
    ("client_to_server", "client", CLIENT_TO_SERVER),
    ("server_answers", "server", SERVER_ANSWERS),
    ("messages", "server", MESSAGES),
    ("publisher_to_server", "publisher", PUBLISHER_TO_SERVER),
    ("server_to_publisher", "publisher server", SERVER_TO_PUBLISHER),
]
