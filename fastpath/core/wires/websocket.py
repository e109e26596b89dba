"""The wires of WebSockets: text frames for JSON, binary ones for MessagePack (protocol.md 1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..delivery.wire import Wire
from ..protocol.codec import encode
from ..websocket.close_frames import close_payload
from ..websocket.frames import (
    BINARY,
    BINARY_HEADERS,
    CLOSE,
    HEADERS,
    PING,
    TEXT,
    TEXT_HEADERS,
    encode_binary,
    encode_frame,
    encode_text,
    split_frames,
)
from ..websocket.permessage_deflate import inflate_head

if TYPE_CHECKING:
    from ..protocol.messages import AnyAnswer

_PING = encode_frame(PING, b"")


class TextFrames(Wire):
    """A WebSocket of text frames: JSON."""

    __slots__ = ()

    transport = "websocket"
    answers = True

    def message(self, payload: bytes) -> bytes:
        # ``encode_text``, but for what needs it: each message comes here, and most are short.
        size = len(payload)
        if self.window_bits and size >= self.deflate_bytes:
            return encode_text(payload, self.window_bits)
        return TEXT_HEADERS[size] + payload if size < HEADERS else encode_frame(TEXT, payload)

    def event(self, value: AnyAnswer) -> bytes:
        return encode_text(encode(value, self.form))

    def ping(self, payload: bytes = b"") -> bytes:
        return encode_frame(PING, payload) if payload else _PING

    def close(self, code: int, reason: str) -> bytes:
        return encode_frame(CLOSE, close_payload(code, reason))

    def split(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        for frame in split_frames(chunk):
            head = _head(frame)
            yield frame, int(head[1 : head.index(b",")]) if head[:1] == b"[" else -1


class BinaryFrames(TextFrames):
    """A WebSocket of binary frames: MessagePack."""

    __slots__ = ()

    def message(self, payload: bytes) -> bytes:
        size = len(payload)
        if self.window_bits and size >= self.deflate_bytes:
            return encode_binary(payload, self.window_bits)
        return BINARY_HEADERS[size] + payload if size < HEADERS else encode_frame(BINARY, payload)

    def event(self, value: AnyAnswer) -> bytes:
        return encode_binary(encode(value, self.form))

    def split(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        for frame in split_frames(chunk):
            yield frame, _first_number(_head(frame))


def _head(frame: bytes) -> bytes:
    """Return how the payload of a message's frame begins; empty for a frame that is none, such as a ping."""
    if frame[0] & 0x0F > BINARY:
        return b""
    at = 4 if frame[1] == 126 else 10 if frame[1] == 127 else 2
    return inflate_head(frame[at:]) if frame[0] & 0x40 else frame[at : at + 32]


def _first_number(head: bytes) -> int:
    """Return the first number of an array in MessagePack; -1 for anything else, as answers are maps."""
    if not head or head[0] >> 4 != 0x9:
        return -1
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(head[1], 0)
    return int.from_bytes(head[2 : 2 + size]) if size else head[1]
