"""The control verb ``tree``: what stands right below a place among the subjects, a page at a time (protocol.md 8.1)."""

from __future__ import annotations

from heapq import nsmallest
from typing import Any

from ...core.matching.subject_tree import HERE
from ...core.protocol.errors import InvalidMessage
from ..runtime.component import Answer, ControlPeer, Offers
from ..runtime.runtime import Runtime
from ..runtime.scatter import Work, answer_to

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
"""Segments in one answer."""

SLICE_SEGMENTS = 200
"""Segments looked at between two interruptions."""

LISTINGS_MAX = 4
"""Listings at the same time: each holds a list of all segments of a place while it runs."""


class SubjectBranches:
    """Answers the verb; a place with many segments is looked at in slices."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running = 0
        self.offers = Offers(verbs={"tree": self._ask})

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """List what stands below ``prefix``, by ``begins``, ``start`` or ``after``, ``limit``; answers later."""
        listing = _Listing(arguments)
        if self._running >= LISTINGS_MAX:
            raise InvalidMessage("limit", f"{LISTINGS_MAX} listings are under way; ask again")
        self._running += 1
        number = peer.request

        def done(answer: Answer) -> None:
            self._running -= 1
            answer_to(peer, number, answer)

        self._runtime.scatter.run(self._look(listing), done)

    def _look(self, listing: _Listing) -> Work:
        segments = list(self._runtime.broker.interest.tree.below(listing.prefix))
        for at in range(0, len(segments), SLICE_SEGMENTS):
            listing.look(segments[at : at + SLICE_SEGMENTS])
            yield
        return self._answer(listing)

    def _answer(self, listing: _Listing) -> dict[str, Any]:
        """Return what each segment is now; one that has gone meanwhile is left out."""
        place = self._runtime.broker.interest.tree.below(listing.prefix)
        rows = []
        for segment in listing.found:
            topic = child = place.get(segment)
            children = 0
            if type(child) is dict:
                topic = child.get(HERE)
                children = len(child) - (HERE in child)
            if child is not None:
                rows.append([segment, topic is not None, children, topic.seq if topic is not None else 0])
        return {"children": rows, "total": listing.total, "more": listing.behind > len(listing.found)}


class _Listing:
    """The first ``limit`` segments from ``start`` on, or behind ``after``, and how many there are in all."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.prefix = _text(arguments, "prefix")
        self._begins, self._start, self._after = (_text(arguments, name) for name in ("begins", "start", "after"))
        self._limit = arguments.get("limit", LIMIT_DEFAULT)
        if type(self._limit) is not int or not 0 < self._limit <= LIMIT_MAX:
            raise InvalidMessage("invalid", f"limit is a number from 1 to {LIMIT_MAX}")
        if self.prefix and not self.prefix.startswith("/"):
            raise InvalidMessage("invalid", "prefix is empty or begins with a slash")
        self.total = self.behind = 0
        self.found: list[str] = []

    def look(self, some: list[str]) -> None:
        """Look at these segments; the place itself, ``HERE``, is none."""
        some = [name for name in some if name and name.startswith(self._begins)]
        self.total += len(some)
        if self._start or self._after:
            some = [name for name in some if name >= self._start and name > self._after]
        self.behind += len(some)
        self.found = nsmallest(self._limit, self.found + some)


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name) or ""
    if not isinstance(value, str):
        raise InvalidMessage("invalid", f"{name} is a text")
    return value
