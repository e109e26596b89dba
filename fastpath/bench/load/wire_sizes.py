"""Bytes per message on the wire: ours from the server's own encoder, the others' from their published formats."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from fastpath.core.protocol.codec import JSON, MSGPACK, Form, encode_message
from fastpath.core.protocol.messages import Fields, Message
from fastpath.core.websocket.frames import BINARY, TEXT, encode_frame

SUBJECT = "/stocks/us/IBM"
TOPIC = "stocks/us/IBM"
"""The same subject as the others name it: an MQTT topic, a Centrifugo channel."""

SID, SEQ, T = 17, 123_456, 30_000
"""A subject's id, a day's sequence number, and a time half way between two bases (protocol.md 4.9)."""

CHANNEL_ID = 17
TOPIC_ALIAS = 17

_HEADLINE = (
    "IBM rises 2.4% to 193.20 after third-quarter results beat estimates; outlook raised, "
    "software and consulting lead, shares at a new high now."
)


@dataclass(frozen=True)
class Sample:
    """A message to be framed; ``fields`` are named values besides the content."""

    title: str
    content: str
    fields: Fields

    @property
    def own_bytes(self) -> int:
        """Content, field names and field values in UTF-8: what no framing can save."""
        return sum(
            len(text.encode() if isinstance(text, str) else text)
            for text in (self.content, *self.fields, *self.fields.values())
        )

    @property
    def document(self) -> bytes:
        """The message as JSON, for systems without fields: the array that holds it in the fewest bytes."""
        value = [self.content, self.fields] if self.fields else self.content
        return json.dumps(value, separators=(",", ":")).encode()

    @property
    def opaque(self) -> bytes:
        """The message where the payload may be any bytes: the bare content if there is nothing besides."""
        return self.document if self.fields else self.content.encode()


SAMPLES = (
    Sample("F1: 140 bytes of text", _HEADLINE, {}),
    Sample(
        "A tick with 4 fields", "193.20", {"bid": "193.19", "ask": "193.21", "volume": "1482300", "change": "+4.53"}
    ),
    Sample("A sparse update, 1 of 4 fields", "193.20", {"bid": "193.19"}),
)


@dataclass(frozen=True)
class Wired:
    """One framing of one sample: bytes of the WebSocket frame, as it is and with permessage-deflate."""

    framing: str
    own_bytes: int
    plain_bytes: int
    deflated_bytes: int
    header_bytes: int
    """Bytes of the uncompressed frame's header: what RFC 6455 5.2 puts before the payload, 2 bytes up to 125 and 4
    beyond."""

    @property
    def overhead_bytes(self) -> int:
        """Bytes that the framing adds to content and fields, the WebSocket header included."""
        return self.plain_bytes - self.own_bytes


def deflate(payload: bytes) -> bytes:
    """Return a message's payload compressed on its own: RFC 7692 7.2.1, no context takeover, level 6."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    return (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\x00\x00\xff\xff")


def fastpath(sample: Sample, form: Form, seq: int = SEQ) -> bytes:
    """Return the payload that the server sends (protocol.md 5.1), from the encoder that the server uses."""
    message = Message(SUBJECT, sample.content, sample.fields, seq=seq, time=T)
    return encode_message(message, SID, 0, form)


def centrifugo_json(sample: Sample) -> bytes:
    """Return Centrifugo's push in JSON: github.com/centrifugal/protocol client.proto, Reply.push.pub, as protojson
    names it.

    With the offset, which recovery needs as ours needs the sequence number; without a time, which it can leave out.
    """
    return b'{"push":{"channel":"%s","pub":{"data":%s,"offset":%d}}}' % (TOPIC.encode(), sample.document, SEQ)


def centrifugo_protobuf(sample: Sample, *, by_id: bool = False) -> bytes:
    """Return the same push as protobuf, length-delimited: Reply.push = 4, Push.id = 1, .channel = 2, .pub = 4,
    Publication.data = 4, .offset = 6 (client.proto); ``by_id`` as newer servers do when the client asks for it."""
    publication = _protobuf(4, sample.opaque) + _tag(6, 0) + varint(SEQ)
    channel = _tag(1, 0) + varint(CHANNEL_ID) if by_id else _protobuf(2, TOPIC.encode())
    reply = _protobuf(4, channel + _protobuf(4, publication))
    return varint(len(reply)) + reply


def mqtt_3(sample: Sample) -> bytes:
    """Return a PUBLISH of MQTT 3.1.1 (section 3.3) with quality 0; it has neither a sequence number nor a time."""
    rest = len(TOPIC).to_bytes(2) + TOPIC.encode() + sample.opaque
    return b"\x30" + varint(len(rest)) + rest


def mqtt_5(sample: Sample) -> bytes:
    """Return a PUBLISH of MQTT 5 (section 3.3) with quality 0, an empty topic and property 0x23, the topic alias
    (3.3.2.3.4)."""
    properties = b"\x23" + TOPIC_ALIAS.to_bytes(2)
    rest = b"\x00\x00" + varint(len(properties)) + properties + sample.opaque
    return b"\x30" + varint(len(rest)) + rest


def varint(value: int) -> bytes:
    """Return seven bits a byte, the low ones first: protobuf's integers, and MQTT's remaining length (2.2.3)."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def _protobuf(field: int, data: bytes) -> bytes:
    return _tag(field, 2) + varint(len(data)) + data


FRAMINGS: tuple[tuple[str, int, Callable[[Sample], bytes]], ...] = (
    ("Fastpath JSON", TEXT, lambda sample: fastpath(sample, JSON)),
    ("Fastpath MessagePack", BINARY, lambda sample: fastpath(sample, MSGPACK)),
    ("Centrifugo JSON", TEXT, centrifugo_json),
    ("Centrifugo protobuf", BINARY, centrifugo_protobuf),
    ("Centrifugo by id", BINARY, lambda sample: centrifugo_protobuf(sample, by_id=True)),
    ("MQTT 3.1.1", BINARY, mqtt_3),
    ("MQTT 5, topic alias", BINARY, mqtt_5),
)
"""Every framing by its name, as payloads of WebSocket messages; "by id" is protobuf with the channel's number."""


def measure(sample: Sample) -> list[Wired]:
    """Measure every framing of one sample, each in one unmasked WebSocket frame."""
    return [
        Wired(
            name,
            sample.own_bytes,
            len(encode_frame(opcode, payload)),
            len(encode_frame(opcode, deflate(payload))),
            len(encode_frame(opcode, payload)) - len(payload),
        )
        for name, opcode, build in FRAMINGS
        for payload in [build(sample)]
    ]


def overheads_by_seq(seqs: tuple[int, ...] = (0, 100, 10_000, SEQ, 10_000_000)) -> list[tuple[int, int, int]]:
    """Return (sequence number, JSON, MessagePack): our overhead in bytes on F1's message as its subject grows old.

    0 is what standard quality sends.
    """
    sample = SAMPLES[0]
    return [
        (
            seq,
            len(encode_frame(TEXT, fastpath(sample, JSON, seq))) - sample.own_bytes,
            len(encode_frame(BINARY, fastpath(sample, MSGPACK, seq))) - sample.own_bytes,
        )
        for seq in seqs
    ]
