"""A row of what is measured: its name, what it promises, and how it is measured once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median
from typing import NamedTuple

Measure = Callable[[], Iterator[float]]
"""Gives a value as often as it is asked: what it sets up serves all of its runs."""

ROWS: dict[str, Row] = {}
"""All of them, in the order of the table."""


class Row(NamedTuple):
    """One promise. A value below ``at_least`` or above ``at_most`` breaks it."""

    name: str
    promise: str
    measure: Measure
    at_most: float
    at_least: float
    unit: str

    @property
    def bound(self) -> str:
        """What it may be, in words."""
        least = f"≥ {self.at_least:g}" if self.at_least > 0 else ""
        most = f"≤ {self.at_most:g}" if self.at_most < float("inf") else ""
        return f"{least} {most} {self.unit}".strip()


class Found(NamedTuple):
    """What a row's runs gave."""

    row: Row
    values: list[float]

    @property
    def median(self) -> float:
        """The value in the middle."""
        return median(self.values)

    @property
    def worst(self) -> float:
        """The value that is nearest to breaking the promise, or farthest beyond it."""
        highest = self.row.at_most < float("inf")
        return max(self.values) if highest and min(self.values) >= self.row.at_least else min(self.values)

    @property
    def kept(self) -> bool:
        """Whether every run is within the promise."""
        return all(self.row.at_least <= value <= self.row.at_most for value in self.values)


def row(
    name: str, *, at_most: float = float("inf"), at_least: float = 0.0, unit: str = "s"
) -> Callable[[Measure], Measure]:
    """Make a row of a generator of values; its docstring says what is promised."""

    def add(measure: Measure) -> Measure:
        assert name not in ROWS
        ROWS[name] = Row(name, (measure.__doc__ or "").strip(), measure, at_most, at_least, unit)
        return measure

    return add


def run(one: Row, times: int) -> Found:
    """Measure so often; whatever it has set up is over then."""
    values = one.measure()
    try:
        return Found(one, list(islice(values, times)))
    finally:
        values.close()  # type: ignore[attr-defined]
