"""What the clients of one process add to the roster: who is online, who is on a subject, what is wanted of what is
advertised (features.md E6, E7)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ..broker.observers import ConnectionListener
from ..matching.pattern_set import PatternSet
from ..matching.subject_options import SubjectOptions
from .replication import PresenceSender
from .roster import present_key

if TYPE_CHECKING:
    from ..broker.broker import Broker
    from ..delivery.audience import Client, Topic
    from ..protocol.messages import Result, Subscribe


MEMO_SHARE = 8
"""Number of subscriptions of a client, looked at again, that cost as much as a subject that is."""


class Coverage:
    """The subjects of which it is known who is on them: as the options say, else those of the setting's patterns."""

    def __init__(self, patterns: PatternSet, options: SubjectOptions) -> None:
        self.rows = [row for row in options.rows if row.presence is not None]
        self._patterns = patterns
        self._options = SubjectOptions(options.defaults, self.rows)

    def __bool__(self) -> bool:
        """Return whether there may be any, and so whether it is known who is online."""
        return bool(self._patterns) or any(row.presence for row in self.rows)

    def covers(self, subject: str) -> bool:
        """Return whether it is known who is on the subject."""
        found = self._options.find(subject)
        return self._patterns.covers(subject) if found is None else bool(found.presence)


class LocalPresence(ConnectionListener):
    """Keeps the ``speaker`` at what the clients do; ``woken`` is called when there is something for ``step`` or to say.

    It observes the broker only while presence is on, or somebody advertises something anywhere. When options change,
    ``clients``, which are all that there are, are looked at again one by one: until then each is counted as before.
    """

    def __init__(
        self,
        broker: Broker,
        clients: Iterable[Client],
        speaker: PresenceSender,
        presence: PatternSet,
        woken: Callable[[], None],
    ) -> None:
        self.coverage = Coverage(presence, broker.interest.options)
        """Coverage that counts from now on."""
        self._before = self.coverage
        self._stale: dict[Client, None] = {}  # of whom what counted before is counted
        self._changes: dict[Topic, int] = {}  # what each of these adds to a subject when it is looked at again
        self._renewed = False  # whether options have changed
        self._recounting = False  # whether clients are being looked at again, or have just been
        self._patterns = presence
        self._broker = broker
        self._clients = clients
        self._speaker = speaker
        self._woken = woken
        self._advertised = PatternSet()
        self._names: dict[Client, str] = {}  # under which each is counted
        self._told: set[str] = set()  # what this process says is wanted
        self._doubtful: OrderedDict[str, None] = OrderedDict()  # subjects of which that is to be looked at
        self._search: list[str] = []  # subjects that are in use and may be wanted, the last one first
        self._observe()

    @property
    def busy(self) -> bool:
        """True while ``step`` has something to do."""
        return bool(self._doubtful or self._search or self._recounting or self._renewed)

    def renew(self) -> None:
        """Follow other options, which count from now on."""
        self._renewed = True
        self._woken()

    def follow(self, patterns: Iterable[str]) -> None:
        """Follow these patterns, all that are advertised anywhere."""
        self._advertised = PatternSet(patterns)
        self._observe()
        self._doubtful.update(dict.fromkeys(self._told))
        self._search = list(self._broker.interest.topics) if self._advertised else []
        self._woken()

    def step(self, most: int) -> None:
        """Look at up to so many subjects, whether they are wanted, or at clients, if options have changed."""
        most = max(0, self._recount_some(most))
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
        if self.coverage:
            self._names[client] = client.principal.user
            self._count("", client, 1)

    def disconnected(self, client: Client) -> None:
        """Take the client, which is gone, from all its subjects."""
        self._leave(client, client.subscriptions)
        self._count("", client, -1)
        self._names.pop(client, None)
        self._stale.pop(client, None)

    def renewed(self, client: Client, before: str) -> None:
        """Enter as somebody a client that was somebody else, or nobody."""
        del before
        if self._names.get(client, client.principal.user) != client.principal.user:
            subjects = ["", *(topic.subject for topic in client.subscriptions if self._covers(client, topic))]
            for subject in subjects:
                self._count(subject, client, -1)
            self._names[client] = client.principal.user
            for subject in subjects:
                self._count(subject, client, 1)

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        """Enter the client on the subject."""
        del request, result
        if again:
            return
        if self._advertised and topic.subject not in self._told:
            self._doubt(topic.subject)
        if self._covers(client, topic):
            self._count(topic.subject, client, 1)

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        """Take the client off these subjects."""
        del why
        self._leave(client, topics)

    def _leave(self, client: Client, topics: Iterable[Topic]) -> None:
        for topic in topics:
            if topic.subject in self._told:
                self._doubt(topic.subject)
            if self._covers(client, topic):
                self._count(topic.subject, client, -1)

    def _covers(self, client: Client, topic: Topic) -> bool:
        coverage = self._before if self._stale and client in self._stale else self.coverage
        return not topic.system and bool(coverage) and coverage.covers(topic.subject)

    def _observe(self) -> None:
        """Observe what clients do while it matters."""
        observes = self in self._broker.observers
        wanted = bool(self._advertised or self.coverage or self._recounting)
        if wanted and not observes:
            self._broker.observers.append(self)
        elif observes and not wanted:
            self._broker.observers.remove(self)

    def _begin(self) -> None:
        """Look at all clients again, if options say something else of presence."""
        self._renewed = False
        coverage = Coverage(self._patterns, self._broker.interest.options)
        if coverage.rows == self.coverage.rows:
            return
        self._before, self.coverage = self.coverage, coverage
        self._stale = dict.fromkeys(self._clients)
        self._recounting = True
        self._observe()

    def _recount_some(self, most: int) -> int:
        """Look at clients again, if options have changed; return what is left of ``most``."""
        if self._renewed and not self._recounting:
            self._begin()
        while self._stale and most > 0:
            most -= self._recount(self._stale.popitem()[0])
        if self._recounting and not self._stale:
            self._recounting = False
            self._changes.clear()
            self._observe()
        return most

    def _recount(self, client: Client) -> int:
        """Count the client as it is to be counted from now on, and no longer as before; return what that has cost."""
        if self.coverage and client not in self._names:
            self._names[client] = client.principal.user
            self._count("", client, 1)
        for topic in client.subscriptions:
            change = self._changes.get(topic)
            if change is None:
                covered = [not topic.system and one.covers(topic.subject) for one in (self._before, self.coverage)]
                change = self._changes[topic] = covered[1] - covered[0]
            if change:
                self._count(topic.subject, client, change)
        if not self.coverage:
            self._count("", client, -1)
            self._names.pop(client, None)
        return 1 + len(client.subscriptions) // MEMO_SHARE

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
