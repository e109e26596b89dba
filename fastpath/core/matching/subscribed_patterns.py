"""The patterns that clients are subscribed to: which of them cover a subject (features.md A10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ..protocol.messages import Subscribe
from .subject_tree import SYSTEM

if TYPE_CHECKING:
    from ..delivery.client import Client
    from ..delivery.interest import Cohort, Topic


FEW = 8
"""Up to so many patterns of a client are compared one by one."""


class PatternSubscription:
    """One client's subscription to a pattern.

    ``again`` are subjects that run from before it was subscribed to in another way; ``resumes`` says that the client
    had it before, on another connection; ``search`` goes on to others that are there already, None when it is done;
    ``limited`` says that the client was told of the bound on its subscriptions.
    """

    __slots__ = ("again", "limited", "request", "resumes", "search", "segments", "text")

    def __init__(self, text: str, request: Subscribe, resumes: bool) -> None:
        self.text = text
        self.segments = text[1:].split("/")
        self.request = request
        self.resumes = resumes
        self.again: set[Topic] = set()
        self.search: Iterator[str | None] | None = None
        self.limited = False

    @property
    def usual(self) -> bool:
        """True if a new subject is joined as by all others, with nothing that is this client's own."""
        request = self.request
        return (
            self.search is None
            and not (self.limited or request.conflation or request.since)
            and request.slow == "close"
        )


class PatternSubscriptions(dict[str, PatternSubscription]):
    """One client's patterns; a subject that several cover follows the first.

    ``owners`` has, of the subjects that run, which pattern each follows; those subscribed to by name are not in it.
    """

    __slots__ = ("_places", "owners")

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[Topic, str] = {}
        self._places: Patterns | None = None

    def add(self, wild: PatternSubscription) -> None:
        """Subscribe to the pattern; in another way it keeps its place among the others."""
        self[wild.text] = wild
        self._places = None

    def remove(self, text: str) -> None:
        """End the subscription to the pattern."""
        del self[text]
        self._places = None

    def covering(self, subject: str) -> PatternSubscription | None:
        """The pattern that the subject follows."""
        if len(self) <= FEW:
            given = subject[1:].split("/")
            return next((wild for wild in self.values() if _covers(wild.segments, given)), None)
        if self._places is None:
            self._places = Patterns()
            for rank, text in enumerate(self):
                self._places.place(text).rank = rank
        places = self._places.match(subject)
        return list(self.values())[min(place.rank for place in places)] if places else None


class PatternNode:
    """A pattern: the clients that are subscribed to it each for itself, and the cohorts of all others.

    Where it is one client's, ``rank`` is its place among that client's patterns.
    """

    __slots__ = ("children", "cohorts", "members", "rank")

    def __init__(self) -> None:
        self.children: dict[str, PatternNode] | None = None
        self.members: dict[Client, PatternSubscription] | None = None
        self.cohorts: dict[Cohort, None] | None = None
        self.rank = -1


class Patterns:
    """Patterns by their segments; those that nobody has any more are forgotten."""

    def __init__(self) -> None:
        self._root = PatternNode()

    def add(self, client: Client, wild: PatternSubscription) -> None:
        """The client subscribes to the pattern, or to it in another way."""
        place = self.place(wild.text)
        if place.members is None:
            place.members = {}
        place.members[client] = wild

    def discard(self, client: Client, text: str) -> None:
        """The client ends its subscription to the pattern, or a cohort cares for it."""
        places = self._path(text)
        if places is not None and places[-1].members is not None:
            places[-1].members.pop(client, None)
            self._prune(places, text)

    def add_cohort(self, cohort: Cohort) -> None:
        """Clients with these patterns have come together."""
        for text in cohort.texts:
            place = self.place(text)
            if place.cohorts is None:
                place.cohorts = {}
            place.cohorts[cohort] = None

    def discard_cohort(self, cohort: Cohort) -> None:
        """None of them is left."""
        for text in cohort.texts:
            places = self._path(text)
            if places is not None and places[-1].cohorts is not None:
                places[-1].cohorts.pop(cohort, None)
                self._prune(places, text)

    def match(self, subject: str) -> list[PatternNode]:
        """The patterns that cover the subject."""
        found: list[PatternNode] = []
        segments = subject[1:].split("/")
        places: list[PatternNode] = [self._root]
        last = len(segments) - 1
        for at, segment in enumerate(segments):
            wild = at > 0 or segment != SYSTEM
            below: list[PatternNode] = []
            for place in places:
                children = place.children
                if not children:
                    continue
                if segment in children:
                    below.append(children[segment])
                if wild:
                    if "*" in children:
                        below.append(children["*"])
                    if "**" in children:
                        found.append(children["**"])
            places = below
            if at == last:
                found += [place for place in below if place.members or place.cohorts or place.rank >= 0]
        return found

    def place(self, text: str) -> PatternNode:
        """The pattern's, made if need be."""
        place = self._root
        for segment in text[1:].split("/"):
            if place.children is None:
                place.children = {}
            place = place.children.setdefault(segment, PatternNode())
        return place

    def _path(self, text: str) -> list[PatternNode] | None:
        places = [self._root]
        for segment in text[1:].split("/"):
            below = (places[-1].children or {}).get(segment)
            if below is None:
                return None
            places.append(below)
        return places

    def _prune(self, places: list[PatternNode], text: str) -> None:
        segments = text[1:].split("/")
        while segments and not (places[-1].members or places[-1].cohorts or places[-1].children):
            places.pop()
            cast(dict[str, PatternNode], places[-1].children).pop(segments.pop())


def covers(pattern: str, subject: str) -> bool:
    """Return whether a pattern without a user's name covers the subject."""
    return _covers(pattern[1:].split("/"), subject[1:].split("/"))


def pattern_of(client: Client, topic: Topic) -> str:
    """The pattern of the client that the subject follows; empty when it subscribed to it by name."""
    wilds = client.wilds
    return wilds.owners.get(topic, "") if wilds else ""


def _covers(wanted: list[str], given: list[str]) -> bool:
    first = wanted[0]
    if first != given[0] and (first not in ("*", "**") or given[0] == SYSTEM):
        return False
    if wanted[-1] == "**":
        count = len(wanted) - 1
        if len(given) <= count:
            return False
    elif len(given) != len(wanted):
        return False
    else:
        count = len(wanted)
    return all(wanted[at] in ("*", given[at]) for at in range(count))
