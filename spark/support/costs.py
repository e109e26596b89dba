"""What a sidecar costs for each message and connection, found in recorded load, and how many machines a load needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

CPU = ("messages_out_per_s", "messages_in_per_s", "connections")
"""Kinds of load on which CPU time is spent."""

MEMORY = ("connections", "cached_bytes", "subjects")
"""Kinds of load by which memory is taken."""

SHARED = frozenset(("messages_in_per_s", "cached_bytes", "subjects"))
"""Every node takes in every message and has all of the cache: more nodes do not lessen it."""

MACHINES_MAX = 10_000
RESIDUAL_MIN = 1e-12


class TooLittle(ValueError):
    """The recorded load does not tell what anything costs; the text says what to record."""


@dataclass(frozen=True)
class Costs:
    """`fixed` of each node, and what one of each kind of load adds to it; `unexplained` is the deviation of what was
    recorded from that, as a part of its mean."""

    fixed: float
    each: dict[str, float]
    unexplained: float


@dataclass(frozen=True)
class Machine:
    """One machine: `cores` that a node can use, bytes of memory, bytes a second of its network, and the part of each
    that stays free."""

    cores: float
    memory_bytes: float
    bytes_per_s: float
    headroom: float = 0.3


@dataclass(frozen=True)
class Need:
    """The number of machines; `by` is what runs out first with one less (`cpu`, `memory`, `network`), `parts` how much
    of a machine each takes then."""

    machines: int
    by: str
    parts: dict[str, float]


def fit(moments: Mapping[tuple[str, str], float], names: Sequence[str], what: str) -> Costs:
    """Return the costs that explain `what` best, by least squares; none is below 0, for no load gives time back.

    `moments[a, b]` is the mean of a·b over all that was recorded, where `1` stands for a constant; `names` are the
    kinds of load. Raises TooLittle where none of them ever changed.
    """
    spreads = {name: moments[name, name] - moments["1", name] ** 2 for name in names}
    varied = [name for name in names if spreads[name] > 1e-9 * moments[name, name]]
    if not varied:
        raise TooLittle(f"{', '.join(names)} never changed: record hours of little and of much load")
    covariance = {
        (a, b): (moments[a, b] - moments["1", a] * moments["1", b]) / sqrt(spreads[a] * spreads.get(b, 1.0))
        for a in varied
        for b in (*varied, what)
    }
    best: tuple[float, dict[str, float]] = (0.0, {})
    # Few kinds: every choice of those that cost something is tried.
    for count in range(1, len(varied) + 1):
        for chosen in combinations(varied, count):
            found = _solve([[covariance[a, b] for b in chosen] for a in chosen], [covariance[a, what] for a in chosen])
            if found is None or min(found) < 0:
                continue
            each = {name: value / sqrt(spreads[name]) for name, value in zip(chosen, found, strict=True)}
            fixed = moments["1", what] - sum(cost * moments["1", name] for name, cost in each.items())
            explained = sum(value * covariance[name, what] for name, value in zip(chosen, found, strict=True))
            if fixed >= 0 and explained > best[0] + RESIDUAL_MIN:
                best = explained, each
    explained, each = best
    mean = moments["1", what]
    fixed = mean - sum(cost * moments["1", name] for name, cost in each.items())
    left = max(moments[what, what] - mean**2 - explained, 0.0)
    return Costs(fixed, {name: each.get(name, 0.0) for name in names}, sqrt(left) / mean if mean else 0.0)


def plan(cpu: Costs, memory: Costs, load: Mapping[str, float], machine: Machine) -> Need:
    """Return the machines that a load needs: the whole system's, by the names of the statistics.

    Raises TooLittle where no number of machines is enough, since each must do alone what it takes alone.
    """
    room = 1 - machine.headroom
    fewer = {"cpu": 1.0}
    for machines in range(1, MACHINES_MAX + 1):
        parts = {
            "cpu": _of(cpu, load, machines) / (100 * machine.cores * room),
            "memory": _of(memory, load, machines) / (machine.memory_bytes * room),
            "network": load.get("bytes_out_per_s", 0.0) / machines / (machine.bytes_per_s * room),
        }
        if max(parts.values()) <= 1:
            return Need(machines, max(fewer, key=lambda one: fewer[one]) if machines > 1 else "", parts)
        fewer = parts
    worst = max(fewer, key=lambda one: fewer[one])
    raise TooLittle(f"no number of such machines is enough: {worst} of one alone is {fewer[worst]:.1f} of what it has")


def _of(costs: Costs, load: Mapping[str, float], machines: int) -> float:
    shares = {name: load.get(name, 0.0) / (1 if name in SHARED else machines) for name in costs.each}
    return costs.fixed + sum(cost * shares[name] for name, cost in costs.each.items())


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Gauss with pivots; None where two kinds of load always came together, so that nothing tells them apart."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda one: abs(rows[one][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) < 1e-9:
            return None
        for other in range(size):
            if other != at:
                factor = rows[other][at] / rows[at][at]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[at], strict=True)]
    return [row[size] / row[at] for at, row in enumerate(rows)]
