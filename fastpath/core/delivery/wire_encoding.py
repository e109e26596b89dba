"""How messages leave for a client: form, compression, batching; clients of one wire share what is made for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..events import framing, lines
from ..mqtt import records
from ..protocol.codec import FORMS, JSON, MQTT, MQTT5, MSGPACK, POLL, SSE, STREAM, Form, encode, encode_message
from ..protocol.messages import AnyAnswer
from ..websocket.close_frames import close_payload
from ..websocket.frames import BINARY, CLOSE, PING, encode_binary, encode_frame, encode_text, split_frames
from ..websocket.permessage_deflate import inflate_head

if TYPE_CHECKING:
    from ..protocol.messages import Message

RECENT_BYTES_MAX = 4 << 20
"""Stored messages and their compressed frames that an encoding remembers."""


LARGE_BYTES = 128 << 10
"""From here on it is worth it: making one takes longer than a tenth of a millisecond."""

KEPT_BYTES_MAX = 64 << 20
"""What is remembered of them; the oldest go first, and one alone may be larger."""

SHARED = "snapshot"
"""The kind of message (protocol.md 5.1) whose frames are."""


class Encoding(ABC):
    """The way what a client is told becomes bytes; two of the same make are the same object (``encoding``).

    Each form is one of its subclasses. What is written at once, a message, an answer or the goodbye, is a frame here,
    also where it is an event, a line or a record. ``window_bits`` 0 is no compression; else messages of
    ``deflate_bytes`` or more are compressed (features.md A9).
    """

    __slots__ = ("_recent", "_recent_bytes", "deflate_bytes", "form", "window_bits")

    ping = b""
    """Asks a client for a sign of life; empty where it has to give one by itself."""
    dated = True
    """Whether messages have times, which count from a base (protocol.md 4.9)."""
    payload = staticmethod(encode_message)
    """Makes of a message what ``frame`` takes, the same for all encodings of a form."""

    def __init__(self, form: Form, window_bits: int = 0, deflate_bytes: int = 0) -> None:
        self.form = form
        self.window_bits = window_bits
        self.deflate_bytes = deflate_bytes
        self._recent: dict[bytes, bytes] = {}
        self._recent_bytes = 0

    @abstractmethod
    def frame(self, payload: bytes) -> bytes:
        """A message's payload as a frame."""

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

    @abstractmethod
    def answer(self, value: AnyAnswer) -> bytes:
        """An answer or event as a frame, never compressed: it is one client's, or short."""

    @abstractmethod
    def goodbye(self, code: int, reason: str) -> bytes:
        """What a client is told last, with a code of protocol.md 7."""

    @abstractmethod
    def split(self, chunk: bytes) -> Iterable[bytes]:
        """The single frames of a chunk of whole ones."""

    @abstractmethod
    def sid_of(self, frame: bytes) -> int:
        """The subject id of a message's frame; -1 for anything else. Only the head is looked at."""


class TextFrames(Encoding):
    """A WebSocket of text frames: JSON."""

    __slots__ = ()

    ping = encode_frame(PING, b"")

    def frame(self, payload: bytes) -> bytes:
        return encode_text(payload, self.window_bits if len(payload) >= self.deflate_bytes else 0)

    def answer(self, value: AnyAnswer) -> bytes:
        return encode_text(encode(value, self.form))

    def goodbye(self, code: int, reason: str) -> bytes:
        return encode_frame(CLOSE, close_payload(code, reason))

    def split(self, chunk: bytes) -> Iterable[bytes]:
        return split_frames(chunk)

    def sid_of(self, frame: bytes) -> int:
        head = _head(frame)
        return int(head[1 : head.index(b",")]) if head[:1] == b"[" else -1


class BinaryFrames(TextFrames):
    """A WebSocket of binary frames: MessagePack."""

    __slots__ = ()

    def frame(self, payload: bytes) -> bytes:
        return encode_binary(payload, self.window_bits if len(payload) >= self.deflate_bytes else 0)

    def answer(self, value: AnyAnswer) -> bytes:
        return encode_binary(encode(value, self.form))

    def sid_of(self, frame: bytes) -> int:
        head = _head(frame)
        if not head or head[0] >> 4 != 0x9:  # an array; answers are maps
            return -1
        size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(head[1], 0)
        return int.from_bytes(head[2 : 2 + size]) if size else head[1]


class EventFrames(Encoding):
    """Events of a stream, whose reader answers a ping by taking it; they are not compressed."""

    __slots__ = ()

    ping = framing.PING

    def frame(self, payload: bytes) -> bytes:
        return framing.encode_event(payload)

    def answer(self, value: AnyAnswer) -> bytes:
        return framing.encode_event(encode(value, self.form))

    def goodbye(self, code: int, reason: str) -> bytes:
        return framing.encode_goodbye(code, reason)

    def split(self, chunk: bytes) -> Iterable[bytes]:
        return framing.split_events(chunk)

    def sid_of(self, frame: bytes) -> int:
        return framing.sid_of_event(frame)


class LineFrames(Encoding):
    """Lines for who polls, and shows by asking that it lives; they are not compressed."""

    __slots__ = ()

    def frame(self, payload: bytes) -> bytes:
        return lines.encode_line(payload)

    def answer(self, value: AnyAnswer) -> bytes:
        return lines.encode_line(encode(value, self.form))

    def goodbye(self, code: int, reason: str) -> bytes:
        return lines.encode_last_line(code, reason)

    def split(self, chunk: bytes) -> Iterable[bytes]:
        return lines.split_lines(chunk)

    def sid_of(self, frame: bytes) -> int:
        return lines.sid_of_line(frame)


class RecordFrames(Encoding):
    """Records, of which their connection makes packets of MQTT, which has a keep alive; they are not compressed."""

    __slots__ = ()

    dated = False
    payload = staticmethod(records.encode_record)

    def frame(self, payload: bytes) -> bytes:
        return payload

    def answer(self, value: AnyAnswer) -> bytes:
        return records.encode_answer(encode(value, self.form))

    def goodbye(self, code: int, reason: str) -> bytes:
        return records.encode_goodbye(code, reason)

    def split(self, chunk: bytes) -> Iterable[bytes]:
        return records.split_records(chunk)

    def sid_of(self, frame: bytes) -> int:
        return records.sid_of_record(frame)


ENCODINGS: dict[Form, type[Encoding]] = {
    JSON: TextFrames,
    MSGPACK: BinaryFrames,
    SSE: EventFrames,
    STREAM: EventFrames,
    POLL: LineFrames,
    MQTT: RecordFrames,
    MQTT5: RecordFrames,
}
"""The class of each form."""


class _Kept(NamedTuple):
    newest: Message
    place: tuple[int, int, int]
    frame: bytes


class LargeFrames:
    """The frames of subjects' snapshots as they were made last, for each encoding: large ones are made once for all who
    ask, and all wait for the same bytes.

    A subject is named by its ``sid``; ``newest`` and ``place`` (epoch, number, base of times) say how it stands.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Encoding], _Kept] = {}
        self._size = 0

    def find(self, sid: int, encoding: Encoding, newest: Message, place: tuple[int, int, int]) -> bytes | None:
        """The frame of the snapshot as it stands, if it is remembered."""
        kept = self._kept.get((sid, encoding)) if self._kept else None
        return None if kept is None or kept.newest is not newest or kept.place != place else kept.frame

    def keep(self, sid: int, encoding: Encoding, newest: Message, place: tuple[int, int, int], frame: bytes) -> None:
        """Remember the frame, if it is large."""
        if len(frame) < LARGE_BYTES:
            return
        self._forget((sid, encoding))
        self._kept[sid, encoding] = _Kept(newest, place, frame)
        self._size += len(frame)
        while self._size > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: tuple[int, Encoding]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= len(kept.frame)


def pieces(frames: Sequence[bytes]) -> Iterator[bytes]:
    """The frames in their order, small ones joined and each large one as it is: copies of it would be each client's."""
    small: list[bytes] = []
    for frame in frames:
        if len(frame) >= LARGE_BYTES:
            if small:
                yield b"".join(small)
                small = []
            yield frame
        else:
            small.append(frame)
    if small:
        yield b"".join(small)


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
    """The encoding of this make; only WebSockets are compressed."""
    if form not in FORMS and window_bits:
        return encoding(form)
    return ENCODINGS[form](form, window_bits, deflate_bytes)


@cache
def wire(encoded: Encoding, batch_ms: int = 0, batch_bytes: int = 0) -> Wire:
    """The wire of this make."""
    return Wire(encoded, batch_ms, batch_bytes)


PLAIN: dict[Form, Wire] = {form: wire(encoding(form)) for form in FORMS}
"""Neither compressed nor batched."""


@lru_cache(maxsize=1)
def split_messages(chunk: bytes, encoded: Encoding) -> list[tuple[bytes, int]]:
    """The single frames of a queue's chunk of whole frames, each with the subject id of its message, or -1.

    The last one asked for is remembered, because many clients that lag have the same chunk in their queues; who asks
    last lets it go (``cache_clear``).
    """
    return [(frame, encoded.sid_of(frame)) for frame in encoded.split(chunk)]


def _head(frame: bytes) -> bytes:
    """How the payload of a message's frame begins; empty for a frame that is none, such as a ping."""
    if frame[0] & 0x0F > BINARY:
        return b""
    at = 4 if frame[1] == 126 else 10 if frame[1] == 127 else 2
    return inflate_head(frame[at:]) if frame[0] & 0x40 else frame[at : at + 32]
