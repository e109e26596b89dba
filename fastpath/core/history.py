"""Bounded ring of the newest messages per subject: since() answers exactly the missed ones, or a gap."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import islice

from .messages import Message

Ring = deque[Message]
"""The cached messages of one subject, oldest first; numbers in it rise by one within an epoch."""


MESSAGE_OVERHEAD_BYTES = 300
"""What a cached message costs besides its text: counted into the cache's budget."""

_ANY_TIME = 1 << 62
"""Later than every message: evicts whatever its age, also after the clock was set back."""


class History:
    """The cache over all subjects: N a subject, T ms each, and a budget of bytes over all."""

    def __init__(self, messages_max: int, age_ms_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.age_ms_max = age_ms_max
        self.bytes_max = bytes_max
        self.bytes = 0
        self.messages = 0
        self.evicted_by_count = 0
        self.evicted_by_age = 0
        self.evicted_by_memory = 0
        # One entry for each ring that holds something: (time of its oldest when entered, tie-breaker, ring). The
        # time may lag behind the ring's real oldest, never lead it, so the top bounds the age of all.
        self._oldest: list[tuple[int, int, Ring]] = []
        self._entered = 0

    def append(self, ring: Ring, message: Message) -> None:
        """Cache a numbered message of the ring's subject."""
        if self.messages_max <= 0:
            return
        if not ring:
            self._enter(ring, message.time)
        elif ring[-1].epoch != message.epoch:
            self.drop(ring)  # positions of an older epoch do not lead to this one
        ring.append(message)
        if len(ring) > self.messages_max:
            self.bytes += message.size - ring.popleft().size
            self.evicted_by_count += 1
        else:
            self.bytes += message.size + MESSAGE_OVERHEAD_BYTES
            self.messages += 1
        if self.bytes > self.bytes_max:
            self._make_room()

    def expire(self, now: int, count_max: int = 10_000) -> None:
        """Drop what is older than T; about ``count_max`` a call, so that a burst cannot hold the loop."""
        limit = now - self.age_ms_max
        while self._oldest and self._oldest[0][0] <= limit and count_max > 0:
            dropped = self._evict(now, count_max, self.age_ms_max)
            self.evicted_by_age += dropped
            count_max -= dropped + 1

    def newest(self, ring: Ring | None, count: int) -> list[Message]:
        """The newest ``count`` cached messages, oldest first (FEATURES A4)."""
        if not ring or count <= 0:
            return []
        return list(islice(ring, max(0, len(ring) - count), None))

    def since(self, ring: Ring | None, epoch: int, seq: int, at_epoch: int, at_seq: int) -> list[Message] | None:
        """The messages after (epoch, seq) up to the subject's position (at_epoch, at_seq); None is a gap."""
        if epoch != at_epoch or seq > at_seq or seq < 0:
            return None
        if seq == at_seq:
            return []
        if not ring or ring[0].seq > seq + 1:
            return None
        return list(islice(ring, seq + 1 - ring[0].seq, None))

    def _enter(self, ring: Ring, time: int) -> None:
        self._entered += 1
        heappush(self._oldest, (time, self._entered, ring))

    def _evict(self, now: int, count_max: int, age_ms_max: int) -> int:
        """Drop up to ``count_max`` messages of that age from the ring at the top; how many were dropped."""
        _, _, ring = heappop(self._oldest)
        dropped = 0
        while ring and dropped < count_max and ring[0].time <= now - age_ms_max:
            self._forget(ring.popleft())
            dropped += 1
        if ring:
            self._enter(ring, ring[0].time)
        return dropped

    def _make_room(self) -> None:
        while self.bytes > self.bytes_max and self._oldest:
            self.evicted_by_memory += self._evict(_ANY_TIME, count_max=1, age_ms_max=0)

    def _forget(self, message: Message) -> None:
        self.bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        self.messages -= 1

    def drop(self, ring: Ring) -> None:
        """Forget all messages of a ring."""
        for message in ring:
            self._forget(message)
        ring.clear()
