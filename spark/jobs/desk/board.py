"""Takes batches of prices and says what they make: bars that move, bars that have ended, moves, alerts; pure.

Nothing here depends on a clock: a batch that is taken again in the same state makes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from spark.jobs import scorer
from spark.jobs.desk.windows import CENTS, Bar, Instrument, Move, Price

NEVER = -(1 << 62)
FORGOTTEN_MS = 7 * 86_400_000
"""An instrument is forgotten when the others' prices are so much newer than its last."""


@dataclass(frozen=True)
class Plan:
    """The plan of what is made of prices; all times are in ms."""

    late: int
    """Time by which a price may come later than the newest one."""
    intervals: Mapping[str, int] = field(default_factory=dict)
    """Length of each kind of bar; none: no bars are made."""
    window: int = 0
    """Length of the window over which moves are told; 0: none are."""
    slide: int = 0
    """Time by which the window slides; its length is a multiple of it."""
    limits: scorer.Limits | None = None
    """Limits that raise an alert; None: no price is judged."""


class Kept(msgspec.Struct):
    """The state that outlasts a batch: the newest time of all prices, and what is known of each symbol."""

    newest: int = NEVER
    instruments: dict[str, Instrument] = {}


class Row(NamedTuple):
    """A bar of a symbol."""

    symbol: str
    interval: str
    start: int
    end: int
    bar: Bar


@dataclass
class Made:
    """The outcome of a batch; bars and moves of one symbol come in the order of their times."""

    moving: list[Row] = field(default_factory=list)
    final: list[Row] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    alerts: list[tuple[str, scorer.Alert]] = field(default_factory=list)


class Board:
    """Makes bars, moves and alerts of prices: `kept` is what it goes on from, and what it has after a batch.

    Times are the feed's. What is later than `plan.late` behind the newest of the batches before is left out where its
    bar or window has ended, and what has ended is told in the batch whose prices end it.
    """

    def __init__(self, plan: Plan, kept: Kept | None = None) -> None:
        self._plan = plan
        self.kept = kept or Kept()

    def take(self, prices: Iterable[Price]) -> Made:
        """Return the outcome of one batch of prices, in whatever order they are."""
        made, touched = Made(), set()
        plan, before = self._plan, self._watermark()
        for price in sorted(prices, key=lambda one: (one.symbol, one.ms, one.seq)):
            known = self.kept.instruments.get(price.symbol)
            if known is None:
                known = self.kept.instruments[price.symbol] = Instrument()
            for interval, length in plan.intervals.items():
                start = known.take_bar(price, interval, length, before)
                if start is not None:
                    touched.add((price.symbol, interval, start))
            if plan.window:
                known.take_pane(price, plan.window, plan.slide, before)
            if plan.limits is not None and price.ms > before:
                known.alerts, raised = scorer.judge(known.alerts, plan.limits, *_judged(price))
                made.alerts += ((price.symbol, alert) for alert in raised)
            self.kept.newest = max(self.kept.newest, price.ms)
        for symbol, interval, start in sorted(touched):
            bar = self.kept.instruments[symbol].bars[interval][start]
            made.moving.append(Row(symbol, interval, start, start + plan.intervals[interval], bar))
        self._end(made, before)
        return made

    def _watermark(self) -> int:
        """Return the time up to which all is there: what ends by then has ended."""
        return self.kept.newest - self._plan.late

    def _end(self, made: Made, before: int) -> None:
        plan, watermark = self._plan, self._watermark()
        for symbol, known in sorted(self.kept.instruments.items()):
            for interval, length in plan.intervals.items():
                for start, bar in known.ended_bars(interval, length, watermark):
                    made.final.append(Row(symbol, interval, start, start + length, bar))
            if plan.window:
                made.moves += known.ended_windows(symbol, plan.window, plan.slide, before, watermark)
            if not any(known.bars.values()) and not known.panes and known.alerts.time + FORGOTTEN_MS <= watermark:
                del self.kept.instruments[symbol]


def _judged(price: Price) -> tuple[int, float, float | None]:
    return price.ms, price.cents / CENTS, None if price.previous is None else price.previous / CENTS
