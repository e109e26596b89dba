"""All subjects that have been published to, by their segments: finds those that a pattern covers (features.md A10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..protocol.subject import is_reserved

HERE = ""
"""Key under which a node holds what stands at its own place: no segment is empty."""


class Tree:
    """Values by subject. A node is a dict by segment; a value without others below it stands there itself."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def add(self, subject: str, value: object) -> None:
        """Put the value in, in place of an earlier one."""
        *path, last = subject[1:].split("/")
        node = self._root
        for segment in path:
            child = node.get(segment)
            if type(child) is not dict:
                child = node[segment] = {} if child is None else {HERE: child}
            node = child
        below = node.get(last)
        if type(below) is dict:
            below[HERE] = value
        else:
            node[last] = value

    def discard(self, subject: str) -> None:
        """Take the subject's value out, if there is one."""
        segments = subject[1:].split("/")
        nodes = [self._root]
        for segment in segments[:-1]:
            child = nodes[-1].get(segment)
            if type(child) is not dict:
                return
            nodes.append(child)
        below = nodes[-1].get(segments[-1])
        if type(below) is dict:
            nodes.append(below)
            below.pop(HERE, None)
        else:
            nodes[-1].pop(segments[-1], None)
            segments.pop()
        while segments and not nodes[-1]:
            nodes.pop()
            del nodes[-1][segments.pop()]

    def below(self, prefix: str) -> dict[str, Any]:
        """Return what stands right below a place, by segment, and at ``HERE`` what stands at the place itself.

        A dict is again such a place, anything else the value of a subject with nothing below it. ``prefix`` is empty
        for the root. The dict is the tree's own: it changes with it.
        """
        node = self._root
        for segment in prefix[1:].split("/") if prefix else ():
            child = node.get(segment)
            if type(child) is not dict:
                return {}
            node = child
        return node

    def find(self, pattern: str) -> Iterator[Any]:
        """Yield the values that the pattern covers, as it goes: what is added or taken out meanwhile may be among them.

        None stands for a place that was looked at: who has little time counts these too.
        """
        segments = pattern[1:].split("/")
        return _find(self._root, segments, 0)


def _find(node: dict[str, Any], segments: list[str], at: int) -> Iterator[Any]:
    yield None
    segment = segments[at]
    last = at == len(segments) - 1
    if segment in ("*", "**"):
        below = list(node.values() if at else (child for key, child in node.items() if not is_reserved(key)))
        if at and HERE in node:
            below.remove(node[HERE])
    else:
        below = [node[segment]] if segment in node else []
    for child in below:
        if segment == "**":
            yield from _below(child)
        elif type(child) is not dict:
            yield child if last else None
        elif not last:
            yield from _find(child, segments, at + 1)
        else:
            yield child.get(HERE)


def _below(child: Any) -> Iterator[Any]:
    """Yield the value of a place, and all below it."""
    if type(child) is not dict:
        yield child
        return
    yield None
    for each in list(child.values()):
        yield from _below(each)
