"""Frames of snapshots that are large: made once for all who ask, and written as they are, so that they are shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..delivery.audience import Topic
    from ..delivery.wire_encoding import Encoding
    from ..protocol.messages import Message

LARGE_BYTES = 128 << 10
"""From here on it is worth it: making one takes longer than a tenth of a millisecond."""

KEPT_BYTES_MAX = 64 << 20
"""What is remembered of them; the oldest go first, and one alone may be larger."""

SHARED = "snapshot"
"""The kind of message (protocol.md 5.1) whose frames are."""

_Key = tuple[int, "Encoding"]


class _Kept(NamedTuple):
    newest: Message
    position: tuple[int, int, int]
    frame: bytes


class LargeFrames:
    """The frames of subjects' snapshots as they were made last, for each encoding."""

    def __init__(self) -> None:
        self._kept: dict[_Key, _Kept] = {}
        self._size = 0

    def find(self, topic: Topic, encoding: Encoding, base: int) -> bytes | None:
        """The frame of the snapshot as it stands, if it is remembered."""
        if not self._kept or topic.snapshot is None:
            return None
        kept = self._kept.get((topic.sid, encoding))
        if kept is None or kept.newest is not topic.snapshot.newest or kept.position != (topic.epoch, topic.seq, base):
            return None
        return kept.frame

    def keep(self, topic: Topic, encoding: Encoding, base: int, frame: bytes) -> None:
        """Remember the frame, if it is large."""
        if len(frame) < LARGE_BYTES or topic.snapshot is None:
            return
        self._forget((topic.sid, encoding))
        self._kept[topic.sid, encoding] = _Kept(topic.snapshot.newest, (topic.epoch, topic.seq, base), frame)
        self._size += len(frame)
        while self._size > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: _Key) -> None:
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
