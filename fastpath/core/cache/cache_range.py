"""Which cached messages of a subject lie between two positions, and which of them are missing (protocol.md 6.14)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from ..protocol.messages import Message
from .history import Cached, Ring

Place = tuple[int, int]
"""Epoch and sequence number: how far somebody has read in the chain as that was in the epoch (history.py)."""

NEAR = 2000
"""Number of messages in front of a part that are stepped over one by one; beyond that turning the ring costs less."""

EVICTED = "evicted"
"""Reason: the messages came, and are not cached any more."""

REPLACED = "replaced"
"""Reason: the messages were numbered in an epoch that did not last: what stands under these numbers now is something
else."""


class Lost(NamedTuple):
    """The messages from one number to another, both included, that cannot be told, and why: EVICTED or REPLACED."""

    first: int
    last: int
    why: str


class Span(NamedTuple):
    """Messages of a ring: ``length`` of them from index ``at`` on; ``lost`` are those that should be there besides."""

    at: int
    length: int
    lost: tuple[Lost, ...] = ()


def is_ahead(topic: Cached, place: Place) -> bool:
    """Return whether the place is further along than anything that has come here."""
    return place > (topic.epoch, topic.seq)


def span(topic: Cached, after: Place | None, upto: Place | None) -> Span:
    """Return the cached messages behind ``after``, up to and including ``upto``, which is not ahead.

    Without ``after`` the span begins with the oldest cached message, whatever was before it; without ``upto`` it ends
    with the newest.
    """
    ring = chain(topic)
    first = ring[0].seq if ring else topic.seq + 1
    end = len(ring)
    lost: list[Lost] = []
    if upto is not None:
        end = min(max(upto[1] - first + 1, 0), _count(ring, upto[0]))
    if after is None:
        return Span(0, end)
    epoch, seq = after
    read = seq - first + 1  # so many of the ring have been read, if they were the same
    at = min(max(read, 0), _count(ring, epoch))
    last = topic.seq if upto is None else upto[1]
    if at < read:
        lost.append(Lost(min(first + at, seq), seq, REPLACED))
    elif read <= 0 and _floor(topic, ring) > epoch:
        # Where in what is gone a later epoch began is not known: perhaps after this number, if more came after that.
        lost.append(Lost(min(seq, last), seq, REPLACED))
    if read < 0:
        lost.append(Lost(seq + 1, min(first - 1, last), EVICTED))
    if end < last - first + 1:
        lost.append(Lost(max(first + end, seq + 1), last, REPLACED))
    return Span(at, max(end - at, 0), tuple(one for one in lost if one.first <= one.last))


def part(ring: Ring, at: int, count: int) -> list[Message]:
    """Return ``count`` messages from index ``at`` on; wherever they stand it takes about as long as they are many."""
    if isinstance(ring, list):
        return ring[at : at + count]
    if at <= NEAR or at >= len(ring):
        return list(islice(ring, at, at + count))
    ring.rotate(-at)
    try:
        return list(islice(ring, min(count, len(ring) - at)))
    finally:
        ring.rotate(at)


def before(topic: Cached, time: int) -> Place | None:
    """Return the place just before the first message that came at ``time`` (ms) or later; None: before all that is
    cached."""
    ring = chain(topic)
    at = _first_from(ring, time)
    return (ring[at - 1].epoch, ring[at - 1].seq) if at else None


def chain(topic: Cached) -> Ring:
    """Return the cached messages up to the subject's position; none when they do not lead there."""
    ring = topic.ring
    return ring if ring and ring[-1].seq == topic.seq else []


def _first_from(ring: Sequence[Message] | deque[Message], time: int) -> int:
    low, high = 0, len(ring)
    while low < high:
        middle = (low + high) // 2
        if ring[middle].time < time:
            low = middle + 1
        else:
            high = middle
    return low


def _epoch(message: Message) -> int:
    return message.epoch


def _count(ring: Ring, epoch: int) -> int:
    """Return how many messages of the ring were numbered in the epoch or before; epochs only rise along it."""
    if ring and ring[-1].epoch <= epoch:
        return len(ring)
    return bisect_right(ring, epoch, key=_epoch)


def _floor(topic: Cached, ring: Ring) -> int:
    """Return the epoch of what stands just before the ring's oldest, as far as that is known."""
    return topic.floor or ring[0].epoch if ring else topic.epoch
