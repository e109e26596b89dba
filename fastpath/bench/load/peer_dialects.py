"""How the other servers are spoken to: the upgrade, what subscribes, what publishes, what says "subscribed"."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fastpath.core.websocket.frames import BINARY, TEXT

from .wire_sizes import varint

SUBSCRIBE_ID = b"\x00\x01"
"""MQTT's packet identifier of the one SUBSCRIBE."""


def masked(opcode: int, payload: bytes) -> bytes:
    """Return a frame as a client sends it (RFC 6455 5.3), with a key of zeros, so that masking costs the generator
    nothing."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, 0x80 | size, 0, 0, 0, 0)) + payload
    if size < 1 << 16:
        return bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2) + b"\0\0\0\0" + payload
    return bytes((0x80 | opcode, 0xFF)) + size.to_bytes(8) + b"\0\0\0\0" + payload


def upgrade(path: str, subprotocol: str = "") -> bytes:
    """Return the opening handshake of RFC 6455 4.1; the key is the RFC's own example."""
    offered = f"Sec-WebSocket-Protocol: {subprotocol}\r\n" if subprotocol else ""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{offered}\r\n"
    ).encode()


class PeerDialect:
    """The part that all dialects of peers have in common.

    A subclass overrides what its server wants; ``opcode`` is None without WebSocket. ``subjects`` is what a connection
    subscribes to: empty for a publisher.
    """

    name = ""
    opcode: int | None = None
    subprotocol = ""
    settled = b""
    """Bytes whose arrival says that every subscription is in force; empty if the answer to the upgrade says it."""
    publisher_per_subject = False
    """True if a publishing connection is bound to one subject."""

    def path(self, subjects: Sequence[str], publishes: str) -> str:
        """Return where the WebSocket is opened; ``publishes`` is a publisher's first subject."""
        return "/"

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        """Return what is sent as soon as the socket is connected: the upgrade, or nothing."""
        return b"" if self.opcode is None else upgrade(self.path(subjects, publishes), self.subprotocol)

    def preamble(self, number: int, subjects: Sequence[str]) -> bytes:
        """Return what is sent after the upgrade: who this is and what it wants; ``number`` tells connections apart."""
        data = self.greeting(number, subjects)
        return self.framed(data) if data else b""

    def publication(self, subject: str, payload: bytes) -> bytes:
        """Return one message, framed."""
        return self.framed(self.publish(subject, payload))

    def framed(self, data: bytes) -> bytes:
        """Return the data in a WebSocket frame where there is a WebSocket."""
        return data if self.opcode is None else masked(self.opcode, data)

    def greeting(self, number: int, subjects: Sequence[str]) -> bytes:
        """Return the preamble without its frame."""
        return b""

    def publish(self, subject: str, payload: bytes) -> bytes:
        """Return a publication without its frame."""
        return payload


class Nchan(PeerDialect):
    """The address names the channels: one to publish to, up to 255 to read."""

    name = "nchan"
    opcode = TEXT
    publisher_per_subject = True

    def path(self, subjects: Sequence[str], publishes: str) -> str:
        return f"/sub/{','.join(subjects)}" if subjects else f"/pub/{publishes}"


class DaphneChannels(PeerDialect):
    """The project of channels_peer.py."""

    name = "channels"
    opcode = TEXT
    settled = b"ready"

    def path(self, subjects: Sequence[str], publishes: str) -> str:
        return f"/sub/{','.join(subjects)}" if subjects else "/pub"

    def publish(self, subject: str, payload: bytes) -> bytes:
        return subject.encode() + b" " + payload


class Nats(PeerDialect):
    """NATS' text protocol (docs.nats.io, "Client Protocol"): CONNECT, SUB, PUB; PING is answered after all before."""

    name = "nats"
    settled = b"PONG"

    def greeting(self, number: int, subjects: Sequence[str]) -> bytes:
        options = {"verbose": False, "pedantic": False, "echo": True, "headers": False, "no_responders": False}
        subscriptions = "".join(f"SUB {subject} {sid}\r\n" for sid, subject in enumerate(subjects, 1))
        return f"CONNECT {json.dumps(options)}\r\n{subscriptions}PING\r\n".encode()

    def publish(self, subject: str, payload: bytes) -> bytes:
        return b"PUB %s %d\r\n%s\r\n" % (subject.encode(), len(payload), payload)


class NatsWebSocket(Nats):
    """NATS over WebSocket: its text protocol in binary frames."""

    name = "nats-ws"
    opcode = BINARY


class Mqtt(PeerDialect):
    """MQTT 3.1.1: CONNECT (3.1), SUBSCRIBE (3.8), PUBLISH (3.3); ``quality`` of service 0 or 1."""

    name = "mqtt"
    settled = b"\x90"
    """SUBACK (3.9); a CONNACK has no such byte."""

    def __init__(self, quality: int = 0) -> None:
        self.quality = quality

    def greeting(self, number: int, subjects: Sequence[str]) -> bytes:
        client = _text(f"{'c' if subjects else 'p'}{number:08}")
        connect = _packet(0x10, b"\x00\x04MQTT\x04\x02\x00\x00" + client)
        if not subjects:
            return connect
        return connect + _packet(
            0x82, SUBSCRIBE_ID + b"".join(_text(subject) + bytes((self.quality,)) for subject in subjects)
        )

    def publish(self, subject: str, payload: bytes) -> bytes:
        packet_id = b"\x00\x01" if self.quality else b""
        return _packet(0x30 | self.quality << 1, _text(subject) + packet_id + payload)


class MqttWebSocket(Mqtt):
    """MQTT over WebSocket: its packets in binary frames, MQTT 3.1.1 section 6."""

    name = "mqtt-ws"
    opcode = BINARY
    subprotocol = "mqtt"

    def path(self, subjects: Sequence[str], publishes: str) -> str:
        return "/mqtt"


class Redis(PeerDialect):
    """RESP (redis.io, "Redis serialization protocol"): SUBSCRIBE and PUBLISH."""

    name = "redis"
    settled = b"subscribe"

    def greeting(self, number: int, subjects: Sequence[str]) -> bytes:
        return _resp("SUBSCRIBE", *subjects) if subjects else b""

    def publish(self, subject: str, payload: bytes) -> bytes:
        return _resp("PUBLISH", subject, payload)


def _text(text: str) -> bytes:
    """Return MQTT's UTF-8 string (1.5.3)."""
    data = text.encode()
    return len(data).to_bytes(2) + data


def _packet(first: int, rest: bytes) -> bytes:
    return bytes((first,)) + varint(len(rest)) + rest


def _resp(*parts: str | bytes) -> bytes:
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in encoded)


DIALECTS: dict[str, type[PeerDialect]] = {
    kind.name: kind for kind in (Nchan, DaphneChannels, Nats, NatsWebSocket, Mqtt, MqttWebSocket, Redis)
}
"""Every dialect by its name."""
