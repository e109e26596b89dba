"""The queue of what one client's socket has not taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from .wire import Wire, split_messages


class Queue:
    """The shared bytes that a blocked client has not taken: in order, whole frames but for the first's sent part."""

    __slots__ = ("chunks", "sent", "size")

    def __init__(self, data: bytes, sent: int) -> None:
        self.chunks: deque[bytes] = deque((data,))
        self.sent = sent
        self.size = len(data) - sent

    def push(self, data: bytes) -> None:
        """Add whole frames."""
        self.chunks.append(data)
        self.size += len(data)

    def front(self) -> bytes | memoryview:
        """Return the bytes to be written next."""
        head = self.chunks[0]
        return memoryview(head)[self.sent :] if self.sent else head

    def advance(self, count: int) -> None:
        """Advance by ``count`` bytes, which have been sent."""
        self.size -= count
        count += self.sent
        chunks = self.chunks
        while chunks and count >= len(chunks[0]):
            count -= len(chunks.popleft())
        self.sent = count

    def purge(self, sids: Container[int], wire: Wire) -> dict[int, int]:
        """Take out the messages of these subjects; return how many there were of each. A frame begun is finished."""
        purged: dict[int, int] = {}
        kept: list[bytes] = []
        frames = [each for chunk in self.chunks for each in split_messages(chunk, wire)]
        first = self._cut([frame for frame, _ in frames])
        for frame, sid in frames[first:]:
            if sid in sids:
                purged[sid] = purged.get(sid, 0) + 1
            else:
                kept.append(frame)
        self.chunks.extend(kept)
        self.size += sum(map(len, kept))
        return purged

    def keep_begun(self, wire: Wire) -> None:
        """Drop what waits but for the rest of the frame of which a part has been sent."""
        self._cut([frame for frame, _ in wire.split(self.chunks[0])] if self.sent else [])

    def _cut(self, frames: list[bytes]) -> int:
        """Take out all of ``frames`` but the one of which a part has been sent: it stays whole, for whoever cuts here
        next. The index of the first after it."""
        first = 0
        while first < len(frames) and self.sent >= len(frames[first]):
            self.sent -= len(frames[first])
            first += 1
        self.chunks.clear()
        if self.sent:
            self.chunks.append(frames[first])
            first += 1
        self.size = sum(map(len, self.chunks)) - self.sent
        return first
