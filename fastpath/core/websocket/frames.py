"""Bytes to WebSocket messages and back for the server's side of a connection (RFC 6455 sections 5 to 8).

The reader is fed what the socket gave and answers with whole messages. An idle connection costs it under a
hundred bytes: what is needed only in the middle of a frame or message is kept in a second object, made when
it is needed and dropped with the message. A data frame is unmasked and, if it is text, validated as it
arrives, so invalid text fails at its first wrong byte, and no payload is read twice however it is cut.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Iterator

from ..protocol.errors import Close, FrameError
from .close_frames import check_close
from .masking import unmask
from .permessage_deflate import Inflation, compress

CONTINUATION = 0x0
TEXT = 0x1
BINARY = 0x2
CLOSE = 0x8
PING = 0x9
PONG = 0xA

CONTROL_BYTES_MAX = 125
"""RFC 6455 5.5: a control frame has no extended length, so its payload ends here."""

MESSAGE_BYTES_MAX = 1 << 20
"""The default bound of a message, all its fragments together (FASTPATH_MESSAGE_BYTES_MAX sets it)."""

FRAGMENTS_MAX = 1 << 17
"""Frames of one message: its bytes bound the memory, so this only ends a flood of empty fragments."""

SKIM = 2
"""Value of ``FrameReader.deflate`` once the connection ends: only the peer's close frame is still of interest."""

_OPCODES = {CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG}

Event = tuple[int, bytes]
"""An opcode and a payload: TEXT and BINARY are whole messages, CLOSE, PING and PONG are frames."""


class _Partial:
    """The state of a connection in the middle of a frame or of a message."""

    __slots__ = ("body", "deflated", "final", "fragments", "inflation", "key", "opcode", "remaining", "rest", "tail")

    def __init__(self) -> None:
        self.rest = b""
        """The start of a frame that cannot be taken in yet: a cut header, or a cut control frame."""
        self.opcode = CONTINUATION
        """Opcode of the message in progress; CONTINUATION when there is none."""
        self.body = bytearray()
        self.tail = b""
        """The first bytes of a character that is cut by the end of a read or of a fragment."""
        self.deflated = False
        self.inflation: Inflation | None = None
        """Inflation of the message in progress, once all of it is there."""
        self.fragments = 0
        self.final = False
        self.remaining = 0
        """Bytes that the current data frame still lacks."""
        self.key = b""
        """The masking key, turned so that it begins with the byte for the next byte of the payload."""


_OVER = _Partial()
"""The state after a close frame or a violation: what follows is discarded (RFC 6455 1.4, 7.1.7)."""


class FrameReader:
    """Reads the frames of one client.

    ``message_bytes_max`` bounds a message, inflated too (1009), ``fragments_max`` its frames (1009). With ``deflate``
    the client may compress messages (RFC 7692); SKIM then leaves them empty, when nobody wants them any more.
    ``error`` is None until the client breaks a rule; then it is the FrameError to close with, and nothing more is read.
    """

    __slots__ = ("_partial", "deflate", "error", "fragments_max", "message_bytes_max")

    def __init__(
        self, message_bytes_max: int = MESSAGE_BYTES_MAX, fragments_max: int = FRAGMENTS_MAX, deflate: int = False
    ) -> None:
        self.message_bytes_max = message_bytes_max
        self.fragments_max = fragments_max
        self.deflate = deflate
        self.error: FrameError | None = None
        self._partial: _Partial | None = None

    @property
    def over(self) -> bool:
        """True if nothing more is read: the client closed, or broke a rule."""
        return self._partial is _OVER

    @property
    def inflating(self) -> bool:
        """True if a compressed message is there and not inflated yet: each ``feed``, of nothing too, takes a step."""
        return self._partial is not None and self._partial.inflation is not None

    def feed(self, data: bytes) -> list[Event]:
        """Return what became whole with ``data``, in order: messages, and control frames between them.

        Text is valid UTF-8, a close payload is legal (closing.parse_close reads it). Look at ``error`` after handling
        the events: what came before a violation in the same read counts. You must answer a PING with a PONG of the same
        payload, and a CLOSE with a CLOSE; after it every answer is empty. While ``inflating`` feed it b"" until it is
        done, others having their turn between: what came behind is kept till then. Raises nothing.
        """
        partial = self._partial
        if partial is None:
            # One short ASCII text, as most reads of a client's are; all else is left to the walks below.
            size = len(data)
            head = _TEXT_HEADS[size] if size < HEADERS else b""
            if head and data.startswith(head):
                start = len(head) + 4
                payload = unmask(data[start:], data[start - 4 : start])
                if size - start <= self.message_bytes_max and payload.isascii():
                    return [(TEXT, payload)]
        events: list[Event] = []
        if partial is None:
            position = _whole_messages(data, self.message_bytes_max, events)
            if position == len(data):
                return events
            data = data[position:]
            partial = _Partial()
        elif partial is _OVER:
            return events
        try:
            over = self._read(partial, data, events)
        except FrameError as error:
            # Anew: the one caught holds the stack, and so the data, for as long as the connection lives.
            self.error = FrameError(error.code, error.reason)
            over = True
        if over:
            self._partial = _OVER
        else:
            self._partial = partial if partial.rest or partial.opcode else None
        return events

    def _read(self, partial: _Partial, data: bytes, events: list[Event]) -> bool:
        """Walk through the frames in ``data``; True after a close frame. Raises FrameError."""
        if partial.rest:
            data = partial.rest + data
            partial.rest = b""
        position, end = 0, len(data)
        if partial.inflation:
            message = b"" if self.deflate == SKIM else partial.inflation.step()
            if message is not None:
                self._inflated(partial, message, events)
        elif partial.remaining:
            position = self._take(partial, data, 0, events)
        while position < end:
            if partial.inflation:
                partial.rest = data[position:]
                return False
            header = self._header(partial, data, position)
            if header is None:
                partial.rest = data[position:]
                return False
            start, length = header
            first = data[position]
            opcode = first & 0x0F
            if start + length <= end and (opcode >= CLOSE or (first > 0x80 and not partial.opcode)):
                # A control frame, or an unfragmented message of which nothing is missing.
                payload = unmask(data[start : start + length], data[start - 4 : start])
                position = start + length
                if first & 0x40:
                    partial.opcode = opcode
                    self._arrived(partial, payload, events)
                    continue
                if opcode == TEXT and self.deflate != SKIM and not payload.isascii() and not _is_utf8(payload):
                    raise FrameError(Close.INVALID_DATA, "the text is not UTF-8")
                if opcode == CLOSE:
                    check_close(payload)
                events.append((opcode, payload))
                if opcode == CLOSE:
                    return True
            elif opcode >= CLOSE:
                partial.rest = data[position:]
                return False
            else:
                _begin(partial, first, length, data[start - 4 : start])
                position = self._take(partial, data, start, events)
        return False

    def _header(self, partial: _Partial, data: bytes, position: int) -> tuple[int, int] | None:
        """Return where the payload begins and its length, or None if the header is cut. Raises FrameError.

        Each byte is judged as soon as it is there and before the ones after it, so that the outcome does not depend on
        how the network cut the stream.
        """
        available = len(data) - position
        first = data[position]
        opcode = first & 0x0F
        deflated = self.deflate and first & 0x70 == 0x40 and opcode in (TEXT, BINARY)
        if first & 0x70 and not deflated:
            raise FrameError(Close.PROTOCOL_ERROR, "a reserved bit is set that no extension was agreed on for")
        if opcode not in _OPCODES:
            raise FrameError(Close.PROTOCOL_ERROR, f"opcode {opcode} is reserved")
        if opcode >= CLOSE:
            if first < 0x80:
                raise FrameError(Close.PROTOCOL_ERROR, "a control frame may not be fragmented")
        elif opcode == CONTINUATION:
            if not partial.opcode:
                raise FrameError(Close.PROTOCOL_ERROR, "a continuation frame, but no message was begun")
            if partial.fragments >= self.fragments_max:
                raise FrameError(Close.TOO_BIG, f"a message may have {self.fragments_max} fragments")
        elif partial.opcode:
            raise FrameError(Close.PROTOCOL_ERROR, "a new message before the end of the fragmented one")
        if available < 2:
            return None
        length = data[position + 1] - 0x80
        if length < 0:
            raise FrameError(Close.PROTOCOL_ERROR, "a client masks its frames")
        if opcode >= CLOSE:
            if length > CONTROL_BYTES_MAX:
                raise FrameError(Close.PROTOCOL_ERROR, f"a control frame has up to {CONTROL_BYTES_MAX} bytes")
            return (position + 6, length) if available >= 6 else None
        start = position + 2
        if length > CONTROL_BYTES_MAX:
            start += 2 if length == 126 else 8
            if len(data) < start:
                return None
            length = _extended(data[position + 2 : start])
        bytes_max = self.message_bytes_max - len(partial.body)
        if deflated or partial.deflated:
            bytes_max += (self.message_bytes_max >> 10) + 64  # what does not compress grows by that
        if length > bytes_max:
            raise FrameError(Close.TOO_BIG, f"a message may have {self.message_bytes_max} bytes")
        return (start + 4, length) if len(data) >= start + 4 else None

    def _take(self, partial: _Partial, data: bytes, position: int, events: list[Event]) -> int:
        """Move what ``data`` has of the current frame into the message; the position after. Raises FrameError."""
        chunk = data[position : position + partial.remaining]
        partial.remaining -= len(chunk)
        plain = unmask(chunk, partial.key)
        turn = len(chunk) & 3
        partial.key = partial.key[turn:] + partial.key[:turn]
        complete = partial.final and not partial.remaining
        if partial.deflated:
            partial.body += plain
            if complete:
                payload, partial.body = bytes(partial.body), bytearray()
                self._arrived(partial, payload, events)
            return position + len(chunk)
        if partial.opcode == TEXT and self.deflate != SKIM and (complete or partial.tail or not plain.isascii()):
            text = partial.tail + plain
            try:
                used = utf_8_decode(text, "strict", complete)[1]
            except UnicodeDecodeError:
                raise FrameError(Close.INVALID_DATA, "the text is not UTF-8") from None
            partial.tail = text[used:]
        partial.body += plain
        if complete:
            events.append((partial.opcode, bytes(partial.body)))
            _end(partial)
        return position + len(chunk)

    def _arrived(self, partial: _Partial, payload: bytes, events: list[Event]) -> None:
        """Take a compressed message that is there; raise FrameError.

        What a step inflates is told at once. Of all else only what came is kept until the next step: a connection that
        waits for its turn costs no more than it has sent.
        """
        message = b"" if self.deflate == SKIM else Inflation(payload, self.message_bytes_max).step()
        if message is None:
            partial.inflation = Inflation(payload, self.message_bytes_max)
        else:
            self._inflated(partial, message, events)

    def _inflated(self, partial: _Partial, message: bytes, events: list[Event]) -> None:
        """Tell a message that is whole; raise FrameError."""
        if partial.opcode == TEXT and not message.isascii() and not _is_utf8(message):
            raise FrameError(Close.INVALID_DATA, "the text is not UTF-8")
        events.append((partial.opcode, message))
        _end(partial)


def _whole_messages(data: bytes, bytes_max: int, events: list[Event]) -> int:
    """Take the unfragmented messages of up to 64 KiB at the start of ``data``; where the first other frame begins.

    Almost every read holds nothing else. What is not plainly right is left for the walk that judges byte by byte.
    """
    position, end = 0, len(data)
    while end - position >= 6:
        first, length = data[position], data[position + 1] - 0x80
        if first != 0x81 and first != 0x82:
            break
        start = position + 6
        if length == 126 and end - position >= 8:
            start += 2
            length = data[position + 2] << 8 | data[position + 3]
            if length <= CONTROL_BYTES_MAX:
                break
        elif not 0 <= length < 126:
            break
        if length > bytes_max or start + length > end:
            break
        payload = unmask(data[start : start + length], data[start - 4 : start])
        if first == 0x82:
            events.append((BINARY, payload))
        elif payload.isascii() or _is_utf8(payload):
            events.append((TEXT, payload))
        else:
            break
        position = start + length
    return position


def _begin(partial: _Partial, first: int, length: int, key: bytes) -> None:
    """Begin a data frame that is a fragment, or not all there."""
    if not partial.opcode:
        partial.opcode = first & 0x0F
        partial.deflated = first & 0x40 != 0
    partial.fragments += 1
    partial.final = first >= 0x80
    partial.remaining = length
    partial.key = key


def _end(partial: _Partial) -> None:
    """End a message that is whole."""
    partial.opcode = CONTINUATION
    partial.deflated = False
    partial.inflation = None
    partial.fragments = 0
    partial.body = bytearray()


def encode_text(payload: bytes, window_bits: int = 0) -> bytes:
    """Return a whole text message as a server sends it; compressed with a window of so many bits, unless it is 0."""
    if window_bits:
        return _deflated(TEXT, payload, window_bits)
    size = len(payload)
    return TEXT_HEADERS[size] + payload if size < HEADERS else encode_frame(TEXT, payload)


def encode_binary(payload: bytes, window_bits: int = 0) -> bytes:
    """Return a whole binary message, as ``encode_text``."""
    if window_bits:
        return _deflated(BINARY, payload, window_bits)
    size = len(payload)
    return BINARY_HEADERS[size] + payload if size < HEADERS else encode_frame(BINARY, payload)


def _deflated(opcode: int, payload: bytes, window_bits: int) -> bytes:
    """Return a compressed message, or a plain one where compression gains nothing (RFC 7692 6 lets us choose)."""
    short = compress(payload, window_bits)
    return encode_frame(0x40 | opcode, short) if len(short) < len(payload) else encode_frame(opcode, payload)


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """Return a whole message or control frame as a server sends it: final and unmasked (RFC 6455 5.1)."""
    size = len(payload)
    if size <= CONTROL_BYTES_MAX:
        return bytes((0x80 | opcode, size)) + payload
    if opcode & 0x0F >= CLOSE:
        raise ValueError(f"a control frame has at most {CONTROL_BYTES_MAX} bytes, not {size}: shorten it")
    if size < 1 << 16:
        return bytes((0x80 | opcode, 126, size >> 8, size & 0xFF)) + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8) + payload


HEADERS = 1024
TEXT_HEADERS, BINARY_HEADERS = (
    [encode_frame(opcode, bytes(size))[: -size or None] for size in range(HEADERS)] for opcode in (TEXT, BINARY)
)
"""The headers of small messages by their size: most messages are small, and a header made anew costs as much as the
rest of the encoding."""

_TEXT_HEADS = [b""] * HEADERS
"""The start of a read, up to the key, that is one whole text of a client, by its size; empty where none has that."""
for _size in range(HEADERS - 8):
    _head = bytes((0x81, 0x80 | _size)) if _size < 126 else b"\x81\xfe" + _size.to_bytes(2)
    _TEXT_HEADS[len(_head) + 4 + _size] = _head


def split_frames(buffer: bytes) -> Iterator[bytes]:
    """Yield the single frames, headers included, of a queue of a server's own frames, one at a time.

    Raises ValueError unless ``buffer`` begins and ends between two unmasked frames.
    """
    position, end = 0, len(buffer)
    while position < end:
        start = position + 2
        size = buffer[position + 1] if start <= end else 0
        if size > CONTROL_BYTES_MAX:
            start += 2 if size == 126 else 8
            size = int.from_bytes(buffer[position + 2 : start]) if size < 0x80 else end
        if start + size > end:
            raise ValueError(f"no whole unmasked frame at byte {position}: cut the queue between frames")
        yield buffer[position : start + size]
        position = start + size


def _extended(raw: bytes) -> int:
    """Return an extended payload length, in network byte order (RFC 6455 5.2). Raises FrameError."""
    length = int.from_bytes(raw)
    if length >> 63:
        raise FrameError(Close.PROTOCOL_ERROR, "the first bit of a length of 64 bits is 0")
    if length <= (CONTROL_BYTES_MAX if len(raw) == 2 else 0xFFFF):
        raise FrameError(Close.PROTOCOL_ERROR, "a length is written in the shortest form")
    return length


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
