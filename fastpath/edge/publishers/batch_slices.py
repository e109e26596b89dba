"""A publisher's batch in slices, so that nobody waits for the whole of a large one; its outcomes are told together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.broker.admission import Outcome
from ..runtime.scheduler import TURN_SECONDS

SLICE_ROWS_MIN, SLICE_ROWS_MAX = 20, 2000
"""Rows in a slice: as many as take a turn's time, within these."""

SLICE_ROWS = 500
"""The first one, of which it is not known yet how long it takes."""

Done = Callable[[list[Outcome]], None]


class BatchSlices:
    """The rows of one batch, ``first`` the number of the first of them (0: none); ``done`` gets an outcome a row."""

    __slots__ = ("_at", "_done", "_first", "_outcomes", "_rows", "_unanswered")

    def __init__(self, rows: list[Any], first: int, done: Done) -> None:
        self._rows = rows
        self._first = first
        self._done = done
        self._at = 0
        self._outcomes: list[list[Outcome]] = []
        self._unanswered = 0

    @property
    def left(self) -> int:
        """Number of rows that have not been taken."""
        return len(self._rows) - self._at

    def take(self, count: int) -> tuple[list[Any], int, Done]:
        """Return the next rows, the number of their first, and the function that is to be told what became of them."""
        at, rows = self._at, self._rows
        self._at = min(len(rows), at + count)
        place = len(self._outcomes)
        self._outcomes.append([])
        self._unanswered += 1
        return rows[at : self._at], self._first and self._first + at, partial(self._answered, place)

    def _answered(self, place: int, outcomes: list[Outcome]) -> None:
        self._outcomes[place] = outcomes
        self._unanswered -= 1
        if not self._unanswered and not self.left:
            self._done([outcome for some in self._outcomes for outcome in some])


def next_slice(rows: int, seconds: float, before: int) -> int:
    """Return how many rows the next slice has, by the seconds that one of so many has taken: what costs more each row
    is felt at once."""
    fitting = int(rows * TURN_SECONDS / max(seconds, 1e-6))
    return max(SLICE_ROWS_MIN, min(fitting, before * 2, SLICE_ROWS_MAX))
