"""Bounded ring of the newest messages per subject: since() answers exactly the missed ones, or a gap."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from .messages import Message

Ring = list[Message] | deque[Message]
"""The cached messages of one subject, oldest first; numbers in it rise by one within an epoch."""


class Cached(Protocol):
    """A subject as the cache sees it; ``ring`` is the cache's own, None while it holds nothing of the subject."""

    ring: Ring | None


_SMALL = 16
"""Up to so many messages a ring is a list: a deque takes 600 bytes for its first."""

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
        # One entry for each subject whose ring is not None: (time of its oldest when entered, tie-breaker, subject).
        # The time may lag behind the ring's real oldest, never lead it, so the top bounds the age of all.
        self._oldest: list[tuple[int, int, Cached]] = []
        self._entered = 0

    def append(self, topic: Cached, message: Message) -> None:
        """Cache a numbered message of the subject."""
        ring = topic.ring
        if ring is None:
            if self.messages_max <= 0:
                return
            ring = topic.ring = []
            self._enter(topic, message.time)
        elif ring and ring[-1].epoch != message.epoch:
            self.drop(topic)  # positions of an older epoch do not lead to this one
            ring = topic.ring = []
        ring.append(message)
        count = len(ring)
        if count > self.messages_max:
            self.bytes += message.size - _pop(ring).size
            self.evicted_by_count += 1
        else:
            self.bytes += message.size + MESSAGE_OVERHEAD_BYTES
            self.messages += 1
            if count == _SMALL:
                topic.ring = deque(ring)
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

    def drop(self, topic: Cached) -> None:
        """Forget all messages of a subject."""
        for message in topic.ring or ():
            self._forget(message)
        if topic.ring is not None:
            topic.ring = []

    def _enter(self, topic: Cached, time: int) -> None:
        self._entered += 1
        heappush(self._oldest, (time, self._entered, topic))

    def _evict(self, now: int, count_max: int, age_ms_max: int) -> int:
        """Drop up to ``count_max`` messages of that age from the subject at the top; how many were dropped."""
        _, _, topic = heappop(self._oldest)
        ring = topic.ring
        dropped = 0
        while ring and dropped < count_max and ring[0].time <= now - age_ms_max:
            self._forget(_pop(ring))
            dropped += 1
        if ring:
            self._enter(topic, ring[0].time)
        else:
            topic.ring = None
        return dropped

    def _make_room(self) -> None:
        while self.bytes > self.bytes_max and self._oldest:
            self.evicted_by_memory += self._evict(_ANY_TIME, count_max=1, age_ms_max=0)

    def _forget(self, message: Message) -> None:
        self.bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        self.messages -= 1


def _pop(ring: Ring) -> Message:
    return ring.popleft() if isinstance(ring, deque) else ring.pop(0)
