"""A node as the collector sees it: samples that are told once."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from math import nan
from typing import Any

from fastpath.core.telemetry.samples import NAMES, ROWS_MAX


@dataclass
class Told:
    """A node as it answers ``samples``: one a second of its own clock, which began somewhere."""

    clock: float = 5000.0
    server: str = "a"
    shared: bool = False
    rows: list[list[float]] = field(default_factory=list)

    def sample(self, moment: float, seconds: int = 1, **figures: float) -> None:
        """At a moment of the story."""
        values = [figures.get(name, nan) for name in NAMES[1:]]
        self.rows.append([round(self.clock + moment), seconds, *values])

    def answer(self, moment: float, asked: dict[str, Any]) -> dict[str, Any]:
        after = asked["after"] if asked.get("server") == self.server else -1
        first = bisect_right(self.rows, after, key=lambda row: row[0])
        rows = self.rows[first : first + ROWS_MAX]
        return {"server": self.server, "now": self.clock + moment, "shared": self.shared, "names": NAMES, "rows": rows}
