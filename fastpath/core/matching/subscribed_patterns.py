"""The patterns that clients are subscribed to: which of them cover a subject (features.md A10)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar, cast

from ..protocol.subject import covers as right_covers
from ..protocol.subject import is_reserved


class HasText(Protocol):
    """A subscription to a pattern."""

    text: str


class HasTexts(Hashable, Protocol):
    """A mark of all those who have the same patterns."""

    @property
    def texts(self) -> Iterable[str]:
        """The patterns."""


C = TypeVar("C", bound=Hashable)
S = TypeVar("S", bound=HasText)
M = TypeVar("M", bound=HasTexts)


class PatternNode(Generic[C, S, M]):
    """A pattern: the clients that are subscribed to it each for itself, and the cohorts of all others.

    Where it is one client's, ``rank`` is its place among that client's patterns.
    """

    __slots__ = ("children", "cohorts", "members", "rank")

    def __init__(self) -> None:
        self.children: dict[str, PatternNode[C, S, M]] | None = None
        self.members: dict[C, S] | None = None
        self.cohorts: dict[M, None] | None = None
        self.rank = -1


class PatternTree(Generic[C, S, M]):
    """Patterns by their segments; those that nobody has any more are forgotten."""

    def __init__(self) -> None:
        self._root: PatternNode[C, S, M] = PatternNode()

    def add(self, client: C, wild: S) -> None:
        """Subscribe the client to the pattern, or to it in another way."""
        place = self.place(wild.text)
        if place.members is None:
            place.members = {}
        place.members[client] = wild

    def discard(self, client: C, text: str) -> None:
        """End the client's subscription to the pattern, as the client says or a cohort cares for it."""
        places = self._path(text)
        if places is not None and places[-1].members is not None:
            places[-1].members.pop(client, None)
            self._prune(places, text)

    def add_cohort(self, cohort: M) -> None:
        """Add clients with these patterns that have come together."""
        for text in cohort.texts:
            place = self.place(text)
            if place.cohorts is None:
                place.cohorts = {}
            place.cohorts[cohort] = None

    def discard_cohort(self, cohort: M) -> None:
        """Take out a cohort that has no member any more."""
        for text in cohort.texts:
            places = self._path(text)
            if places is not None and places[-1].cohorts is not None:
                places[-1].cohorts.pop(cohort, None)
                self._prune(places, text)

    def match(self, subject: str) -> list[PatternNode[C, S, M]]:
        """Return the patterns that cover the subject."""
        found: list[PatternNode[C, S, M]] = []
        segments = subject[1:].split("/")
        places: list[PatternNode[C, S, M]] = [self._root]
        last = len(segments) - 1
        for at, segment in enumerate(segments):
            wild = at > 0 or not is_reserved(segment)
            below: list[PatternNode[C, S, M]] = []
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

    def rank(self, texts: Iterable[str]) -> None:
        """Add patterns that are one client's, in their order."""
        for rank, text in enumerate(texts):
            self.place(text).rank = rank

    def place(self, text: str) -> PatternNode[C, S, M]:
        """Return the place of the pattern, made if need be."""
        place = self._root
        for segment in text[1:].split("/"):
            if place.children is None:
                place.children = {}
            place = place.children.setdefault(segment, PatternNode())
        return place

    def _path(self, text: str) -> list[PatternNode[C, S, M]] | None:
        places = [self._root]
        for segment in text[1:].split("/"):
            below = (places[-1].children or {}).get(segment)
            if below is None:
                return None
            places.append(below)
        return places

    def _prune(self, places: list[PatternNode[C, S, M]], text: str) -> None:
        segments = text[1:].split("/")
        while segments and not (places[-1].members or places[-1].cohorts or places[-1].children):
            places.pop()
            cast(dict[str, PatternNode[C, S, M]], places[-1].children).pop(segments.pop())


def covers(pattern: str, subject: str) -> bool:
    """Return whether a subscription to the pattern covers the subject (protocol.md 3.8)."""
    return covers_segments(pattern[1:].split("/"), subject[1:].split("/"))


def covers_segments(wanted: list[str], given: list[str]) -> bool:
    """Return whether the wanted segments cover the given ones: as a right, but that no wildcard in the first place
    stands for what is reserved."""
    first = wanted[0]
    if first != given[0] and (first not in ("*", "**") or is_reserved(given[0])):
        return False
    return right_covers(wanted, given)
