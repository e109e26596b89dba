"""A whole copy of one broker's subjects in slices of bounded size, and how another broker takes it over.

While a copy is under way the live log goes on: who sends it leaves out the messages of subjects in ``Copy.pending``,
whose copy comes later and holds them. Every copied message belongs to the epoch that the sender is in, so nothing in a
copy carries one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .broker import Broker
from .grants import RuleGrants
from .interest import Topic
from .messages import Epoch, Message
from .snapshot import Snapshot

PART_BYTES = 300
"""What a subject without messages counts for in a slice."""

DOUBLINGS_MAX = 5
"""How often a slice of one subject is doubled."""

CHUNK_MAX = 1000
"""Rules, users and sessions in one part of the rights."""

Part = list[Any]
"""``[subject, messages]``, or as the last one of a subject ``[subject, messages, seq, newest, fields]``."""


class Copy:
    """What is still to be copied of a broker's subjects."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._todo = [
            topic.subject for topic in broker.interest.topics.values() if topic.seq or topic.snapshot is not None
        ]
        self.pending = set(self._todo)
        self._sent = 0  # of the subject at hand: the newest number that has been copied
        self._slices = 0  # of it so far

    def slice(self, bytes_max: int) -> list[Part]:
        """The next parts, of about so many bytes; one message may be more.

        A subject that comes to its next slice gets more each time: it is to end also while it is published to fast.
        """
        bytes_max <<= min(self._slices, DOUBLINGS_MAX)
        parts: list[Part] = []
        size = 0
        while self._todo and size < bytes_max:
            topic = self._broker.interest.topics.get(self._todo[-1])
            if topic is not None:
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
                        self._sent = missing[count - 1].seq
                    break
                parts.append(_last_part(topic, missing))
            self.pending.discard(self._todo.pop())
            self._sent = self._slices = 0
        return parts


class Takeover:
    """Puts a copy in the place of what the broker holds; ``epoch`` is the sender's."""

    def __init__(self, broker: Broker, epoch: int) -> None:
        self._broker = broker
        self._epoch = epoch
        self._messages: list[Message] = []  # of the subject at hand

    def add(self, part: Part) -> None:
        """A part of the copy; whoever is subscribed is told when the subject goes on in a new epoch.

        What is held of a subject stays until all of the copy is here: should the sender end before, it is still whole.
        """
        broker = self._broker
        messages = [read_entry(row) for row in part[1]]
        if self._messages and messages and messages[0].seq != self._messages[-1].seq + 1:
            self._messages = []  # the sender's cache has let go of what lies between
        self._messages += messages
        if len(part) == 2:
            return
        messages, self._messages = self._messages, []
        subject, _, seq, newest, fields = part
        topic = broker.interest.topic(subject, self._epoch)
        _empty(broker, topic)
        for message in messages:
            message.subject = topic.subject
            message.epoch = self._epoch
            if broker.guaranteed:
                broker.history.append(topic, message)
        if newest is not None:
            topic.snapshot = Snapshot(messages[-1] if newest is True else read_entry(newest))
            topic.snapshot.newest.epoch = self._epoch if topic.snapshot.newest.seq else 0
            topic.snapshot.fields = fields
        self._begin(topic, seq)

    def before(self, messages: Iterable[Message]) -> None:
        """Live messages come, of subjects that are copied already or that the sender did not know when it began."""
        for message in messages:
            topic = self._broker.interest.topics.get(message.subject)
            if topic is not None and topic.epoch != self._epoch:
                _empty(self._broker, topic)
                self._begin(topic, 0)

    def finish(self) -> None:
        """The copy is complete: what is not in it is not there any more."""
        topics = self._broker.interest.topics
        for topic in [topic for topic in topics.values() if topic.epoch != self._epoch]:
            _empty(self._broker, topic)
            self._begin(topic, 0)
            if topic.idle:
                del topics[topic.subject]

    def _begin(self, topic: Topic, seq: int) -> None:
        """The subject stands at ``seq`` of the copy's epoch (protocol.md 4.8)."""
        topic.seq = seq
        if topic.epoch != self._epoch:
            topic.epoch = self._epoch
            self._broker.tell(topic, Epoch(sid=topic.sid, epoch=self._epoch, seq=seq))


def read_entry(row: list[Any]) -> Message:
    """A message of a copy, which has every attribute."""
    return Message(*row)


def rights_in_chunks(grants: RuleGrants) -> Iterator[tuple[list[Any], list[Any], list[Any]]]:
    """All rules, users and revoked sessions in force, as ``Rights.add`` takes them."""
    rules, users, sids = grants.contents()
    sessions = [{"sid": sid, "generation": 0} for sid in sids]
    for start in range(0, max(len(rules), len(users), len(sessions)), CHUNK_MAX):
        end = start + CHUNK_MAX
        yield rules[start:end], users[start:end], sessions[start:end]


def _last_part(topic: Topic, messages: list[Message]) -> Part:
    snapshot = topic.snapshot
    if snapshot is None:
        return [topic.subject, messages, topic.seq, None, None]
    newest: Message | bool = snapshot.newest
    if messages and messages[-1] is newest:
        newest = True  # it has been copied
    return [topic.subject, messages, topic.seq, newest, snapshot.fields]


def _empty(broker: Broker, topic: Topic) -> None:
    broker.history.drop(topic)
    topic.snapshot = None
