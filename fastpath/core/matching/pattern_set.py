"""A set of patterns that is asked whether one of them covers a subject (protocol.md 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..protocol.subject import check_pattern, is_reserved

_HERE = ""
"""The key that says that a pattern ends at a node: no segment is empty."""


class PatternSet:
    """Patterns without a user's name, as a tree of their segments. As in subscriptions (protocol.md 3.8), a wildcard in
    the first place does not stand for the server's own subjects."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._root: dict[str, Any] = {}
        for pattern in patterns:
            node = self._root
            for segment in pattern[1:].split("/"):
                node = node.setdefault(segment, {})
            node[_HERE] = True

    @classmethod
    def parse(cls, text: str) -> PatternSet:
        """Read patterns separated by commas; raise ValueError."""
        patterns = [pattern.strip() for pattern in text.split(",") if pattern.strip()]
        for pattern in patterns:
            check_pattern(pattern, names=False)
        return cls(patterns)

    def __bool__(self) -> bool:
        return bool(self._root)

    def covers(self, subject: str) -> bool:
        """Return whether a pattern covers the subject; at most each pattern is followed once."""
        segments = subject[1:].split("/")
        nodes = [self._root]
        wild = not is_reserved(segments[0])
        for segment in segments:
            below = []
            for node in nodes:
                if wild:
                    if "**" in node:
                        return True
                    if "*" in node:
                        below.append(node["*"])
                if segment in node:
                    below.append(node[segment])
            if not below:
                return False
            nodes = below
            wild = True
        return any(_HERE in node for node in nodes)
