"""Puts the samples of several nodes side by side, second by second, by the collector's clock: pure, without a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor, inf, isnan
from typing import Any

from fastpath.core.telemetry.figures import SAMPLED, UNKNOWN, of_nodes
from fastpath.core.telemetry.samples import RING_SECONDS

WAIT_SECONDS = 15.0
"""Seconds that a node that tells nothing is waited for; then time goes on without it."""

DRIFT_SECONDS = 1.5
"""A node's samples keep their seconds until its clock and the collector's are so far apart: so jitter moves none."""

BEHIND_SECONDS = 2
"""Seconds by which the newest second lies back where no node tells anything."""

Sample = dict[str, float]


@dataclass
class SampledNode:
    """The place up to which the samples of a node have been taken."""

    server: str = ""
    base: int = 0
    """Number that, added to the number of a sample, makes the second that the sample tells of."""
    last: int = -1
    """The last second that it has told of."""
    told_at: float = -inf
    """Time at which the node gave new samples last, by the clock that never jumps."""


@dataclass
class Timeline:
    """``through``: all seconds up to this one are closed, and nothing is added to them any more."""

    through: int = -1
    nodes: dict[str, SampledNode] = field(default_factory=dict)
    _open: dict[int, dict[str, tuple[Sample, bool]]] = field(default_factory=dict)

    def expect(self, names: Iterable[str], steady: float) -> None:
        """Wait for each of these nodes from now on."""
        known = self.nodes
        self.nodes = {name: known.get(name) or SampledNode() for name in names}
        for node in self.nodes.values():
            node.told_at = steady

    def wanted(self, name: str) -> dict[str, Any]:
        """Return the arguments with which a node is asked for the samples that are not closed yet."""
        node = self.nodes[name]
        taken = max(node.last, self.through)
        return {"server": node.server, "after": max(taken - node.base, 0)} if node.server else {}

    def jump(self, name: str, answer: Mapping[str, Any], wall: float) -> int | None:
        """Return by how many seconds the collector's clock is another than the one by which this node's samples were
        placed before; None where they were not, since the node is another process now."""
        node = self.nodes[name]
        if node.server != answer["server"]:
            return None
        jump = round(wall - answer["now"] - 1) - node.base
        return jump if abs(jump) > DRIFT_SECONDS else 0

    def take(self, name: str, answer: Mapping[str, Any], wall: float, steady: float) -> int:
        """Take samples as a node tells them (protocol.md 8.12), at that time; return how many rows there were."""
        node = self.nodes[name]
        offset = wall - answer["now"]
        if node.server != answer["server"] or abs(offset - 1 - node.base) > DRIFT_SECONDS:
            base = round(offset - 1)
            if node.server == answer["server"]:
                node.last += base - node.base  # the sample that was told last is the same one
            node.server, node.base = answer["server"], base
        rows, names = answer["rows"], answer["names"][1:]
        for number, seconds, *values in rows:
            second = number + node.base
            sample = {key: value for key, value in zip(names, values, strict=True) if not isnan(value)}
            # Where the node could not look at itself for a while, this is the average of all that time.
            span = min(int(seconds), RING_SECONDS)
            for one in range(max(second - span, self.through) + 1, second + 1):
                self._open.setdefault(one, {})[name] = sample, bool(answer["shared"])
            node.last = max(node.last, second)
        if rows:
            node.told_at = steady
        return len(rows)

    def gone(self, name: str) -> None:
        """Note that there is no such node now: nothing will come of what it has not told."""
        self.nodes[name].told_at = -inf

    def close(self, wall: float, steady: float) -> list[tuple[int, Sample]]:
        """Return the seconds that all nodes have told, added up; a node that tells nothing holds them up for
        WAIT_SECONDS."""
        told = [node.last for node in self.nodes.values() if steady - node.told_at <= WAIT_SECONDS]
        until = max(min(told, default=floor(wall) - BEHIND_SECONDS), self.through)
        closed = sorted(second for second in self._open if second <= until)
        self.through = until
        return [(second, together(self._open.pop(second).values())) for second in closed]

    def move(self, seconds: int) -> None:
        """Move with the collector's clock, which jumped by so many seconds."""
        self.through += seconds
        self._open = {second + seconds: parts for second, parts in self._open.items()}
        for node in self.nodes.values():
            node.base += seconds
            node.last += seconds


def together(parts: Iterable[tuple[Sample, bool]]) -> Sample:
    """Return the samples of several nodes as one."""
    found: Sample = {}
    for sample, shared in parts:
        for name, value in sample.items():
            rule = SAMPLED.get(name, UNKNOWN).across_nodes
            found[name] = of_nodes(rule, found[name], value, shared=shared) if name in found else value
    return found
