"""A wire that no file of the product knows, lines of JSON, and what a test reads of the pieces of any wire."""

from __future__ import annotations

import json

from fastpath.core.delivery.wire import Wire
from fastpath.core.protocol.codec import JSON, encode
from fastpath.core.protocol.messages import AnyAnswer
from fastpath.core.websocket.permessage_deflate import inflate
from fastpath.core.wires.events import EventFrames, LineFrames

MESSAGE, EVENT, PING, CLOSE = b"=", b">", b"?", b"!"
"""What a line begins with."""


class JsonLines(Wire):
    """Each piece is a line: what it is, and JSON."""

    __slots__ = ()

    transport = "lines"
    answers = True

    def __init__(self) -> None:
        super().__init__(JSON)

    def message(self, payload: bytes) -> bytes:
        return MESSAGE + payload + b"\n"

    def event(self, value: AnyAnswer) -> bytes:
        return EVENT + encode(value, self.form) + b"\n"

    def ping(self, payload: bytes = b"") -> bytes:
        return PING + payload.hex().encode() + b"\n"

    def close(self, code: int, reason: str) -> bytes:
        return CLOSE + json.dumps([code, reason]).encode() + b"\n"

    def split(self, chunk: bytes) -> list[tuple[bytes, int]]:
        assert not chunk or chunk.endswith(b"\n"), "cut between two lines"
        return [(line, json.loads(line[1:])[0] if line[:1] == MESSAGE else -1) for line in chunk.splitlines(True)]


def payload_of(piece: bytes, wire: Wire) -> bytes | None:
    """The message or event that a piece carries, as it was encoded; None for a ping or a goodbye."""
    if isinstance(wire, JsonLines):
        return piece[1:-1] if piece[:1] in (MESSAGE, EVENT) else None
    if isinstance(wire, LineFrames):
        return None if piece.startswith(b'{"close"') else piece[:-1]
    if isinstance(wire, EventFrames):
        return piece[6:-2] if piece.startswith(b"data: ") else None
    if piece[0] & 0x0F > 2:
        return None
    payload = piece[4 if piece[1] == 126 else 10 if piece[1] == 127 else 2 :]
    return inflate(payload, 1 << 20) if piece[0] & 0x40 else payload
