"""The attacks, one a line of the table in docs/operate/limits.md: what is sent, and with which code it ends."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec

from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.packets import (
    AnyPacket,
    ConnectPacket,
    Filter,
    PublishPacket,
    SubscribePacket,
    UnsubscribePacket,
    Will,
)
from fastpath.core.mqtt.reasons import V5
from tests.support.edge.wire import BINARY, PING, TEXT, masked, packed, request
from tests.support.tokens import SECRET, mint

from .flood import Flood

HELLO = masked(TEXT, b'{"op":"ping","id":1}')
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
CHUNKED = (
    b"POST /api/publish HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LONG = [f"/long/{number}/" + "x" * 490 for number in range(1000)]
LARGE_FRAME = masked(TEXT, b" " * (1 << 20))[:14]
"""The beginning of one."""

MQTT = request("/mqtt", headers="Sec-WebSocket-Protocol: mqtt\r\n")
FILTERS = [Filter(text=text) for number in range(100) for text in (f"a/+/{number}/#", f"+/b/{number}", f"c/{number}")]
GUEST = ConnectPacket(level=V5, client_id="")
SHARED = [f"$share/{number}/attacked/+" for number in range(50)]
MANY = [f"/churn/{number}" for number in range(1000)]


@dataclass(frozen=True)
class Attack:
    """``ends`` are the codes with which connections may have been closed (0: without a frame); with ``must_end`` some
    must have been."""

    flood: Callable[[], Flood]
    ends: tuple[int | str, ...] = ()
    seconds: float = 1.0
    must_end: bool = True
    times_max: float = 25.0
    """How much longer those who behave may wait, in the median, than while the same attack goes elsewhere: about
    half a millisecond. Every connection that fills its turns of a millisecond (runtime/scheduler.py) adds one at
    most."""


def command(**keys: Any) -> bytes:
    """A command as a frame."""
    return masked(TEXT, msgspec.json.encode(keys))


def compressed(payload: bytes) -> bytes:
    """A message as a client with permessage-deflate sends it."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return masked(TEXT | 0x40, (stream.compress(payload) + stream.flush(zlib.Z_SYNC_FLUSH))[:-4])


def mqtt(*said: AnyPacket) -> bytes:
    """Packets of MQTT 5, a frame each."""
    return b"".join(masked(BINARY, encode(one, V5)) for one in said)


def published(qos: int, *, retain: bool = False, topics: int = 1, size: int = 140) -> bytes:
    """A thousand publications by MQTT, each with a packet id of its own."""
    return mqtt(
        *(
            PublishPacket(
                topic=f"attacked/{number % topics}",
                payload=b"x" * size,
                qos=qos,
                retain=retain,
                packet_id=number + 1 if qos else 0,
            )
            for number in range(1000)
        )
    )


def staged(attempts: int) -> bytes:
    """Frames that stage so many attempts at one partition, of a row each."""
    runs = [["/staged/a", ["1"]]]
    return b"".join(packed("stage", 1, ["t", 0, 0, attempt, 0], 1, runs) for attempt in range(attempts))


def with_token(token: str) -> bytes:
    """An opening handshake that brings a token."""
    return request(f"/ws?token={token}")


def _unsigned() -> str:
    return jwt.encode({"aud": "fastpath", "sub": "eve", "uid": "1", "su": True, "exp": 9_999_999_999}, "", "none")


ATTACKS: dict[str, Attack] = {
    "nothing": Attack(lambda: Flood(opening=HELLO)),
    "slow handshakes, 500 at a time": Attack(
        lambda: Flood(head=request()[:40], chunk=b"X", pace=0.2, connections=500),
        (408, "reset"),
        2.5,
    ),
    "slow readers, who ask for pongs and never take them": Attack(
        lambda: Flood(opening=HELLO, chunk=masked(PING, b"x" * 125) * 500, read=False, connections=50),
        ("reset",),
        2.0,
        must_end=False,
    ),
    "frames announced as 2^63 bytes": Attack(
        lambda: Flood(opening=b"\x82\xff" + (1 << 63).to_bytes(8) + bytes(4), connections=20), (1002, 1009, "reset")
    ),
    "frames of 64 MiB": Attack(
        lambda: Flood(opening=b"\x82\xff" + (64 << 20).to_bytes(8) + bytes(4), chunk=bytes(1 << 20)),
        (1009, "reset"),
        times_max=50.0,  # the kernel's copying counts, too
    ),
    "empty fragments": Attack(
        lambda: Flood(opening=HELLO + masked(TEXT, b"", final=False), chunk=masked(0, b"", final=False) * 10_000),
        (1009, "reset"),
        2.0,
        must_end=False,
    ),
    "pings": Attack(lambda: Flood(opening=HELLO, chunk=masked(PING, b"") * 10_000)),
    "commands": Attack(lambda: Flood(opening=HELLO, chunk=HELLO * 1000)),
    "subscribe and unsubscribe": Attack(
        lambda: Flood(
            opening=HELLO,
            chunk=command(op="subscribe", id=2, subjects=MANY) + command(op="unsubscribe", id=3, subjects=MANY),
        ),
    ),
    "subscribe and unsubscribe, one by one": Attack(
        lambda: Flood(
            opening=HELLO,
            chunk=(
                command(op="subscribe", id=2, subjects=["/churn/1"])
                + command(op="unsubscribe", id=3, subjects=["/churn/1"])
            )
            * 300,
        )
    ),
    "subscribe to patterns and unsubscribe": Attack(
        lambda: Flood(
            opening=HELLO
            + b"".join(command(op="publish", subject=f"/p/{number}", content="x") for number in range(300)),
            chunk=(
                command(op="subscribe", id=2, subjects=["/p/*", "/**", "/*/*"])
                + command(op="unsubscribe", id=3, subjects=["/p/*", "/**", "/*/*"])
            )
            * 20,
        ),
        times_max=40.0,
    ),
    "long commands": Attack(
        lambda: Flood(opening=HELLO, chunk=command(op="publish", subject="/long/a", content="\x01" * 340_000)),
        times_max=50.0,
    ),
    "commands of many long names": Attack(
        lambda: Flood(
            opening=HELLO,
            chunk=command(op="subscribe", id=2, subjects=LONG) + command(op="unsubscribe", id=3, subjects=LONG),
        ),
        times_max=50.0,
    ),
    "long commands that come a byte at a time": Attack(
        lambda: Flood(opening=HELLO + LARGE_FRAME, chunk=b"x", pace=0.01, connections=300)
    ),
    "advertisements and responders": Attack(
        lambda: Flood(
            opening=HELLO,
            chunk=command(op="advertise", id=2, patterns=[*MANY[:100], "/**"])
            + command(op="respond", id=3, patterns=[f"{name}/*" for name in MANY[:100]])
            + command(op="respond", id=4, patterns=[]),
        ),
        times_max=40.0,
    ),
    "requests that nobody answers": Attack(
        lambda: Flood(
            opening=HELLO,
            chunk=b"".join(command(op="request", id=number, subject="/nobody/a", content="x") for number in range(300)),
        ),
        times_max=40.0,
    ),
    "requests that who is asked never answers": Attack(
        lambda: Flood(
            opening=HELLO + command(op="respond", id=2, patterns=["/silent/*"]),
            chunk=b"".join(
                command(op="request", id=number, subject="/silent/a", content="x", timeout=100) for number in range(300)
            ),
        ),
        (4001, "reset"),
        must_end=False,
        times_max=40.0,
    ),
    "who asks, answers and leaves at once": Attack(
        lambda: Flood(
            opening=command(op="respond", id=2, patterns=["/left/*"])
            + b"".join(command(op="request", id=number, subject="/left/a", content="x") for number in range(3, 23))
            + b"\x88\x80\0\0\0\0",
            connections=50,
            connects_per_s=100_000,
        ),
        (0, 1000, 1005, "reset"),
        times_max=40.0,
    ),
    "replies that nobody has asked for": Attack(
        lambda: Flood(
            opening=HELLO,
            chunk=b"".join(
                command(op="reply", id=number, to=f"/__sys__/inbox/guessed/{number}", content="x")
                for number in range(300)
            ),
        ),
        times_max=40.0,
    ),
    "filters of MQTT": Attack(
        lambda: Flood(
            head=MQTT,
            opening=mqtt(GUEST),
            chunk=mqtt(
                SubscribePacket(packet_id=1, filters=FILTERS),
                UnsubscribePacket(packet_id=2, filters=[one.text for one in FILTERS]),
            ),
        ),
        times_max=40.0,
    ),
    "groups of MQTT, joined and left": Attack(
        lambda: Flood(
            head=MQTT,
            opening=mqtt(GUEST),
            chunk=mqtt(
                SubscribePacket(packet_id=1, filters=[Filter(text=text) for text in SHARED]),
                UnsubscribePacket(packet_id=2, filters=SHARED),
            ),
        ),
        times_max=40.0,
    ),
    "publications of MQTT, QoS 1": Attack(
        lambda: Flood(head=MQTT, opening=mqtt(GUEST), chunk=published(1)), times_max=40.0
    ),
    "publications of MQTT, QoS 2, that are never released": Attack(
        lambda: Flood(head=MQTT, opening=mqtt(GUEST), chunk=published(2), connections=20),
        (0, 1000, 1002, "reset"),
        must_end=False,
        times_max=40.0,
    ),
    "retained messages of MQTT, and their removal": Attack(
        lambda: Flood(
            head=MQTT,
            opening=mqtt(GUEST),
            chunk=published(0, retain=True, topics=100) + published(0, retain=True, topics=100, size=0),
        ),
        times_max=40.0,
    ),
    "readers of MQTT, who acknowledge nothing and publish": Attack(
        lambda: Flood(
            head=MQTT,
            opening=mqtt(GUEST, SubscribePacket(packet_id=1, filters=[Filter(text="attacked/#", qos=1)])),
            chunk=published(1, topics=10),
            read=False,
        ),
        (0, 1000, 4001, "reset"),
        must_end=False,
        times_max=40.0,
    ),
    "wills of MQTT": Attack(
        lambda: Flood(
            head=MQTT,
            opening=mqtt(
                ConnectPacket(level=V5, client_id="", will=Will(topic="attacked/will", payload=b"x" * 10_000, qos=1))
            )
            + b"\x88\x80\0\0\0\0",
            connections=50,
        ),
        (0, 1000, 1005, "reset"),
        times_max=40.0,
    ),
    "one client id of MQTT, taken over again and again": Attack(
        lambda: Flood(head=MQTT, opening=mqtt(ConnectPacket(level=V5, client_id="one")), connections=50),
        (0, 1000, 4000, 4002, "reset"),
        times_max=40.0,
    ),
    "packets of MQTT that are announced as 256 MB": Attack(
        lambda: Flood(
            head=MQTT, opening=mqtt(GUEST) + masked(BINARY, b"\x30\xff\xff\xff\x7f" + bytes(1000)), connections=20
        ),
        (0, 1000, 1002, 1009, "reset"),
    ),
    "sessions of MQTT, begun and left": Attack(
        lambda: Flood(head=MQTT, opening=mqtt(GUEST) + b"\x88\x80\0\0\0\0", connections=50),
        (0, 1000, 1005, "reset"),
        times_max=40.0,
    ),
    "pings of publishers": Attack(
        lambda: Flood(
            head=b"", opening=packed("hello", {"version": 1}), chunk=packed("ping", 1) * 10_000, port="publisher_url"
        ),
    ),
    "large batches that are not numbered anew": Attack(
        lambda: Flood(
            head=b"",
            opening=packed("hello", {"version": 1}) + packed("batch", 1, [["/large/a", "x"]] * 10_000),
            port="publisher_url",
            chunk=packed("batch", 1, [["/large/a", "x"]] * 10_000),
            connections=20,
        ),
        (4500, 0, "reset"),
        must_end=False,
        times_max=50.0,
    ),
    "errors": Attack(
        lambda: Flood(opening=command(op="nothing", id=1) * 101, connections=20), (4505, "reset"), times_max=40.0
    ),
    "malformed commands": Attack(lambda: Flood(opening=masked(TEXT, b"[" * 1000), connections=20), (4500, "reset")),
    "deflate bombs": Attack(
        lambda: Flood(head=request(headers=DEFLATE), opening=HELLO, chunk=compressed(b"0" * (1 << 21)) * 50),
        (4500, 1009, "reset"),
    ),
    "deflated commands": Attack(
        lambda: Flood(
            head=request(headers=DEFLATE),
            opening=HELLO,
            chunk=compressed(b'{"op":"ping","id":1,"x":"' + b"0" * (250 << 10) + b'"}') * 50,
        )
    ),
    "deflated commands, as large as they may be": Attack(
        lambda: Flood(
            head=request(headers=DEFLATE),
            opening=HELLO,
            chunk=compressed(b'{"op":"ping","id":1,"x":"' + b"0" * (1 << 21) + b'"}') * 20,
        )
    ),
    "pages of another origin": Attack(
        lambda: Flood(head=request(headers="Origin: https://evil.example.org\r\n"), connections=20), (403, "reset")
    ),
    "tokens of another audience": Attack(
        lambda: Flood(head=with_token(mint("eve", audience="elsewhere")), connections=20), (4501, "reset")
    ),
    "tokens without a signature": Attack(lambda: Flood(head=with_token(_unsigned()), connections=20), (4501, "reset")),
    "tokens of another secret": Attack(
        lambda: Flood(head=with_token(mint("eve", superuser=True, secret=SECRET[::-1])), connections=20),
        (4501, "reset"),
    ),
    "a storm of 5,000 that come at once": Attack(
        lambda: Flood(
            opening=command(op="subscribe", id=2, subjects=["/churn/1"], history=10) + b"\x88\x80\0\0\0\0",
            connections=5000,
            connects_per_s=0,
        ),
        (0, 408, 1005, "reset"),
        4.0,
    ),
    "reconnecting, as fast as it goes": Attack(
        lambda: Flood(
            opening=command(op="subscribe", id=2, subjects=["/churn/1"]) + b"\x88\x80\0\0\0\0",
            connections=50,
            connects_per_s=100_000,
        ),
        (0, 1005, "reset"),
    ),
    "garbage at the publisher port": Attack(
        lambda: Flood(
            head=b"", opening=packed("hello", {"version": 9}) + bytes(100), port="publisher_url", connections=20
        ),
        (0, "reset"),
    ),
    "stagers of bombs, who abort what is not there": Attack(
        lambda: Flood(
            head=b"",
            opening=packed("hello", {"version": 1}) + staged(5000),
            chunk=packed("stage", 2, ["t", 1, 0, 1, 0], 1, zlib.compress(bytes(16 << 20), 9)) * 20
            + packed("abort", 2, "t", 0, 9_999, None) * 2000
            + packed("commit", 3, "t", 2, [[number, 1, 1] for number in range(1000)]) * 20,
            port="publisher_url",
        ),
        (0, "reset"),
        must_end=False,
    ),
    "readers who follow much and never read": Attack(
        lambda: Flood(
            head=b"",
            opening=packed("hello", {"version": 1}),
            chunk=packed("positions", 1, ["/*/*", "/**", "/*"], {"news": True})
            + packed("positions", 2, [f"/*/{number}/**" for number in range(100)], {"wait_ms": 100})
            + packed("read", 3, [["/staged/a"]] * 500),
            read=False,
            port="publisher_url",
        ),
        (0, "reset"),
        must_end=False,
    ),
    "streams of events that nobody reads": Attack(
        lambda: Flood(
            head=f"GET /events?subjects={','.join(MANY[:300])},/**&history=1000 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
            chunk=b"x" * 10_000,
            read=False,
            connections=200,
        ),
        (0, "reset"),
        must_end=False,
    ),
    "streams of sessions that nobody reads": Attack(
        lambda: Flood(
            head=b"GET /session/stream HTTP/1.1\r\nHost: x\r\n\r\n", chunk=b"x" * 10_000, read=False, connections=200
        ),
        (0, "reset"),
        must_end=False,
    ),
    "sessions that poll once and never again": Attack(
        lambda: Flood(head=b"", chunk=b"GET /session/poll HTTP/1.1\r\nHost: x\r\n\r\n" * 100, connections=20),
        (0, 503, "reset"),
        must_end=False,
    ),
    "requests over HTTP, pipelined": Attack(
        lambda: Flood(head=b"", chunk=b"GET /api/history?subject=/churn/1 HTTP/1.1\r\nHost: x\r\n\r\n" * 100),
        (0, "reset"),
        must_end=False,
    ),
    "callers who never read their answers": Attack(
        lambda: Flood(
            head=b"",
            chunk=b"GET /api/history?subject=/churn/1 HTTP/1.1\r\nHost: x\r\n\r\n" * 100,
            read=False,
            connections=50,
        ),
        ("reset",),
        2.0,
        must_end=False,
    ),
    "bodies in chunks of one byte": Attack(
        lambda: Flood(head=b"", opening=CHUNKED, chunk=b"1\r\n \r\n" * 10_000, connections=20),
        (0, "reset"),
        2.0,
        must_end=False,
    ),
    "slow bodies, 500 at a time": Attack(
        lambda: Flood(head=b"", opening=CHUNKED, chunk=b"1\r\n \r\n", pace=0.2, connections=500), must_end=False
    ),
    "bodies that a proxy might read differently": Attack(
        lambda: Flood(head=b"", opening=CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"), connections=20),
        (0, "reset"),
    ),
    "binary on a text form": Attack(lambda: Flood(opening=masked(BINARY, b"\x00"), connections=20), (4500, "reset")),
}
