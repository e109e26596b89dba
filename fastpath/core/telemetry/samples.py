"""What is sampled each second for the statistics, over all workers of a node (docs/operate/figures.md)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import inf, nan

from . import figures as table
from .figures import COUNTER, FIGURES, GAUGE, SAMPLED

RING_SECONDS = 900
"""Samples that are kept: so long may who collects them be away."""

ROWS_MAX = 300
"""Samples in one answer: well below 1 ms of the loop. Where there are fewer there are no more."""

GAUGES = tuple(name for name, figure in SAMPLED.items() if figure.kind == GAUGE)
"""Figures that are sampled as they are."""

_NONE_AT_ZERO = frozenset(("latency_p50_ms", "latency_p99_ms"))
"""0 where nothing was delivered in that second: then there is nothing to sample."""

RATES = {figure.sampled: name for name, figure in FIGURES.items() if figure.sampled and figure.kind == COUNTER}
"""Rates that are made of figures that count from the start on: their increments."""

FIRST = frozenset(name for name in RATES.values() if FIGURES[name].across_workers == table.FIRST)
"""Rates of which the first worker's counts: the others see the same messages, and hold copies of the same cache."""

NAMES = ("seconds", *GAUGES, *RATES)
"""The columns of a sample; ``seconds`` is how many it stands for."""

WINDOWS = "/__sys__/windows"
"""The subject of the statistics over 12 windows, as JSON, from the collector in Django."""

Windows = dict[str, dict[str, dict[str, float | None]]]
"""Statistics that the collector makes of samples: by indicator and window the ``maximum``, ``average`` and
``deviation``; None before the first sample."""

_COUNTERS = tuple(RATES.values())
_CONNECTS, _DISCONNECTS = _COUNTERS.index("connects"), _COUNTERS.index("disconnects")


class Ring:
    """The newest samples with their numbers, in memory that does not grow."""

    def __init__(self, seconds: int = RING_SECONDS) -> None:
        self._values = array("d", bytes(8 * seconds * len(NAMES)))
        self._numbers = array("q", bytes(8 * seconds))
        self._size = seconds
        self._count = 0

    def add(self, number: int, row: Sequence[float]) -> None:
        """Add the sample of a second; it takes the place of the oldest."""
        place, width = self._count % self._size, len(NAMES)
        self._values[place * width : (place + 1) * width] = array("d", row)
        self._numbers[place] = number
        self._count += 1

    def after(self, number: int, limit: int) -> list[list[float]]:
        """Return the oldest of those with a higher number, as ``[number, value, …]``."""
        first, numbers, size = self._count, self._numbers, self._size
        while first > max(self._count - size, 0) and numbers[(first - 1) % size] > number:
            first -= 1
        rows: list[list[float]] = []
        width = len(NAMES)
        for count in range(first, min(first + limit, self._count)):
            place = count % size
            rows.append([numbers[place], *self._values[place * width : (place + 1) * width]])
        return rows


class _Counted:
    """The counts of one worker when it was looked at last, and what of them no sample has told yet."""

    __slots__ = ("owed", "totals", "uptime")

    def __init__(self, totals: Sequence[float], uptime: float) -> None:
        self.totals = totals
        self.uptime = uptime
        self.owed: list[tuple[int, list[float]]] = []
        """Increments of one second, and how many such seconds are still to be told of."""

    def look(self, totals: Sequence[float], uptime: float, most: float = inf) -> None:
        """Take what the worker has told anew, or told the same as before; the increments are of ``most`` seconds at
        most."""
        if uptime > self.uptime:
            seconds = max(round(min(uptime - self.uptime, most)), 1)
            increments = [max(now - before, 0) / seconds for now, before in zip(totals, self.totals, strict=True)]
            if any(increments):
                self.owed.append((seconds, increments))
            self.totals, self.uptime = totals, uptime

    def pay(self, seconds: int, rates: list[float], at_once: bool = False) -> None:
        """Add what is told by a sample that stands for so many seconds, per second."""
        left = []
        for turns, increments in self.owed:
            paid = turns if at_once else min(turns, seconds)
            for at, increment in enumerate(increments):
                rates[at] += increment * paid / seconds
            if turns > paid:
                left.append((turns - paid, increments))
        self.owed = left


class Sampler:
    """Makes a sample of what the workers told: every increment is told once, at the rate at which it came."""

    def __init__(self) -> None:
        self._number = 0
        self._workers: dict[float, _Counted] = {}

    def begin(self, number: int, each: Sequence[Mapping[str, float]]) -> None:
        """Begin to sample: what was counted before this second is not looked at."""
        self._number = number
        self._workers = {one["pid"]: _Counted(_totals(one, not at), one["uptime_s"]) for at, one in enumerate(each)}

    def take(
        self,
        number: int,
        figures: Mapping[str, float],
        each: Sequence[Mapping[str, float]],
        ended: Sequence[Mapping[str, float]] = (),
    ) -> list[float]:
        """Return the sample of second ``number``, in the order of NAMES; ``each`` are the workers' figures, the first's
        first, ``ended`` the last ones of those that have gone meanwhile, and their clients with them.

        Seconds in which nothing could be sampled are stood for by the next sample, so that the sum of a rate over the
        seconds is what was counted. A worker that could not tell for a while is told of in as many samples.
        """
        seconds = max(number - self._number, 1)
        rates = [0.0] * len(_COUNTERS)
        workers: dict[float, _Counted] = {}
        for at, one in enumerate((*each, *ended)):
            totals, pid = _totals(one, not at), one["pid"]
            worker = self._workers.pop(pid, None)
            if worker is None:
                # One that began after the first has counted all of it since; the others had been counted before.
                began = one["uptime_s"] < each[0]["uptime_s"]
                worker = _Counted([0.0] * len(totals) if began else totals, 0.0 if began else one["uptime_s"])
                worker.look(totals, one["uptime_s"], most=1)
            else:
                worker.look(totals, one["uptime_s"])
            worker.pay(seconds, rates, at_once=not at or at >= len(each))
            if at < len(each):
                workers[pid] = worker
            else:
                rates[_DISCONNECTS] += (totals[_CONNECTS] - totals[_DISCONNECTS]) / seconds
        for gone in self._workers.values():
            gone.pay(seconds, rates, at_once=True)
        self._number, self._workers = number, workers
        gauges = [
            (figures.get(name, nan) or nan) if name in _NONE_AT_ZERO else figures.get(name, nan) for name in GAUGES
        ]
        return [float(seconds), *gauges, *rates]


def _totals(figures: Mapping[str, float], first: bool) -> list[float]:
    return [figures.get(name, 0) if first or name not in FIRST else 0 for name in _COUNTERS]
