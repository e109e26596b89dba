"""What a new subscription gets before live messages: what it missed, the newest n, or the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cache.cache_range import chain
from ..delivery import slow_consumers
from ..delivery.audience import Cursor
from ..delivery.backlogs import SLICE_BYTES, take

if TYPE_CHECKING:
    from ..broker.broker import Broker
    from ..delivery.audience import Client, Topic
    from ..protocol.messages import Subscribe


class BackfillRoom:
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
    4.2). With a ``cursor`` they go on behind it (core/delivery/backlogs.py). ``cached`` says whether what was asked for
    was found in the cache; None: nothing was."""

    __slots__ = ("cached", "count", "cursor", "frames", "recovery")

    def __init__(
        self,
        frames: list[bytes] | None = None,
        recovery: str = "",
        count: int = 0,
        cursor: Cursor | None = None,
        cached: bool | None = None,
    ) -> None:
        self.frames = frames or []
        self.recovery = recovery
        self.count = count or len(self.frames)
        self.cursor = cursor
        self.cached = cached


def owed(broker: Broker, client: Client, topic: Topic, request: Subscribe) -> tuple[int, str] | None:
    """Return after which number the subscription gets all that is cached, and of which kind the messages are; None: it
    does not ask for that, or the cache does not reach back to there."""
    if topic.subject in request.since:
        epoch, seq = _place(client, topic, request)
        at = broker.history.after(topic, epoch, seq) if broker.guaranteed else None
        return None if at is None else (seq, "recovered")
    count = min(request.history, len(chain(topic)))
    return (topic.seq - count, "historical") if count else None


def _place(client: Client, topic: Topic, request: Subscribe) -> tuple[int, int]:
    """Return where the subscription goes on.

    Who sees no numbers and has been sent nothing yet stands before the first message, in whichever epoch that is.
    """
    epoch, seq = request.since[topic.subject]
    return (epoch if seq or client.terms.wire.numbered else topic.epoch), seq


def collect(broker: Broker, client: Client, topic: Topic, request: Subscribe, room: BackfillRoom) -> Backfill:
    """Return the stored messages for one subscription, of which the room is taken: of what is cached there is a slice
    for all subjects of a command, and the rest follows as the client takes it, one subject after the other."""
    resumes, wire = topic.subject in request.since, client.terms.wire
    reach = owed(broker, client, topic, request)
    if reach is not None:
        seq, kind = reach
        cursor = Cursor(topic.epoch, seq, topic.seq, kind, request.slow)
        frames = take(broker, client, topic, cursor, 0 if client.recovering else room.cached) or []
        room.take(sum(map(len, frames)))
        if cursor.seq < topic.seq:
            room.cached = 0  # what was announced of one subject comes before what is cached of the next
            return Backfill(frames, "recovered" if resumes else "", topic.seq - seq, cursor, cached=True)
        return Backfill(frames, "recovered" if resumes else "", topic.seq - seq, cached=True)
    cached = False if resumes or request.history > 0 else None
    recovery = "resynchronised" if resumes else ""
    if resumes and not wire.numbered and not broker.stands_there(topic, *_place(client, topic, request)):
        frame = slow_consumers.stand_in(broker, topic, wire)
        room.take(len(frame))
        return Backfill([frame], recovery, cached=cached)
    # Who has read a subject that was removed since is told so; for all others there is nothing.
    state = broker.state(topic) if resumes else broker.snapshot(topic)
    if state is None:
        return Backfill(recovery=recovery, cached=cached)
    found = state.as_message(topic.subject, topic.epoch, topic.seq)
    message = found if state.removed else wire.retained(found, state.newest)
    if message is None:
        return Backfill(recovery=recovery, cached=cached)
    frame = broker.frame(message, topic, wire, "snapshot")
    room.take(len(frame))
    return Backfill([frame], recovery, cached=cached)
