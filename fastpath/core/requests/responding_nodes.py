"""Which other nodes have responders for which subjects, and whose turn it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..matching.subscribed_patterns import PatternTree
from ..protocol.subject import refused_offer

PATTERNS_MAX = 50_000
"""Patterns of all other nodes together: what passes it is left out, and counted."""


class _Answered:
    """A pattern, and its nodes: how often each has said that it answers it."""

    __slots__ = ("nodes", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.nodes: dict[str, int] = {}


class RespondingNodes:
    """The patterns that the nodes answer (core/presence/replication.py Replica), by member: a node's name, a space, and
    whatever."""

    def __init__(self, patterns_max: int = PATTERNS_MAX) -> None:
        self.left_out = 0
        self.patterns = 0
        self._patterns_max = patterns_max
        self._index: PatternTree[str, _Answered, Any] = PatternTree()
        self._by_pattern: dict[str, _Answered] = {}
        self._said: dict[str, dict[str, None]] = {}
        self._asked: dict[str, int] = {}
        self._number = 0

    def set(self, member: str, key: str, count: int, now: int) -> None:
        """Note that the member answers the pattern, or with 0 does not any more; raise ValueError for what is no
        pattern."""
        del now
        said = self._said.setdefault(member, {})
        if not count:
            if key in said:
                del said[key]
                self._discard(member, key)
            return
        if key in said:
            return
        if refused_offer(key)[0]:
            raise ValueError(f"{key!r} is no pattern that can be answered")
        if self.patterns >= self._patterns_max:
            self.left_out += 1
            return
        said[key] = None
        self.patterns += 1
        answered = self._by_pattern.get(key)
        if answered is None:
            answered = self._by_pattern[key] = _Answered(key)
            self._index.add(key, answered)
        node = _node(member)
        answered.nodes[node] = answered.nodes.get(node, 0) + 1

    def drop(self, member: str) -> None:
        """Drop a member, which answers nothing any more."""
        for key in self._said.pop(member, ()):
            self._discard(member, key)

    def choose(self, subject: str, passed: Collection[str]) -> str | None:
        """Return the node that was asked longest ago of those that cover the subject, but none of ``passed``."""
        best: str | None = None
        for place in self._index.match(subject):
            for answered in (place.members or {}).values():
                for node in answered.nodes:
                    if node not in passed and (best is None or self._asked.get(node, 0) < self._asked.get(best, 0)):
                        best = node
        if best is not None:
            self._number += 1
            self._asked[best] = self._number
        return best

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._asked.pop(node, None)

    def _discard(self, member: str, key: str) -> None:
        self.patterns -= 1
        answered, node = self._by_pattern[key], _node(member)
        answered.nodes[node] -= 1
        if not answered.nodes[node]:
            del answered.nodes[node]
        if not answered.nodes:
            del self._by_pattern[key]
            self._index.discard(key, key)


def _node(member: str) -> str:
    return member.partition(" ")[0]
