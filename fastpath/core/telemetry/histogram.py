"""A histogram of durations: how many fell into buckets that widen by about a half each, from 0.1 ms to 10 s."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

_STEPS = (10, 15, 20, 30, 50, 70)

BOUNDS_NS = (*(step * decade for decade in (10**4, 10**5, 10**6, 10**7, 10**8) for step in _STEPS), 10**10)
"""The upper bounds of the buckets in ns, each within its bucket; one more bucket holds what is longer."""

BUCKETS = len(BOUNDS_NS) + 1


class Histogram:
    """Numbers of durations that fell into each bucket, and the sum of all durations: both only grow."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_ns = 0

    def add(self, duration_ns: int, times: int = 1) -> None:
        """Count a duration so many times."""
        self.counts[bisect_left(BOUNDS_NS, duration_ns)] += times
        self.sum_ns += duration_ns * times

    def merge(self, counts: Sequence[int], sum_ns: int) -> None:
        """Add another histogram; raise ValueError for one of other buckets."""
        self.counts = [own + one for own, one in zip(self.counts, counts, strict=True)]
        self.sum_ns += sum_ns


def since(counts: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return what was counted between two readings of the same histogram."""
    return [now - then for now, then in zip(counts, before, strict=True)]


def quantile_ms(counts: Sequence[int], share: float) -> float:
    """Return the duration in ms that ``share`` of the durations do not pass, taking those of a bucket to be spread
    evenly over it; 0 of none, and 10 s of those that are longer."""
    rank = share * sum(counts)
    if not rank:
        return 0.0
    below = 0
    for bucket, bound in enumerate(BOUNDS_NS):
        count = counts[bucket]
        if count and below + count >= rank:
            start = BOUNDS_NS[bucket - 1] if bucket else 0
            return (start + (bound - start) * (rank - below) / count) / 1e6
        below += count
    return BOUNDS_NS[-1] / 1e6
