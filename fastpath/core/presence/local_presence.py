"""What the clients of one process add to the roster: who is online, who is on a subject, what is wanted of what is
advertised (features.md E6, E7)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ..broker.observers import ConnectionListener
from ..matching.pattern_set import PatternSet
from .replication import PresenceSender
from .roster import present_key

if TYPE_CHECKING:
    from ..broker.broker import Broker
    from ..delivery.audience import Client, Topic
    from ..protocol.messages import Result, Subscribe


class Attendance(ConnectionListener):
    """Keeps the ``speaker`` at what the clients do; ``woken`` is called when there is something for ``step`` or to say.

    It observes the broker only while presence is on, or somebody advertises something anywhere.
    """

    def __init__(
        self, broker: Broker, speaker: PresenceSender, presence: PatternSet, woken: Callable[[], None]
    ) -> None:
        self.presence = presence
        self._broker = broker
        self._speaker = speaker
        self._woken = woken
        self._advertised = PatternSet()
        self._names: dict[Client, str] = {}  # under which each is counted
        self._told: set[str] = set()  # what this process says is wanted
        self._doubtful: OrderedDict[str, None] = OrderedDict()  # subjects of which that is to be looked at
        self._search: list[str] = []  # subjects that are in use and may be wanted, the last one first
        if presence:
            broker.observers.append(self)

    @property
    def busy(self) -> bool:
        """True while ``step`` has something to do."""
        return bool(self._doubtful or self._search)

    def follow(self, patterns: Iterable[str]) -> None:
        """Follow these patterns, all that are advertised anywhere."""
        self._advertised = PatternSet(patterns)
        observers = self._broker.observers
        wanted = bool(self._advertised or self.presence)
        if wanted != (self in observers):
            (observers.append if wanted else observers.remove)(self)
        self._doubtful.update(dict.fromkeys(self._told))
        self._search = list(self._broker.interest.topics) if self._advertised else []
        self._woken()

    def step(self, most: int) -> None:
        """Look at up to so many subjects, whether they are wanted."""
        for subject in list(islice(self._doubtful, most)):
            del self._doubtful[subject]
            self._look(subject)
            most -= 1
        left = max(0, len(self._search) - most)
        for subject in self._search[left:]:
            self._look(subject)
        del self._search[left:]

    # What clients do

    def connected(self, client: Client) -> None:
        """Count one more client online."""
        if self.presence:
            self._names[client] = client.principal.user
            self._count("", client, 1)

    def disconnected(self, client: Client) -> None:
        """The client is gone, and from all its subjects."""
        self._leave(client, client.subscriptions)
        self._count("", client, -1)
        self._names.pop(client, None)

    def renewed(self, client: Client, before: str) -> None:
        """Who was somebody else, or nobody, is somebody now."""
        del before
        if self._names.get(client, client.principal.user) != client.principal.user:
            subjects = ["", *(topic.subject for topic in client.subscriptions if self._covers(topic))]
            for subject in subjects:
                self._count(subject, client, -1)
            self._names[client] = client.principal.user
            for subject in subjects:
                self._count(subject, client, 1)

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        """The client is on the subject."""
        del request, result
        if again:
            return
        if self._advertised and topic.subject not in self._told:
            self._doubt(topic.subject)
        if self._covers(topic):
            self._count(topic.subject, client, 1)

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        """The client is no longer on these subjects."""
        del why
        self._leave(client, topics)

    def _leave(self, client: Client, topics: Iterable[Topic]) -> None:
        for topic in topics:
            if topic.subject in self._told:
                self._doubt(topic.subject)
            if self._covers(topic):
                self._count(topic.subject, client, -1)

    def _covers(self, topic: Topic) -> bool:
        return not topic.system and bool(self.presence) and self.presence.covers(topic.subject)

    def _count(self, subject: str, client: Client, change: int) -> None:
        name = self._names.get(client)
        if name is not None:
            self._speaker.add(present_key(subject, name), change)
            self._woken()

    def _doubt(self, subject: str) -> None:
        self._doubtful[subject] = None
        self._woken()

    def _look(self, subject: str) -> None:
        topic = self._broker.interest.topics.get(subject)
        wanted = (
            topic is not None
            and not topic.system
            and bool(topic.feed or topic.conflated or (topic.live and topic.live.lagging))
            and self._advertised.covers(subject)
        )
        if wanted != (subject in self._told):
            (self._told.add if wanted else self._told.discard)(subject)
            self._speaker.set(subject, int(wanted))
