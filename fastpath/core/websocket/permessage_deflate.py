"""The extension permessage-deflate without context (RFC 7692): each message is compressed and inflated by itself.

Nothing is remembered from message to message, in either direction: so a connection costs no memory for it, and the
bytes of a message that many clients want are compressed once for all of them.
"""

from __future__ import annotations

import zlib

from ..protocol.errors import Close, FrameError

SLICE_BYTES = 1 << 16
"""Bytes that a step of ``Inflation`` makes: some 0.1 ms. A hundred bytes may become as many thousand, so what came says
nothing of what it costs."""

CHUNK_BYTES = 1 << 14
"""Bytes of what came that a step reads: what becomes of them may be nothing."""

WINDOW_BITS_MAX = 15
"""The largest window, and the one in force when the client names none."""

_WINDOW_BITS_MIN = 9
"""The smallest that zlib makes without a header; a client that asks for 8 is answered without compression."""

_HEAD_BYTES = 32

_LEVEL = 6

_QUICK_BYTES_MIN = 1 << 16
"""Bytes from which on level 1 is used: 3 ms a MiB instead of 10, for a tenth to a third more bytes."""

TAIL = b"\x00\x00\xff\xff"
"""The end of an empty block, which the sender has left out (RFC 7692 7.2.1)."""

_END = TAIL + b"\x01\x00\x00\xff\xff"
"""End of each message, with a last, empty block: only a message that was whole ends exactly with it."""

_BLOCKS_MAX = 64
"""Streams that a client may put behind one another in a message by ending one early (RFC 7692 7.2.3.5)."""


def negotiate(offers: str) -> tuple[int, str] | None:
    """Return the window in bits and the answer's header value for the first offer that can be taken; None: no
    compression.

    ``offers`` is the value of Sec-WebSocket-Extensions. An offer with anything unknown, doubled or out of range is
    passed over, as RFC 7692 5.1 and 7.1 want it; it is no error.
    """
    for offer in offers.split(","):
        name, *rest = (part.strip() for part in offer.split(";"))
        if name.lower() != "permessage-deflate":
            continue
        parameters: dict[str, str | None] = {}
        doubled = False
        for part in rest:
            key, equals, value = part.partition("=")
            key = key.strip().lower()
            doubled |= key in parameters
            parameters[key] = value.strip().strip('"') if equals else None
        if not doubled and (bits := _window(parameters)):
            limit = f"; server_max_window_bits={bits}" if "server_max_window_bits" in parameters else ""
            return bits, f"permessage-deflate; server_no_context_takeover; client_no_context_takeover{limit}"
    return None


def compress(payload: bytes, window_bits: int) -> bytes:
    """Return the payload of a compressed message."""
    size = len(payload)
    # A window beyond the message's size and the memory for it are set up for nothing: most messages are small.
    bits = max(_WINDOW_BITS_MIN, min(window_bits, size.bit_length()))
    level = _LEVEL if size < _QUICK_BYTES_MIN else 1
    stream = zlib.compressobj(level, zlib.DEFLATED, -bits, 8 if size > 1 << 14 else 4)
    return (stream.compress(payload) + stream.flush(zlib.Z_SYNC_FLUSH))[: -len(TAIL)]


class Inflation:
    """A message that a client compressed, inflated step by step; never holds more than ``bytes_max`` and a little, and
    before the first step nothing but what came."""

    __slots__ = ("_at", "_bytes_max", "_data", "_message", "_stream", "_streams")

    def __init__(self, payload: bytes, bytes_max: int) -> None:
        self._data = payload + _END if payload else b"\x00" + _END  # no bytes at all is common for an empty message
        self._bytes_max = bytes_max
        self._at = 0
        self._message = bytearray()
        self._stream: zlib._Decompress | None = None
        self._streams = 0

    def step(self) -> bytes | None:
        """Go on for some 0.1 ms: the message once it is whole, None as long as it is not. Raises FrameError."""
        stream, message = self._stream or self._begin(), self._message
        chunk = stream.unconsumed_tail
        if not chunk:
            chunk = self._data[self._at : self._at + CHUNK_BYTES]
            self._at += len(chunk)
        room = min(SLICE_BYTES, self._bytes_max + 1 - len(message))
        try:
            made = stream.decompress(chunk, room)
        except zlib.error as error:
            raise FrameError(Close.INVALID_DATA, f"the message cannot be inflated: {error}") from None
        message += made
        if len(message) > self._bytes_max:
            raise FrameError(Close.TOO_BIG, f"a message that was sent so may have {self._bytes_max} bytes")
        if not stream.eof:
            if not chunk and len(made) < room:
                raise FrameError(Close.INVALID_DATA, "the compressed message ends in the middle")
            return None
        self._at -= len(stream.unused_data)
        if self._at == len(self._data) or self._data[self._at :] == _END:
            return bytes(message)
        self._begin()
        return None

    def _begin(self) -> zlib._Decompress:
        """Begin one more stream."""
        if self._streams == _BLOCKS_MAX:
            raise FrameError(Close.INVALID_DATA, f"a message may consist of {_BLOCKS_MAX} streams")
        self._streams += 1
        self._stream = zlib.decompressobj(-WINDOW_BITS_MAX)
        return self._stream


def inflate(payload: bytes, bytes_max: int) -> bytes:
    """Return the whole message that a client compressed, in one go; raise FrameError."""
    inflation = Inflation(payload, bytes_max)
    while (message := inflation.step()) is None:
        pass
    return message


def inflate_head(payload: bytes) -> bytes:
    """Return the first bytes of a message that this process compressed itself."""
    return zlib.decompressobj(-WINDOW_BITS_MAX).decompress(payload, _HEAD_BYTES)


def _window(parameters: dict[str, str | None]) -> int:
    """Return the server's window in bits for an offer's parameters; 0 when the offer cannot be taken."""
    bits = WINDOW_BITS_MAX
    for name, value in parameters.items():
        match name:
            case "server_no_context_takeover" | "client_no_context_takeover":
                if value is not None:
                    return 0
            case "server_max_window_bits":
                if value not in _BITS:
                    return 0
                bits = int(value)
            case "client_max_window_bits":
                if value is not None and value not in _BITS and value != "8":
                    return 0
            case _:
                return 0
    return bits


_BITS = {str(bits) for bits in range(_WINDOW_BITS_MIN, WINDOW_BITS_MAX + 1)}
