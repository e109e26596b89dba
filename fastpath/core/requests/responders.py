"""Who answers requests to which subjects, and whose turn it is (protocol.md 3.11)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable
from typing import Any, Generic, TypeVar

from ..matching.subscribed_patterns import PatternTree
from ..protocol.limits import RESPONDER_PATTERNS_MAX
from ..protocol.messages import Offer
from ..protocol.subject import refused_offer

R = TypeVar("R", bound=Hashable)


class _Wild:
    """A pattern, and its responders: the one that was asked longest ago comes first."""

    __slots__ = ("ring", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.ring: OrderedDict[Any, None] = OrderedDict()


class Responders(Generic[R]):
    """The responders of a node. A request goes to the one of those that cover it that was asked longest ago."""

    def __init__(self) -> None:
        self._by_pattern: dict[str, _Wild] = {}
        self._index: PatternTree[str, _Wild, Any] = PatternTree()
        self._patterns: dict[R, tuple[str, ...]] = {}
        self._asked: dict[R, int] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, responder: R) -> bool:
        return responder in self._patterns

    def set(self, responder: R, patterns: Iterable[str]) -> None:
        """Replace the patterns that the responder answers; none: it answers nothing any more."""
        texts = tuple(dict.fromkeys(patterns))
        for text in self._patterns.pop(responder, ()):
            self._discard(responder, text)
        if not texts:
            self._asked.pop(responder, None)
            return
        self._patterns[responder] = texts
        self._asked.setdefault(responder, 0)
        for text in texts:
            wild = self._by_pattern.get(text)
            if wild is None:
                wild = self._by_pattern[text] = _Wild(text)
                self._index.add(text, wild)
            wild.ring[responder] = None
            wild.ring.move_to_end(responder, last=False)  # it has not been asked yet

    def patterns(self, responder: R) -> tuple[str, ...]:
        """Return the patterns that the responder answers."""
        return self._patterns.get(responder, ())

    def those(self) -> list[R]:
        """Return all responders."""
        return list(self._patterns)

    def choose(self, subject: str, passed: Collection[R]) -> R | None:
        """Return whose turn it is for a request to that subject, but none of ``passed``; None: there is nobody."""
        best: R | None = None
        for place in self._index.match(subject):
            for wild in (place.members or {}).values():
                one: R | None = next((each for each in wild.ring if each not in passed), None)
                if one is not None and (best is None or self._asked[one] < self._asked[best]):
                    best = one
        if best is not None:
            self._number += 1
            self._asked[best] = self._number
            for text in self._patterns[best]:
                self._by_pattern[text].ring.move_to_end(best)
        return best

    def _discard(self, responder: R, text: str) -> None:
        wild = self._by_pattern[text]
        wild.ring.pop(responder, None)
        if not wild.ring:
            del self._by_pattern[text]
            self._index.discard(text, text)


def offers_of(patterns: Iterable[str]) -> list[Offer]:
    """Return what becomes of each pattern that somebody is to respond to (protocol.md 4.16), by its form and number."""
    taken: dict[str, None] = {}
    offers = []
    for pattern in patterns:
        error, reason = _refusal(pattern, taken)
        offers.append(Offer(pattern=pattern, error=error, reason=reason))
        if not error:
            taken[pattern] = None
    return offers


def _refusal(pattern: str, taken: Collection[str]) -> tuple[str, str]:
    """Return the error and the reason for which nobody responds to it beside the ``taken``; empty if somebody can."""
    refused = refused_offer(pattern)
    if not refused[0] and pattern not in taken and len(taken) >= RESPONDER_PATTERNS_MAX:
        return "limit", f"over {RESPONDER_PATTERNS_MAX} patterns on one connection"
    return refused
