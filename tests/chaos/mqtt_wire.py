"""MQTT 5 in a few lines, for a publisher and a subscriber in whom nothing of the product is."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import NamedTuple, Self

from .watcher import BINARY, CLOSE, masked, read_frame

CONNACK, PUBLISH, PUBACK, SUBACK, DISCONNECT = 2, 3, 4, 9, 14
PING = b"\xc0\0"
RETAINED, DUP = 1, 8
"""Of the first byte of a PUBLISH (3.3.1)."""

REFUSED = 0x80
"""Reason codes from here on say that something was not done (2.4)."""

MISSED = b"messages are missing"
"""What the reason of a CONNACK or DISCONNECT says of a session that is over because of a gap."""

EXPIRY_SECONDS = 86_400
"""Of all sessions: none ends in a run, though clocks jump by an hour."""


class Packet(NamedTuple):
    """The first byte, and all behind the length."""

    first: int
    body: bytes

    @property
    def type(self) -> int:
        """2.1.2."""
        return self.first >> 4

    @property
    def id(self) -> int:
        """Of a PUBACK or SUBACK."""
        return int.from_bytes(self.body[:2])

    @property
    def code(self) -> int:
        """The reason code of a CONNACK, PUBACK or DISCONNECT; what is left out is 0 (3.4.2.1)."""
        at = {CONNACK: 1, PUBACK: 2, DISCONNECT: 0}[self.type]
        return self.body[at] if len(self.body) > at else 0

    @property
    def missed(self) -> bool:
        """Of a CONNACK or DISCONNECT: whether the session is over because of a gap."""
        return MISSED in self.body


class Message(NamedTuple):
    """A PUBLISH of QoS 0 or 1."""

    topic: str
    packet_id: int
    payload: str
    retained: bool
    dup: bool


def connect(client_id: str) -> bytes:
    """CONNECT to a session that lasts, without keep alive (3.1)."""
    properties = b"\x11" + struct.pack(">I", EXPIRY_SECONDS)
    return _framed(0x10, _text("MQTT") + b"\5\0\0\0" + bytes((len(properties),)) + properties + _text(client_id))


def subscribe(packet_id: int, filters: list[str]) -> bytes:
    """SUBSCRIBE with QoS 1 (3.8)."""
    return _framed(0x82, struct.pack(">HB", packet_id, 0) + b"".join(_text(one) + b"\1" for one in filters))


def publish(packet_id: int, topic: str, payload: str, *, dup: bool) -> bytes:
    """PUBLISH with QoS 1, to be retained (3.3)."""
    first = 0x33 | (DUP if dup else 0)
    return _framed(first, _text(topic) + struct.pack(">HB", packet_id, 0) + payload.encode())


def puback(packet_id: int) -> bytes:
    """PUBACK (3.4)."""
    return struct.pack(">BBH", 0x40, 2, packet_id)


def read_message(packet: Packet) -> Message:
    """What a PUBLISH says; its properties are passed over."""
    body = packet.body
    at = 2 + int.from_bytes(body[:2])
    topic, packet_id = body[2:at].decode(), 0
    if packet.first & 6:
        packet_id = int.from_bytes(body[at : at + 2])
        at += 2
    size, at = _variable(body, at)
    flags = packet.first
    return Message(topic, packet_id, body[at + size :].decode(), bool(flags & RETAINED), bool(flags & DUP))


class Stream:
    """Packets of bytes that come in any pieces; ``framed``: as messages of a WebSocket, which may cut them anywhere."""

    def __init__(self, framed: bool) -> None:
        self._framed = framed
        self._frames = self._rest = b""

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that are whole by now; raises EOFError at the end of the WebSocket."""
        self._rest += self._unframed(data) if self._framed else data
        packets = []
        while len(self._rest) > 1:
            size, start = _variable(self._rest, 1)
            if size < 0 or len(self._rest) < start + size:
                break
            packets.append(Packet(self._rest[0], self._rest[start : start + size]))
            self._rest = self._rest[start + size :]
        return packets

    def wrap(self, data: bytes) -> bytes:
        """Packets as they go over the connection."""
        return masked(BINARY, data) if self._framed else data

    def _unframed(self, data: bytes) -> bytes:
        self._frames += data
        found, offset = [], 0
        while (frame := read_frame(self._frames, offset)) is not None:
            opcode, start, offset = frame
            if opcode == CLOSE:
                raise EOFError("the server closed the WebSocket")
            if opcode <= BINARY:
                found.append(self._frames[start:offset])
        self._frames = self._frames[offset:]
        return b"".join(found)


class Connection:
    """A connection to ``address``, over TCP or as a WebSocket (``framed``); raises OSError and EOFError at its end."""

    def __init__(self, address: str, *, framed: bool, seconds: float) -> None:
        """``seconds``: for the connection, and for whatever is sent."""
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=seconds)
        self._stream = Stream(framed)
        self._seconds = seconds
        self._packets: list[Packet] = []
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if framed:
                self._upgrade(address)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def enter(self, client_id: str, seconds: float) -> tuple[bool, bool]:
        """CONNECT; whether the session is present, and whether it is not because of a gap. Raises OSError for a
        refusal, and where there is no answer."""
        self.send(connect(client_id))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            packets = self.receive(seconds)
            if packets:
                connack, *self._packets = packets
                if connack.type != CONNACK or connack.code:
                    raise OSError(f"not let in: {connack}")
                return bool(connack.body[0] & 1), connack.missed
        raise TimeoutError("no CONNACK")

    def send(self, data: bytes) -> None:
        """Send packets."""
        if data:
            self.sock.settimeout(self._seconds)
            self.sock.sendall(self._stream.wrap(data))

    def receive(self, seconds: float) -> list[Packet]:
        """What comes within the time, as soon as something has come."""
        if self._packets:
            packets, self._packets = self._packets, []
            return packets
        if not select.select([self.sock], [], [], seconds)[0]:
            return []
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError("the server closed the connection")
        return self._stream.feed(data)

    def abort(self) -> None:
        """Reset it instead of closing it."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _upgrade(self, address: str) -> None:
        self.sock.sendall(_upgrade(address))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                raise EOFError("closed instead of an upgrade")
            head += byte
        if b" 101 " not in head:
            raise OSError(head.split(b"\r\n")[0].decode(errors="replace"))


def _upgrade(address: str) -> bytes:
    """The request for a WebSocket that speaks MQTT (6)."""
    return (
        f"GET /mqtt HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: c2FtcGxlIG5vbmNlIDEyMw==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    ).encode()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _framed(first: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while True:
        size, part = size >> 7, size & 0x7F
        length += bytes((part | (0x80 if size else 0),))
        if not size:
            return bytes((first,)) + length + body


def _variable(data: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer (1.5.5), -1 when it is not whole; and where what follows begins."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return -1, at
