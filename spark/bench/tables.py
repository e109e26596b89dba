"""The result of a measurement: a table of Markdown, with the targets it is held against."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Figure:
    """A measured quantity; `values` are those of the repetitions, of which the median counts."""

    name: str
    unit: str
    values: list[float]
    target: float | None = None
    """Number that the result is to reach, or not to pass where `least` is False."""
    least: bool = True
    note: str = ""
    more: dict[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """True when the median meets the target; None without a target."""
        if self.target is None:
            return None
        return self.median >= self.target if self.least else self.median <= self.target


def table(figures: Sequence[Figure]) -> str:
    """Return a row each: median, the least and the greatest, target."""
    lines = ["| what | median | least to greatest | target | met | |", "|---|---:|---:|---:|---|---|"]
    for one in figures:
        target = "" if one.target is None else f"{'≥' if one.least else '≤'} {shown(one.target)}"
        met = "" if one.met is None else ("yes" if one.met else "**no**")
        spread = f"{shown(min(one.values))} – {shown(max(one.values))}" if len(one.values) > 1 else ""
        lines.append(f"| {one.name} | {shown(one.median)} {one.unit} | {spread} | {target} | {met} | {one.note} |")
    return "\n".join(lines)


def shown(value: float) -> str:
    """Return three digits that count, with commas above a thousand."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def write(figures: Sequence[Figure], path: Path, machine: dict[str, Any]) -> None:
    """Write the figures as JSON, with the machine and the revision that they were measured with."""
    found = [asdict(one) | {"median": one.median, "met": one.met} for one in figures]
    path.write_text(json.dumps({"machine": machine, "figures": found}, indent=1))
