"""What a new subscription gets before live messages: what it missed, the newest n, or the snapshot.

The session of a client of MQTT is not present any more where it has missed messages for good (decision 43).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..auth.reasons import PENDING
from ..auth.rules import SUBSCRIBE
from ..cache.cache_range import chain
from ..delivery import slow_consumers
from ..delivery.audience import Cursor
from ..delivery.backlogs import SLICE_BYTES, take
from ..mqtt.publications import as_retained, expiry_of
from ..mqtt.topics import name_of
from ..protocol.codec import MQTT_FORMS
from ..protocol.messages import STANDARD
from ..protocol.subject import is_system

if TYPE_CHECKING:
    from ..auth.grants import Principal
    from ..broker.broker import Broker
    from ..delivery.audience import Client, Topic
    from ..mqtt.session import MqttSession, Options
    from ..protocol.messages import Subscribe


LOOKS_MAX = 2000
"""Filters that are held against subjects before the client is answered: some 5 ms. What is not found by then is found
when it is read, which ends the connection (core/mqtt/outgoing.py)."""

SUBJECT_LOOKS = 5
"""What a subject counts for besides, of which the cache does not reach back."""


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
    """After which number the subscription gets all that is cached, and of which kind the messages are; None: it does
    not ask for that, or the cache does not reach back to there."""
    if topic.subject in request.since:
        epoch, seq = _place(client, topic, request)
        at = broker.history.after(topic, epoch, seq) if broker.guaranteed else None
        return None if at is None else (seq, "recovered")
    count = min(request.history, len(chain(topic)))
    return (topic.seq - count, "historical") if count else None


def stands_there(broker: Broker, topic: Topic, epoch: int, seq: int) -> bool:
    """Whether who has read up to there can have all that came since."""
    if broker.guaranteed:
        return broker.history.after(topic, epoch, seq) is not None
    return (epoch, seq) == (topic.epoch, topic.seq)  # nothing is cached


def _place(client: Client, topic: Topic, request: Subscribe) -> tuple[int, int]:
    """Where the subscription goes on. A session of MQTT that has been sent nothing yet stands before the first message,
    in whichever epoch that is."""
    epoch, seq = request.since[topic.subject]
    return (epoch if seq or client.form not in MQTT_FORMS else topic.epoch), seq


def collect(broker: Broker, client: Client, topic: Topic, request: Subscribe, room: Room) -> Backfill:
    """The stored messages for one subscription, of which the room is taken: of what is cached there is a slice for all
    subjects of a command, and the rest follows as the client takes it, one subject after the other."""
    resumes = topic.subject in request.since
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
    if resumes and client.form in MQTT_FORMS and not stands_there(broker, topic, *_place(client, topic, request)):
        frame = slow_consumers.stand_in(broker, topic, client.wire.encoding)
        room.take(len(frame))
        return Backfill([frame], recovery, cached=cached)
    # Who has read a subject that was removed since is told so; for all others there is nothing.
    state = broker.state(topic) if resumes else broker.snapshot(topic)
    if state is None:
        return Backfill(recovery=recovery, cached=cached)
    found = state.as_message(topic.subject, topic.epoch, topic.seq)
    as_it_is = state.removed or client.form not in MQTT_FORMS
    message = found if as_it_is else as_retained(found, state.newest)
    if message is None:
        return Backfill(recovery=recovery, cached=cached)
    frame = broker.frame(message, topic, client.wire.encoding, "snapshot")
    room.take(len(frame))
    return Backfill([frame], recovery, cached=cached)


def missed(broker: Broker, principal: Principal, session: MqttSession, now: int) -> str:
    """A subject of which messages are lacking between where the session stands and where the cache begins, of which the
    client was to get each, and for which nothing stands that it will be sent; empty if none is known. ``now`` in ms."""
    if not any(one.filter.qos for one in session.subscriptions.values()):
        return ""
    looks = 0
    for subject, (epoch, seq) in session.since().items():
        if broker.ahead(subject, epoch, seq):
            continue  # what is there has not come to this process yet
        topic = broker.interest.topics.get(subject)
        if topic is None:
            if not seq:
                continue
        elif stands_there(broker, topic, epoch if seq else topic.epoch, seq):
            continue
        if not name_of(subject) or is_system(subject):
            continue
        reason = broker.grants.check(principal, SUBSCRIBE, subject, now)
        if reason and reason not in PENDING:
            continue
        looks += SUBJECT_LOOKS + session.searched
        if looks > LOOKS_MAX:
            break
        if _lacks(broker, session, subject, topic, now):
            return subject
    return ""


def _lacks(broker: Broker, session: MqttSession, subject: str, topic: Topic | None, now: int) -> bool:
    name = name_of(subject)
    options = session.find_options(name, subject)
    if options is not None and options.qos:
        return topic is None or not _is_stood_for(broker, topic, options, now)
    return session.was_deserted(name)


def _is_stood_for(broker: Broker, topic: Topic, options: Options, now: int) -> bool:
    """Whether the client will be told by the subject's retained message, or by its removal, which it acknowledges."""
    state = broker.state(topic)
    if state is None or state.removed:
        return state is not None
    message = as_retained(state.as_message(topic.subject, topic.epoch, topic.seq), state.newest)
    if message is None or not options.wants or message.qos == STANDARD:
        return False
    expires = expiry_of(message)
    return not expires or expires > now
