"""Buckets of seconds, minutes, hours and days, and the 12 windows over them: pure, without a clock or a database."""

from __future__ import annotations

import calendar
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from math import fsum, isnan, nan, sqrt

from fastpath.core.telemetry.samples import GAUGES, RATES

INDICATORS = (
    "connections",
    "connections_per_s",
    "disconnections_per_s",
    "messages_in_per_s",
    "messages_out_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
)
"""Indicators that GET /api/stats/ tells of (features.md F1)."""

KEPT = (*INDICATORS, *(name for name in (*GAUGES, *RATES) if name not in INDICATORS))
"""All that is kept: with these, what an operator asks for next."""

SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86400
SIZES = (SECOND, MINUTE, HOUR, DAY)
"""The sizes of buckets, in seconds; each is a resolution of the history. All begin at whole multiples, UTC."""

NOTHING = (0.0, nan, 0.0, nan)
"""Count, mean, sum of squared differences from it (M2), and maximum of no samples at all."""

Sums = tuple[float, float, float, float]


@dataclass(frozen=True)
class Window:
    """The newest ``count`` whole buckets and the one that runs; of months: calendar months, in buckets of days."""

    size: int
    count: int
    months: bool = False

    def first(self, running: int) -> int:
        """Return the number of the window's first bucket, where ``running`` is that of the bucket that runs."""
        return _months_before(running, self.count) if self.months else running - self.count


WINDOWS = {
    "1min": Window(SECOND, 60),
    "5min": Window(SECOND, 300),
    "15min": Window(SECOND, 900),
    "1h": Window(MINUTE, 60),
    "5h": Window(MINUTE, 300),
    "15h": Window(MINUTE, 900),
    "1d": Window(HOUR, 24),
    "5d": Window(HOUR, 120),
    "15d": Window(HOUR, 360),
    "1mo": Window(DAY, 1, months=True),
    "5mo": Window(DAY, 5, months=True),
    "15mo": Window(DAY, 15, months=True),
}
"""Windows in the order in which they are told."""

_FORGOTTEN_MAX = 5000

_LONGEST = {size: [one for one in WINDOWS.values() if one.size == size][-1] for size in SIZES}

Key = tuple[int, int]
"""A bucket: its size, and its number from 1970 on."""


class History:
    """The buckets of all resolutions: about 2,600 at most, however long it runs.

    Of each name a bucket holds four numbers (``Sums``). Times are whole seconds since 1970 by the collector's clock; a
    sample belongs to the second that begins at its time.
    """

    def __init__(self, names: Sequence[str] = KEPT) -> None:
        self.names = tuple(names)
        self.buckets: dict[int, dict[int, array[float]]] = {size: {} for size in SIZES}
        self.changed: set[Key] = set()
        """Keys of what is not kept elsewhere yet (``kept``), as the next two."""
        self.forgotten: set[Key] = set()
        self.moved = False
        """Nothing is where it was: all of it is to be kept anew."""
        self._place = {name: 4 * at for at, name in enumerate(self.names)}
        self._empty = array("d", NOTHING * len(self.names))
        self._whole: dict[tuple[str, str], tuple[int, Sums]] = {}

    def add(self, second: int, values: Mapping[str, float]) -> None:
        """Add a sample; names without a value, or with one that is no number, are left out."""
        for size in SIZES:
            number = second // size
            bucket = self.buckets[size].get(number)
            if bucket is None:
                bucket = self.buckets[size][number] = self._empty[:]
            self.changed.add((size, number))
            for name, value in values.items():
                at = self._place.get(name)
                if at is None or isnan(value):
                    continue
                count = bucket[at] + 1
                if count == 1:
                    bucket[at : at + 4] = array("d", (1.0, value, 0.0, value))
                    continue
                # Welford: no difference of large sums, so that it stays exact however many there are.
                difference = value - bucket[at + 1]
                mean = bucket[at + 1] + difference / count
                bucket[at], bucket[at + 1] = count, mean
                bucket[at + 2] += difference * (value - mean)
                if value > bucket[at + 3]:
                    bucket[at + 3] = value

    def put(self, size: int, number: int, names: Sequence[str], values: array[float]) -> None:
        """Put a bucket back as it was kept, with the names of then."""
        if tuple(names) == self.names:
            self.buckets[size][number] = values
            return
        bucket = self.buckets[size][number] = self._empty[:]
        for old, name in enumerate(names):
            if (at := self._place.get(name)) is not None:
                bucket[at : at + 4] = values[4 * old : 4 * old + 4]

    def prune(self, moment: int) -> None:
        """Forget the buckets that no window reaches any more at that moment (s since 1970)."""
        for size, buckets in self.buckets.items():
            first = _LONGEST[size].first(moment // size)
            while buckets and (oldest := next(iter(buckets))) < first:
                del buckets[oldest]
                self.changed.discard((size, oldest))
                self.forgotten.add((size, oldest))
        if len(self.forgotten) > _FORGOTTEN_MAX:  # nothing could be kept elsewhere for long
            self.moved = True
            self.forgotten.clear()

    def kept(self) -> None:
        """Note that all of the history is kept elsewhere now."""
        self.changed.clear()
        self.forgotten.clear()
        self.moved = False

    def kept_as(self, names: Sequence[str]) -> None:
        """Note that the history is kept elsewhere under these names: where they are others, all of it is to be kept
        anew."""
        self.moved = tuple(names) != self.names

    def move(self, before: int, after: int) -> None:
        """Move what has been from one moment to another, as the clock jumped; what runs goes on running."""
        for size, buckets in self.buckets.items():
            if shift := after // size - before // size:
                self.buckets[size] = {number + shift: bucket for number, bucket in buckets.items()}
        self._whole.clear()
        self.moved = True

    def sums(self, window: str, name: str, moment: int) -> Sums:
        """Return what is known of a name over a window that ends at that moment (s since 1970)."""
        asked, at = WINDOWS[window], self._place[name]
        buckets, running = self.buckets[asked.size], moment // asked.size
        first = asked.first(running)
        known, whole = self._whole.get((window, name), (None, NOTHING))
        if known != running:
            whole = _merged(_part(buckets[one], at) for one in range(first, running) if one in buckets)
            if asked.size != SECOND:  # all others change seldom
                self._whole[window, name] = running, whole
        return _merged((whole, _part(buckets[running], at))) if running in buckets else whole

    def windows(self, moment: int, names: Iterable[str] = INDICATORS) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return maximum, average and standard deviation of each name over each window; None where nothing was
        sampled."""
        return {name: {window: _told(self.sums(window, name, moment)) for window in WINDOWS} for name in names}

    def rows(self, window: str, name: str, moment: int) -> Iterator[tuple[int, Sums]]:
        """Yield what each bucket of a window knows of a name, with the time at which it begins (s since 1970)."""
        asked, at = WINDOWS[window], self._place[name]
        buckets, running = self.buckets[asked.size], moment // asked.size
        # Whole seconds have no running one: at the end of a second the next has not begun.
        for number in range(asked.first(running), running + (asked.size != SECOND)):
            yield number * asked.size, _part(buckets[number], at) if number in buckets else NOTHING


def deviation(sums: Sums) -> float:
    """Return the standard deviation of the samples themselves (of the population)."""
    return sqrt(max(sums[2], 0) / sums[0])


def _part(bucket: array[float], at: int) -> Sums:
    return bucket[at], bucket[at + 1], bucket[at + 2], bucket[at + 3]


def _merged(parts: Iterable[Sums]) -> Sums:
    """Add up several buckets as one: the squares within each, and of the means' distances from the mean of all."""
    known = [part for part in parts if part[0]]
    if len(known) < 2:
        return known[0] if known else NOTHING
    counts, means, squares, maxima = zip(*known, strict=True)
    count = fsum(counts)
    mean = fsum(map(float.__mul__, counts, means)) / count
    distances = map(pow, map(float.__sub__, means, repeat(mean)), repeat(2))
    return count, mean, fsum(squares) + fsum(map(float.__mul__, counts, distances)), max(maxima)


def _told(sums: Sums) -> dict[str, float | None]:
    if not sums[0]:
        return {"maximum": None, "average": None, "deviation": None}
    told = {"maximum": sums[3], "average": sums[1], "deviation": deviation(sums)}
    return {name: round(value, 6) for name, value in told.items()}


def _months_before(day: int, months: int) -> int:
    """Return the same day of the month so many months before, or the last of that month if it is shorter."""
    today = datetime.fromtimestamp(day * DAY, UTC).date()
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return (date(year, month + 1, min(today.day, last)) - date(1970, 1, 1)) // timedelta(days=1)
