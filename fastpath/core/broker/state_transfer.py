"""A whole copy of one broker's subjects in slices of bounded size, and how another broker takes it over.

While a copy is under way the live log goes on: who sends it leaves out the messages of subjects in ``Copy.pending``,
whose copy comes later and holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..auth.grants import Grants
from ..auth.rule_grants import RuleGrants
from ..cache.snapshot import Snapshot
from ..delivery.audience import Topic
from ..protocol.as_of import NO_VERSION, version_of
from ..protocol.messages import Message
from ..protocol.options import OptionRow
from .broker import Broker
from .rights_records import LeftOut

PART_BYTES = 300
"""Bytes that a subject without messages counts for in a slice."""

DOUBLINGS_MAX = 5
"""Number of times that a slice of one subject is doubled."""

CHUNK_MAX = 1000
"""Rules, users, sessions and rows of options in one part of the rights."""

Part = list[Any]
"""``[subject, messages]``, or as the last one of a subject
``[subject, messages, epoch, seq, floor, newest, fields]``: its position, the cache's floor, and the snapshot.
``[subject, None]``: what came of the subject before is void, it begins anew."""


class Copy:
    """The rest of a broker's subjects that is still to be copied to a follower."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._todo = [topic.subject for topic in broker.interest.topics.values() if not topic.void]
        self.pending = set(self._todo)
        self._sent = 0  # of the subject at hand: the newest number that has been copied
        self._last: Message | None = None  # and its message
        self._slices = 0  # of it so far

    def slice(self, bytes_max: int) -> list[Part]:
        """Return the next parts, of about so many bytes; one message, or one snapshot, may be more.

        A subject that comes to its next slice gets more each time: it is to end also while it is published to fast.
        """
        bytes_max <<= min(self._slices, DOUBLINGS_MAX)
        parts: list[Part] = []
        size = 0
        while self._todo and size < bytes_max:
            topic = self._broker.interest.topics.get(self._todo[-1])
            if topic is not None:
                if self._sent and not self._goes_on(topic):
                    parts.append([topic.subject, None])
                    self._sent = 0
                missing = self._broker.history.newest(topic.ring, topic.seq - self._sent)
                count = 0
                size += PART_BYTES
                while count < len(missing) and (size < bytes_max or not (parts or count)):
                    size += missing[count].size
                    count += 1
                if count < len(missing):
                    if count:
                        self._slices += 1
                        parts.append([topic.subject, missing[:count]])
                        self._last = missing[count - 1]
                        self._sent = self._last.seq
                    break
                weight = topic.snapshot.weigh() if topic.snapshot is not None and topic.snapshot.fields else 0
                if weight and parts and size + weight > bytes_max:
                    break  # it is the first of the next slice
                size += weight
                parts.append(_last_part(topic, missing))
            self.pending.discard(self._todo.pop())
            self._sent = self._slices = 0
        return parts

    def _goes_on(self, topic: Topic) -> bool:
        """Return whether the copied part of the subject still stands: an epoch may have begun that numbers it again."""
        ring, last = topic.ring, self._last
        if not ring or last is None:
            return False
        at = self._sent - ring[0].seq
        if at < 0:  # the cache has let go of it
            return at < -1 or topic.floor == last.epoch
        return at < len(ring) and ring[at] is last


class StateReceiver:
    """Puts a copy in the place of what the broker holds.

    Where the broker stands at a position of the copy's own past, what follows is delivered to whoever is subscribed, as
    if it came live. Where it has more, or stands elsewhere, the copy replaces what it holds and everybody is told.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._messages: list[Message] = []  # of the subject at hand
        self._known: set[str] = set()

    def add(self, part: Part) -> None:
        """Take a part of the copy.

        What is held of a subject stays until all of the copy is here: should the sender end before, it is still whole.
        """
        if part[1] is None:
            self._messages = []
            return
        messages = [read_entry(row) for row in part[1]]
        if self._messages and messages and messages[0].seq != self._messages[-1].seq + 1:
            self._messages = []  # the sender's cache has let go of what lies between
        self._messages += messages
        if len(part) > 2:
            part[1], self._messages = self._messages, []
            self._known.add(part[0])
            take_part(self._broker, part)

    def restarted(self, part: Part) -> None:
        """Take all of a subject, which is ``part``: the sender had to bring the subject elsewhere meanwhile."""
        self._known.add(part[0])
        part[1] = [read_entry(row) for row in part[1]]
        take_part(self._broker, part)

    def before(self, messages: Iterable[Message]) -> None:
        """Deliver live messages, of subjects that are copied already or that the sender did not know when it began."""
        for message in messages:
            subject = message.subject
            if subject not in self._known:
                self._known.add(subject)
                self._forget(self._broker.interest.topics.get(subject))

    def finish(self) -> None:
        """Finish the copy, which is complete: what is not in it is not there any more."""
        topics = self._broker.interest.topics
        for topic in [topic for topic in topics.values() if topic.subject not in self._known]:
            self._forget(topic)
            if topic.idle:
                self._broker.interest.forget(topic)

    def _forget(self, topic: Topic | None) -> None:
        if topic is not None and not topic.void:
            self._broker.reset_topic(topic, self._broker.engine.epoch, 0)


def take_part(broker: Broker, part: Part) -> None:
    """Bring a subject to where a whole copy of it stands; ``part`` is its last one, its messages decoded."""
    subject, messages, epoch, seq, floor, newest, fields = part
    topic = broker.topic(subject, epoch)
    snapshot = None
    if newest is not None and broker.keeps_snapshot(topic):
        snapshot = Snapshot(messages[-1] if newest is True else read_entry(newest))
        snapshot.fields = fields
    if topic.seq and _follow(broker, topic, messages, epoch, seq, floor):
        topic.snapshot = snapshot
        return
    if topic.seq or topic.feed is not None or topic.conflated or topic.snapshot is not None:
        broker.history.drop(topic)
        broker.reset_topic(topic, epoch, seq, snapshot)
    topic.epoch, topic.seq, topic.snapshot = epoch, seq, snapshot
    held = messages if snapshot is None else [snapshot.newest, *messages]
    topic.version = max((version_of(message.as_of) for message in held), default=NO_VERSION)
    if broker.guaranteed:
        for message in messages:
            message.subject = topic.subject
            broker.history.append(topic, message)
        topic.floor = floor if topic.ring and messages and topic.ring[0] is messages[0] else topic.floor


def whole_part(broker: Broker, topic: Topic) -> Part:
    """Return all that is held of a subject, as ``take_part`` takes it."""
    return _last_part(topic, broker.history.newest(topic.ring, topic.seq))


def _follow(broker: Broker, topic: Topic, messages: list[Message], epoch: int, seq: int, floor: int) -> bool:
    """Deliver what the subject has not got yet, if it stands in the past of the copy; whether it does."""
    copied = Topic(topic.subject, topic.sid, epoch)
    copied.seq, copied.floor, copied.ring = seq, floor, messages
    missing = broker.history.since(copied, topic.epoch, topic.seq)
    if missing is None or (not missing and topic.epoch != epoch):
        return False
    broker.deliver(missing)
    return True


def read_entry(row: list[Any]) -> Message:
    """Return a message of a copy, which has every attribute."""
    return Message(*row)


def rights_in_chunks(
    grants: Grants, options: list[OptionRow], left_out: LeftOut
) -> Iterator[tuple[list[Any], list[Any], list[Any], list[Any]]]:
    """Yield all rules, users, revoked sessions and options in force, as ``Revocation.add`` takes them, and behind them
    what of the rights could not be read; in modes other than ``rules`` options alone."""
    rules, users, sessions = grants.contents() if isinstance(grants, RuleGrants) else ([], [], [])
    for start in range(0, max(len(rules), len(users), len(sessions), len(options)), CHUNK_MAX):
        end = start + CHUNK_MAX
        yield rules[start:end], users[start:end], sessions[start:end], options[start:end]
    yield from left_out.chunks(CHUNK_MAX)


def _last_part(topic: Topic, messages: list[Message]) -> Part:
    snapshot = topic.snapshot
    part: Part = [topic.subject, messages, topic.epoch, topic.seq, topic.floor]
    if snapshot is None:
        return [*part, None, None]
    newest: Message | bool = snapshot.newest
    if messages and messages[-1] is newest:
        newest = True  # it has been copied
    return [*part, newest, snapshot.fields]
