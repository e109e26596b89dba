"""What a new subscription gets before live messages: what it missed, the newest n, or the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .history import MESSAGE_OVERHEAD_BYTES
from .messages import Message

if TYPE_CHECKING:
    from .broker import Broker
    from .client import Client
    from .interest import Topic
    from .messages import Subscribe


class Stored:
    """Frames that come first, and what to tell of the recovery (protocol.md 4.2)."""

    __slots__ = ("frames", "recovery")

    def __init__(self, frames: list[bytes] | None = None, recovery: str = "") -> None:
        self.frames = frames or []
        self.recovery = recovery


def collect(broker: Broker, client: Client, topic: Topic, request: Subscribe) -> Stored:
    """The stored messages for one subscription.

    What would not fit into the client's outgoing queue is no recovery: the client gets the snapshot and is told
    that it was resynchronised, rather than being closed as slow for a burst that it asked for.
    """
    budget = broker.limits.outbox_bytes_max // 2
    counters = broker.counters
    recovery = ""
    if topic.subject in request.since:
        epoch, seq = request.since[topic.subject]
        missed = broker.history.since(topic, epoch, seq) if broker.guaranteed else None
        if missed is not None and _size(missed) <= budget:
            counters.cache_hits += 1
            return Stored(_frames(broker, client, topic, missed, "recovered"), "recovered")
        counters.cache_misses += 1
        recovery = "resynchronised"
    elif request.history:
        newest = broker.history.newest(topic.ring, request.history)
        while newest and _size(newest) > budget:
            newest = newest[(len(newest) + 1) // 2 :]
        if newest:
            counters.cache_hits += 1
            return Stored(_frames(broker, client, topic, newest, "historical"))
        counters.cache_misses += 1
    snapshot = broker.snapshot(topic)
    if snapshot is None:
        return Stored(recovery=recovery)
    message = snapshot.as_message(topic.subject, topic.epoch, topic.seq)
    return Stored(_frames(broker, client, topic, (message,), "snapshot"), recovery)


def _frames(broker: Broker, client: Client, topic: Topic, messages: Iterable[Message], kind: str) -> list[bytes]:
    return [broker.frame(message, topic, client.wire.encoding, kind) for message in messages]


def _size(messages: list[Message]) -> int:
    return sum(message.size + MESSAGE_OVERHEAD_BYTES for message in messages)
