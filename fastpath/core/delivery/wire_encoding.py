"""How messages leave for a client: form, compression, batching; clients of one wire share what is made for them."""

from __future__ import annotations

from functools import cache, lru_cache

from ..protocol.codec import JSON, Form
from ..websocket.frames import BINARY, TEXT, encode_binary, encode_text, split_frames
from ..websocket.permessage_deflate import inflate_head

RECENT_BYTES_MAX = 4 << 20
"""Stored messages and their compressed frames that an encoding remembers."""


class Encoding:
    """The way a message becomes a frame; two of the same make are the same object (``encoding``).

    ``window_bits`` 0 is no compression; else messages of ``deflate_bytes`` or more are compressed (features.md A9).
    """

    __slots__ = ("_recent", "_recent_bytes", "deflate_bytes", "form", "opcode", "window_bits")

    def __init__(self, form: Form, window_bits: int, deflate_bytes: int) -> None:
        self.form = form
        self.opcode = TEXT if form == JSON else BINARY
        self.window_bits = window_bits
        self.deflate_bytes = deflate_bytes
        self._recent: dict[bytes, bytes] = {}
        self._recent_bytes = 0

    def frame(self, payload: bytes, opcode: int = 0) -> bytes:
        """The payload as a WebSocket message, of another kind than the form's with an ``opcode``."""
        bits = self.window_bits if len(payload) >= self.deflate_bytes else 0
        return encode_text(payload, bits) if (opcode or self.opcode) == TEXT else encode_binary(payload, bits)

    def frame_again(self, payload: bytes) -> bytes:
        """As ``frame``, for stored messages: many clients get the same ones, one after another, and what was compressed
        of late is not compressed again."""
        if not self.window_bits or len(payload) < self.deflate_bytes:
            return self.frame(payload)
        frame = self._recent.get(payload)
        if frame is None:
            frame = self._recent[payload] = self.frame(payload)
            self._recent_bytes += len(payload) + len(frame)
            while self._recent_bytes > RECENT_BYTES_MAX and self._recent:
                oldest = next(iter(self._recent))
                self._recent_bytes -= len(oldest) + len(self._recent.pop(oldest))
        return frame


class Wire:
    """An encoding, and how long a listener's messages are collected: ``batch_ms`` or until ``batch_bytes`` wait,
    whichever is first; 0 is until the end of the tick (features.md A8)."""

    __slots__ = ("batch_bytes", "batch_ms", "encoding")

    def __init__(self, encoding: Encoding, batch_ms: int, batch_bytes: int) -> None:
        self.encoding = encoding
        self.batch_ms = batch_ms
        self.batch_bytes = batch_bytes


@cache
def encoding(form: Form, window_bits: int = 0, deflate_bytes: int = 0) -> Encoding:
    """The encoding of this make."""
    return Encoding(form, window_bits, deflate_bytes)


@cache
def wire(encoded: Encoding, batch_ms: int = 0, batch_bytes: int = 0) -> Wire:
    """The wire of this make."""
    return Wire(encoded, batch_ms, batch_bytes)


PLAIN: dict[Form, Wire] = {form: wire(encoding(form)) for form in ("json", "msgpack")}
"""Neither compressed nor batched."""


def framed(payload: bytes, form: Form) -> bytes:
    """An answer or event as a WebSocket message, never compressed: it is one client's, or short."""
    return encode_text(payload) if form == JSON else encode_binary(payload)


@lru_cache(maxsize=1)
def split_messages(chunk: bytes, form: Form) -> list[tuple[bytes, int]]:
    """The single frames of a queue's chunk of whole frames, each with the subject id of its message, or -1.

    The last one asked for is remembered, because many clients that lag have the same chunk in their queues; who asks
    last lets it go (``cache_clear``).
    """
    return [(frame, sid_of(frame, form)) for frame in split_frames(chunk)]


def sid_of(frame: bytes, form: Form) -> int:
    """The subject id of a message's frame; -1 for anything else. Only the head is looked at."""
    if frame[0] & 0x0F > BINARY:
        return -1
    at = 4 if frame[1] == 126 else 10 if frame[1] == 127 else 2
    head = inflate_head(frame[at:]) if frame[0] & 0x40 else frame[at : at + 32]
    if form == JSON:
        return int(head[1 : head.index(b",")]) if head[:1] == b"[" else -1
    if head[0] >> 4 != 0x9:  # an array; answers are maps
        return -1
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(head[1], 0)
    return int.from_bytes(head[2 : 2 + size]) if size else head[1]
