"""What a new subscription gets before live messages: what it missed, the newest n, or the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cache.cache_range import chain
from ..delivery.audience import Cursor
from ..delivery.backlogs import SLICE_BYTES, take

if TYPE_CHECKING:
    from ..broker.broker import Broker
    from ..delivery.audience import Client, Topic
    from ..protocol.messages import Subscribe


class Room:
    """The bytes that one command may put before a client at once: ``left`` in all; ``cached`` of what may also come
    later, as the client takes it."""

    __slots__ = ("cached", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.cached = min(left, SLICE_BYTES)

    def take(self, size: int) -> None:
        """Take the bytes from the room."""
        self.left -= size
        self.cached -= size


class Backfill:
    """Frames that come first, how many stored messages that are in all, and what to tell of the recovery (protocol.md
    4.2). With a ``cursor`` they go on behind it (core/delivery/backlogs.py)."""

    __slots__ = ("count", "cursor", "frames", "recovery")

    def __init__(
        self, frames: list[bytes] | None = None, recovery: str = "", count: int = 0, cursor: Cursor | None = None
    ) -> None:
        self.frames = frames or []
        self.recovery = recovery
        self.count = count or len(self.frames)
        self.cursor = cursor


def owed(broker: Broker, topic: Topic, request: Subscribe) -> tuple[int, str] | None:
    """After which number the subscription gets all that is cached, and of which kind the messages are; None: it does
    not ask for that, or the cache does not reach back to there."""
    if topic.subject in request.since:
        epoch, seq = request.since[topic.subject]
        at = broker.history.after(topic, epoch, seq) if broker.guaranteed else None
        return None if at is None else (seq, "recovered")
    count = min(request.history, len(chain(topic)))
    return (topic.seq - count, "historical") if count else None


def collect(broker: Broker, client: Client, topic: Topic, request: Subscribe, room: Room) -> Backfill:
    """The stored messages for one subscription, of which the room is taken: of what is cached there is a slice for all
    subjects of a command, and the rest follows as the client takes it, one subject after the other."""
    counters = broker.counters
    resumes = topic.subject in request.since
    found = owed(broker, topic, request)
    if found is not None:
        counters.cache_hits += 1
        seq, kind = found
        cursor = Cursor(topic.epoch, seq, topic.seq, kind, request.slow)
        frames = take(broker, client, topic, cursor, 0 if client.recovering else room.cached) or []
        room.take(sum(map(len, frames)))
        rest = cursor if cursor.seq < topic.seq else None
        return Backfill(frames, "recovered" if resumes else "", topic.seq - seq, rest)
    counters.cache_misses += resumes or request.history > 0
    recovery = "resynchronised" if resumes else ""
    snapshot = broker.snapshot(topic)
    if snapshot is None:
        return Backfill(recovery=recovery)
    message = snapshot.as_message(topic.subject, topic.epoch, topic.seq)
    frame = broker.frame(message, topic, client.wire.encoding, "snapshot")
    room.take(len(frame))
    return Backfill([frame], recovery)
