"""What is known of one instrument between batches: its open bars, the panes of its window, its alerts; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from spark.jobs.scorer import InstrumentState

CENTS = 100


class Price(NamedTuple):
    """A price as `spark.jobs.prices` has it: times in ms since 1970, prices in cents."""

    symbol: str
    name: str | None
    cents: int
    previous: int | None
    volume: int
    ms: int
    seq: int
    simulated_price: bool
    simulated_volume: bool


class Bar(msgspec.Struct, array_like=True):
    """A bar that is open; `first_*` and `last_*` are the places of its first and last price, by time and number."""

    open: int
    high: int
    low: int
    close: int
    first_ms: int
    first_seq: int
    last_ms: int
    last_seq: int
    volume: int = 0
    turnover: int = 0
    ticks: int = 0
    simulated_price: bool = False
    simulated_volume: bool = False

    def take(self, price: Price) -> None:
        """Add a price, whatever its place among the others."""
        cents, place = price.cents, (price.ms, price.seq)
        if place < (self.first_ms, self.first_seq):
            self.open, (self.first_ms, self.first_seq) = cents, place
        if place > (self.last_ms, self.last_seq):
            self.close, (self.last_ms, self.last_seq) = cents, place
        self.high, self.low = max(self.high, cents), min(self.low, cents)
        self.volume += price.volume
        self.turnover += cents * price.volume
        self.ticks += 1
        self.simulated_price |= price.simulated_price
        self.simulated_volume |= price.simulated_volume


class Pane(msgspec.Struct, array_like=True):
    """The part of a sliding window from one of its slides to the next: its first and last price."""

    first: int
    last: int
    first_ms: int
    first_seq: int
    last_ms: int
    last_seq: int
    name: str | None = None

    def take(self, price: Price) -> None:
        """Add a price, whatever its place among the others."""
        place = (price.ms, price.seq)
        if place < (self.first_ms, self.first_seq):
            self.first, (self.first_ms, self.first_seq) = price.cents, place
        if place > (self.last_ms, self.last_seq):
            self.last, (self.last_ms, self.last_seq) = price.cents, place
        self.name = max(filter(None, (self.name, price.name)), default=None)


class Move(NamedTuple):
    """The move of an instrument within a window that ends at `end` (ms)."""

    symbol: str
    name: str | None
    first: int
    last: int
    end: int


class Instrument(msgspec.Struct):
    """All that is kept of an instrument."""

    bars: dict[str, dict[int, Bar]] = {}
    """Bars by interval, and by their start in ms."""
    panes: dict[int, Pane] = {}
    """Panes by their start in ms."""
    alerts: InstrumentState = InstrumentState()

    def take_bar(self, price: Price, interval: str, length: int, watermark: int) -> int | None:
        """Add a price to the bar that it falls into, and return the bar's start; None where that bar has ended."""
        start = price.ms - price.ms % length
        if start + length <= watermark:
            return None
        bars = self.bars.setdefault(interval, {})
        bar = bars.get(start)
        if bar is None:
            place = (price.ms, price.seq) * 2
            bar = bars[start] = Bar(price.cents, price.cents, price.cents, price.cents, *place)
        bar.take(price)
        return start

    def take_pane(self, price: Price, window: int, slide: int, watermark: int) -> None:
        """Add a price to its pane, unless all windows that it is in have ended."""
        start = price.ms - price.ms % slide
        if start + window <= watermark:
            return
        pane = self.panes.get(start)
        if pane is None:
            place = (price.ms, price.seq) * 2
            pane = self.panes[start] = Pane(price.cents, price.cents, *place)
        pane.take(price)

    def ended_bars(self, interval: str, length: int, watermark: int) -> Iterator[tuple[int, Bar]]:
        """Yield the bars of an interval that the watermark has passed, the oldest first; they are forgotten here."""
        bars = self.bars.get(interval, {})
        for start in sorted(start for start in bars if start + length <= watermark):
            yield start, bars.pop(start)

    def ended_windows(self, symbol: str, window: int, slide: int, before: int, watermark: int) -> Iterator[Move]:
        """Yield the moves within the windows that ended after `before` and up to the watermark, the oldest first."""
        ends = {
            end
            for start in self.panes
            for end in range(start + slide, start + window + slide, slide)
            if before < end <= watermark
        }
        for end in sorted(ends):
            panes = [self.panes[start] for start in sorted(self.panes) if end - window <= start < end]
            name = max(filter(None, (pane.name for pane in panes)), default=None)
            yield Move(symbol, name, panes[0].first, panes[-1].last, end)
        for start in [start for start in self.panes if start + window <= watermark]:
            del self.panes[start]
