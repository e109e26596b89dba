"""Latencies by the microsecond: counted while it runs, percentiles when it is over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

FINE_US = 1 << 16
"""Microseconds below which every one has its own count; above, three significant digits."""

PERCENTILES = (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999))


class LatencyHistogram:
    """``fine[us] += 1`` is how hot loops add; ``add`` takes every value."""

    def __init__(self) -> None:
        self.fine = [0] * FINE_US
        self.coarse: dict[int, int] = {}
        self.max_us = 0

    def add(self, us: int) -> None:
        """Count one latency, in microseconds; what is negative counts as none."""
        if us < FINE_US:
            self.fine[max(us, 0)] += 1
            return
        if us > self.max_us:
            self.max_us = us
        us = round(us, 3 - len(str(us)))
        self.coarse[us] = self.coarse.get(us, 0) + 1

    def clear(self) -> None:
        """Forget all; the list stays the same object, which hot loops hold."""
        self.fine[:] = [0] * FINE_US
        self.coarse.clear()
        self.max_us = 0

    def items(self) -> Iterable[tuple[int, int]]:
        """Yield each latency that occurred, in order, with its count."""
        for us, count in enumerate(self.fine):
            if count:
                yield us, count
        yield from sorted(self.coarse.items())

    def merge(self, items: Iterable[Iterable[int]], max_us: int = 0) -> None:
        """Add what another histogram counted."""
        for us, count in items:
            if us < FINE_US:
                self.fine[us] += count
            else:
                self.coarse[us] = self.coarse.get(us, 0) + count
        self.max_us = max(self.max_us, max_us)

    def summary(self) -> dict[str, float | None]:
        """Return ``p50_ms`` … ``p999_ms`` and ``max_ms``; None where nothing was counted."""
        values = list(self.items())
        total = sum(count for _, count in values)
        result: dict[str, float | None] = dict.fromkeys([*(name for name, _ in PERCENTILES), "max_ms"])
        if not total:
            return result
        wanted = list(PERCENTILES)
        passed, most = 0, self.max_us or values[-1][0]
        for us, count in values:
            passed += count
            while wanted and passed >= total * wanted[0][1]:
                result[wanted.pop(0)[0]] = min(us, most) / 1000
        result["max_ms"] = most / 1000
        return result

    def as_json(self) -> dict[str, Any]:
        """Return what ``merge`` takes, for another process."""
        return {"items": [list(item) for item in self.items()], "max_us": self.max_us}
