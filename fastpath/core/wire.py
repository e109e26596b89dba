"""How messages leave for a client: form, compression, batching; clients of one wire share what is made for them."""

from __future__ import annotations

from functools import cache

from .codec import JSON, Form
from .frames import encode_binary, encode_text


class Encoding:
    """How a message becomes a frame; two of the same make are the same object (``encoding``).

    ``window_bits`` 0 is without compression; else messages of ``deflate_bytes`` or more are compressed (FEATURES A9).
    """

    __slots__ = ("deflate_bytes", "form", "window_bits")

    def __init__(self, form: Form, window_bits: int, deflate_bytes: int) -> None:
        self.form = form
        self.window_bits = window_bits
        self.deflate_bytes = deflate_bytes

    def frame(self, payload: bytes) -> bytes:
        """The payload as a WebSocket message."""
        bits = self.window_bits if len(payload) >= self.deflate_bytes else 0
        return encode_text(payload, bits) if self.form == JSON else encode_binary(payload, bits)


class Wire:
    """An encoding, and how long a listener's messages are collected: ``batch_ms`` or until ``batch_bytes`` wait,
    whichever is first; 0 is until the end of the tick (FEATURES A8)."""

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
