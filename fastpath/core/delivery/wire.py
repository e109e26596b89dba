"""The wire: how what clients are told becomes bytes; clients of one wire share what is made for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.codec import Form, encode_message

if TYPE_CHECKING:
    from ..protocol.messages import AnyAnswer, Message

RECENT_BYTES_MAX = 4 << 20
"""Stored messages and their compressed frames that a wire remembers."""


LARGE_BYTES = 128 << 10
"""Bytes from which on it is worth it to keep a frame: making one takes longer than a tenth of a millisecond."""

KEPT_BYTES_MAX = 64 << 20
"""Bytes of large frames that are remembered; the oldest go first, and one alone may be larger."""

SHARED = "snapshot"
"""The kind of message (protocol.md 5.1) whose frames are."""


class Wire(ABC):
    """The port through which the core tells clients anything: how it becomes bytes, and what its readers can do.

    Each transport has a wire (core/wires/), and two of the same make are the same object. ``message``, ``event``,
    ``ping`` and ``close`` make a **piece**: bytes that are written at once, whole, a frame of a WebSocket, an event, a
    line or a record. Whatever was joined of pieces, ``split`` takes apart again. ``window_bits`` 0 is no compression;
    else messages of ``deflate_bytes`` or more are compressed (features.md A9).
    """

    __slots__ = ("_recent", "_recent_bytes", "deflate_bytes", "form", "window_bits")

    transport = ""
    """Transport of the pieces, as operators see it."""
    pings = True
    """True if a client that is silent is asked for a sign of life; else the client has to give one by itself."""
    answers = False
    """True if a client answers a ping, with the payload of that; else it lives as long as it takes what it is sent."""
    dated = True
    """True if messages have times, which count from a base (protocol.md 4.9)."""
    numbered = True
    """True if readers see the numbers of messages, and so that some are missing; else something is told that stands for
    what is missing: the subject's retained message, its removal, or a ``gap``."""
    acknowledges = False
    """True if each publication that has an id is answered, and known to its readers as its publisher's."""
    payload = staticmethod(encode_message)
    """Makes of a message what ``message`` takes, the same for all wires of a form."""

    def __init__(self, form: Form, window_bits: int = 0, deflate_bytes: int = 0) -> None:
        self.form = form
        self.window_bits = window_bits
        self.deflate_bytes = deflate_bytes
        self._recent: dict[bytes, bytes] = {}
        self._recent_bytes = 0

    @abstractmethod
    def message(self, payload: bytes) -> bytes:
        """Return the piece of a message's payload."""

    def message_again(self, payload: bytes) -> bytes:
        """Return the piece as ``message`` does, for stored messages: many clients get the same ones, one after another,
        and what was compressed of late is not compressed again."""
        if not self.window_bits or len(payload) < self.deflate_bytes:
            return self.message(payload)
        piece = self._recent.get(payload)
        if piece is None:
            piece = self._recent[payload] = self.message(payload)
            self._recent_bytes += len(payload) + len(piece)
            while self._recent_bytes > RECENT_BYTES_MAX and self._recent:
                oldest = next(iter(self._recent))
                self._recent_bytes -= len(oldest) + len(self._recent.pop(oldest))
        return piece

    @abstractmethod
    def event(self, value: AnyAnswer) -> bytes:
        """Return the piece of an answer or event, never compressed: it is one client's, or short."""

    def ping(self, payload: bytes = b"") -> bytes:
        """Return what asks for a sign of life; empty where nothing does. The payload comes back with the answer."""
        del payload
        return b""

    @abstractmethod
    def close(self, code: int, reason: str) -> bytes:
        """Return what a client is told last, with a code of protocol.md 7."""

    @abstractmethod
    def split(self, chunk: bytes) -> Iterable[tuple[bytes, int]]:
        """Return the single pieces of a chunk of whole ones, each with the subject id of its message, -1 for anything
        else. Only the head of each is looked at."""

    def retained(self, found: Message, newest: Message) -> Message | None:
        """Return the snapshot of a subject, as a message, as the wire tells it; None: not at all. ``newest`` is the
        last publication in it."""
        del newest
        return found

    def gap(self, subject: str, sid: int, epoch: int, seq: int, *, live: bool) -> bytes:
        """Return the piece that says that messages are missing, up to this place, and nothing stands for them.

        ``live``: they are kept from all. Of wires that are not ``numbered``."""
        raise NotImplementedError


class _KeptFrame(NamedTuple):
    newest: Message
    place: tuple[int, int, int]
    frame: bytes


class LargeFrames:
    """The frames of subjects' snapshots as they were made last, for each wire: large ones are made once for all who
    ask, and all wait for the same bytes.

    A subject is named by its ``sid``; ``newest`` and ``place`` (epoch, number, base of times) say how it stands.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Wire], _KeptFrame] = {}
        self._size = 0

    def find(self, sid: int, wire: Wire, newest: Message, place: tuple[int, int, int]) -> bytes | None:
        """Return the frame of the snapshot as it stands, if the frame is remembered."""
        kept = self._kept.get((sid, wire)) if self._kept else None
        return None if kept is None or kept.newest is not newest or kept.place != place else kept.frame

    def keep(self, sid: int, wire: Wire, newest: Message, place: tuple[int, int, int], frame: bytes) -> None:
        """Remember the frame, if it is large."""
        if len(frame) < LARGE_BYTES:
            return
        self._forget((sid, wire))
        self._kept[sid, wire] = _KeptFrame(newest, place, frame)
        self._size += len(frame)
        while self._size > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: tuple[int, Wire]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= len(kept.frame)


def pieces(frames: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the frames in their order, small ones joined and each large one as it is: copies of it would be each
    client's."""
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


class Terms:
    """The terms of a listener: over which wire its clients are told what, and how long messages are collected for them,
    ``batch_ms`` or until ``batch_bytes`` wait, whichever is first; 0 is until the end of the tick (features.md A8)."""

    __slots__ = ("batch_bytes", "batch_ms", "wire")

    def __init__(self, wire: Wire, batch_ms: int, batch_bytes: int) -> None:
        self.wire = wire
        self.batch_ms = batch_ms
        self.batch_bytes = batch_bytes


@cache
def terms_of(wire: Wire, batch_ms: int = 0, batch_bytes: int = 0) -> Terms:
    """Return the terms of this make; two of the same are the same object."""
    return Terms(wire, batch_ms, batch_bytes)


@lru_cache(maxsize=1)
def split_messages(chunk: bytes, wire: Wire) -> list[tuple[bytes, int]]:
    """Return the single pieces of a queue's chunk of whole ones, each with the subject id of its message, or -1.

    The last one asked for is remembered, because many clients that lag have the same chunk in their queues; who asks
    last lets it go (``cache_clear``).
    """
    return list(wire.split(chunk))
