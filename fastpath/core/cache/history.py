"""Bounded ring of the newest messages per subject: since() answers exactly the missed ones, or a gap.

Numbers in a ring rise by one, also where an epoch ends: what the new epoch numbers again has been cut off before. So
the ring and the position just before it are the one chain of messages that stands. A client's position says how far it
has read in the chain as that was in an epoch: it is owed what follows, unless a later epoch has numbered again what it
has read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import Protocol

from ..protocol.messages import Message
from ..protocol.options import TopicOptions

Ring = list[Message] | deque[Message]
"""The cached messages of one subject, oldest first."""


class Cached(Protocol):
    """A subject as the cache sees it; ``ring`` and ``floor`` are the cache's own.

    ``ring`` is None while nothing of the subject is held. ``floor`` is the epoch of the message just before the ring's
    oldest, 0 where that is not known. ``options`` are what bounds its cache in place of the settings, None: they do.
    """

    options: TopicOptions | None
    ring: Ring | None
    floor: int
    epoch: int
    seq: int


_size = attrgetter("size")

_SMALL = 16
"""Number of messages up to which a ring is a list: a deque takes 600 bytes for its first."""

MESSAGE_OVERHEAD_BYTES = 300
"""Bytes that a cached message costs besides its text: they are counted into the cache's budget."""

CLOCK_STEP_MS = 1000
"""A clock that goes back by less was only adjusted."""

_ANY_TIME = 1 << 62
"""Later than every message: evicts whatever its age, also after the clock was set back."""


class History:
    """The cache over all subjects: N a subject, T ms each, and a budget of bytes over all.

    N and T are the subject's own where it has options (features.md C7).
    """

    def __init__(self, messages_max: int, age_ms_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.age_ms_max = age_ms_max
        self.bytes_max = bytes_max
        self.bytes = 0
        self.messages = 0
        self.evicted_by_count = 0
        self.evicted_by_age = 0
        self.evicted_by_memory = 0
        self.told: Callable[[Message, str], None] | None = None
        """Told of each message that leaves, and why: ``count``, ``age``, ``memory``, or because it is ``void``."""
        # One entry that counts for each subject whose ring is not None: (when its oldest, as it was when entered, is
        # too old, number of the entry, subject). It may be earlier than is so of the ring's real oldest, never later,
        # so before the top nothing is too old.
        self._oldest: list[tuple[int, int, Cached]] = []
        # Subjects that were entered once more, for an earlier time: the entry that counts, how many others there are,
        # and the time of the first.
        self._renewed: dict[Cached, list[int]] = {}
        self._entered = 0
        self._now = 0

    def tell(self, told: Callable[[Message, str], None] | None) -> None:
        """Have ``told`` hear of each message that the cache lets go of, and why; None: nobody."""
        self.told = told

    def append(self, topic: Cached, message: Message) -> None:
        """Cache a numbered message of the subject, the one after its newest."""
        ring = topic.ring
        if ring is None:
            if self.room_for(topic) <= 0:
                topic.floor = message.epoch
                return
            ring = topic.ring = []
            self._enter(topic, message.time)
        elif ring and ring[-1].seq != message.seq - 1:
            self.drop(topic)  # what lies between is not here: the ring would not be a chain
            ring = topic.ring = []
        ring.append(message)
        count = len(ring)
        if count > (self.messages_max if topic.options is None else topic.options.cache_messages):
            oldest = _pop(ring)
            topic.floor = oldest.epoch
            self.bytes += message.size - oldest.size
            self.evicted_by_count += 1
            if self.told is not None:
                self.told(oldest, "count")
        else:
            self.bytes += message.size + MESSAGE_OVERHEAD_BYTES
            self.messages += 1
            if count == _SMALL:
                topic.ring = deque(ring)
        if self.bytes > self.bytes_max:
            self._make_room()

    def leave_out(self, topic: Cached) -> None:
        """Leave out what came of the subject up to its position: what is cached next stands behind that."""
        if not topic.ring:
            topic.floor = topic.epoch

    def extend(self, topic: Cached, messages: Sequence[Message], skipped: int = 0) -> None:
        """Cache consecutive messages of the subject in one step, as many as it may hold at most.

        ``skipped`` came just before them, in the same epoch, and would have had to leave for them.
        """
        messages_max = self.room_for(topic)
        if messages_max <= 0:
            return
        first = messages[0]
        ring = topic.ring
        if ring is None:
            ring = topic.ring = []
            self._enter(topic, first.time)
        elif ring and ring[-1].seq != first.seq - skipped - 1:
            self.drop(topic)
            ring = topic.ring = []
        over = len(ring) + skipped + len(messages) - messages_max
        if over > 0:
            self.evicted_by_count += over
            held = len(ring)
            self._shift(topic, ring, over)
            if over > held:  # some of the skipped ones come after all that was held
                topic.floor = first.epoch
        ring.extend(messages)
        if len(ring) >= _SMALL and isinstance(ring, list):
            topic.ring = deque(ring)
        self.bytes += sum(map(_size, messages)) + MESSAGE_OVERHEAD_BYTES * len(messages)
        self.messages += len(messages)
        if self.bytes > self.bytes_max:
            self._make_room()

    def expire(self, now: int, count_max: int = 10_000) -> None:
        """Drop what is older than T; about ``count_max`` a call, so that a burst cannot hold the loop."""
        if now < self._now - CLOCK_STEP_MS:
            self._set_back(now)
        self._now = now
        while self._oldest and self._oldest[0][0] <= now and count_max > 0:
            dropped = self._evict(now, count_max, "age")
            self.evicted_by_age += dropped
            count_max -= dropped + 1

    def room_for(self, topic: Cached) -> int:
        """Return how many messages of the subject are cached at most."""
        return self.messages_max if topic.options is None else topic.options.cache_messages

    def age_of(self, topic: Cached) -> int:
        """Return how long messages of the subject are cached at most, in ms."""
        return self.age_ms_max if topic.options is None else topic.options.cache_ms

    def refit(self, topic: Cached, age_ms_before: int) -> None:
        """Follow a change of the subject's bounds: what is too many goes with ``shrink``, what is too old with
        ``expire``.

        ``age_ms_before``: what ``age_of`` was.
        """
        if topic.ring is not None and self.age_of(topic) < age_ms_before:
            self._enter_again(topic)

    def shrink(self, topic: Cached, count_max: int) -> int:
        """Let go of what is too many of the subject, the oldest first, up to ``count_max``; how many went."""
        ring = topic.ring or []
        over = min(len(ring) - self.room_for(topic), count_max)
        if over <= 0:
            return 0
        if self.told is not None:
            for message in islice(ring, over):
                self.told(message, "count")
        self.evicted_by_count += over
        self._shift(topic, ring, over)
        return over

    def newest(self, ring: Ring | None, count: int) -> list[Message]:
        """Return the newest ``count`` cached messages, oldest first (features.md A4)."""
        if not ring or count <= 0:
            return []
        return list(islice(ring, max(0, len(ring) - count), None))

    def since(self, topic: Cached, epoch: int, seq: int) -> list[Message] | None:
        """Return the messages after (epoch, seq) up to the subject's position; None is a gap (features.md C3)."""
        at = self.after(topic, epoch, seq)
        return None if at is None else list(islice(topic.ring or (), at, None))

    def after(self, topic: Cached, epoch: int, seq: int) -> int | None:
        """Return the ring's index of the first message behind the place, its length if there is none; None is a gap."""
        ring = topic.ring
        end = len(ring or ())
        if seq == topic.seq == 0:
            return end if epoch >= topic.epoch else None  # nothing has come since that epoch began
        if not 0 <= seq <= topic.seq or epoch > topic.epoch:
            return None
        if not ring or ring[-1].seq != topic.seq:
            return end if seq == topic.seq and epoch == topic.epoch else None
        at = seq - ring[0].seq  # of the message that was read last
        if at < -1:
            return None
        # Before the ring's oldest only the floor tells; without one, in the oldest's own epoch there is one chain.
        since = ring[at].epoch if at >= 0 else topic.floor or ring[0].epoch
        return at + 1 if since <= epoch else None

    def cut(self, topic: Cached, seq: int) -> None:
        """Forget the subject's messages numbered ``seq`` and above: a new epoch numbers these again."""
        ring = topic.ring
        while ring and ring[-1].seq >= seq:
            self._void(ring.pop())

    def drop(self, topic: Cached) -> None:
        """Forget all messages of a subject."""
        for message in topic.ring or ():
            self._void(message)
        topic.floor = 0
        if topic.ring is not None:
            topic.ring = []

    def _shift(self, topic: Cached, ring: Ring, count: int) -> None:
        """Let go of the ring's oldest ``count`` messages, or of all where there are not so many."""
        leaving = list(islice(ring, count))
        if not leaving:
            return
        topic.floor = leaving[-1].epoch
        self.bytes -= sum(map(_size, leaving)) + MESSAGE_OVERHEAD_BYTES * len(leaving)
        self.messages -= len(leaving)
        if isinstance(ring, list):
            del ring[:count]
        else:
            for _ in leaving:
                ring.popleft()

    def _set_back(self, now: int) -> None:
        """Follow a clock that was set back: what is dated later than now would not expire before the clock is there
        again."""
        for _, _, topic in self._oldest:
            for message in topic.ring or ():
                message.time = min(message.time, now)
        self._oldest = [(min(due, now + self.age_of(topic)), entered, topic) for due, entered, topic in self._oldest]
        heapify(self._oldest)

    def _enter(self, topic: Cached, time: int) -> None:
        """Enter a subject whose oldest message is of that time."""
        self._entered += 1
        due = time + self.age_of(topic)
        if self._renewed and (renewed := self._renewed.get(topic)) is not None:
            renewed[0], renewed[2] = self._entered, due
        heappush(self._oldest, (due, self._entered, topic))

    def _enter_again(self, topic: Cached) -> None:
        """Enter a subject that may be entered for too late a time; if so, that entry does not count any more."""
        time = topic.ring[0].time if topic.ring else self._now
        renewed = self._renewed.setdefault(topic, [0, 0, _ANY_TIME])
        if renewed[2] > time + self.age_of(topic):  # else a time that gets longer and shorter again would pile them up
            renewed[1] += 1
            self._enter(topic, time)

    def _is_void(self, topic: Cached, entered: int) -> bool:
        """Return whether an entry that was taken out does not count any more, as there is another one."""
        renewed = self._renewed.get(topic)
        if renewed is None or renewed[0] == entered:
            return False
        renewed[1] -= 1
        if not renewed[1]:
            del self._renewed[topic]
        return True

    def _evict(self, now: int, count_max: int, cause: str) -> int:
        """Drop up to ``count_max`` messages that are too old at ``now`` from the subject at the top; how many were."""
        _, entered, topic = heappop(self._oldest)
        if self._renewed and self._is_void(topic, entered):
            return 0
        ring = topic.ring
        dropped = 0
        oldest_time = now - self.age_of(topic)
        while ring and dropped < count_max and ring[0].time <= oldest_time:
            oldest = _pop(ring)
            topic.floor = oldest.epoch
            self._forget(oldest)
            if self.told is not None:
                self.told(oldest, cause)
            dropped += 1
        if ring:
            self._enter(topic, ring[0].time)
        else:
            topic.ring = None
        return dropped

    def _make_room(self) -> None:
        while self.bytes > self.bytes_max and self._oldest:
            self.evicted_by_memory += self._evict(_ANY_TIME, 1, "memory")

    def _void(self, message: Message) -> None:
        self._forget(message)
        if self.told is not None:
            self.told(message, "void")

    def _forget(self, message: Message) -> None:
        self.bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        self.messages -= 1


def _pop(ring: Ring) -> Message:
    return ring.popleft() if isinstance(ring, deque) else ring.pop(0)
