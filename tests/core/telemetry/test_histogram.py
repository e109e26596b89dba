"""Durations in buckets: none is lost, and a quantile is that of the durations to within their bucket."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.telemetry.histogram import BOUNDS_NS, BUCKETS, Histogram, quantile_ms, since

DURATIONS = st.lists(st.integers(0, 20 * 10**9), min_size=1, max_size=50)


def filled(durations: list[int]) -> Histogram:
    """A histogram of these."""
    histogram = Histogram()
    for duration in durations:
        histogram.add(duration)
    return histogram


def bucket_of(duration: int) -> tuple[float, float]:
    """The bounds of its bucket in ms; beyond the last bound that one counts."""
    above = [bound for bound in BOUNDS_NS if bound >= duration]
    below = [bound for bound in BOUNDS_NS if bound < duration]
    upper = above[0] if above else BOUNDS_NS[-1]
    return (below[-1] if below and above else 0 if above else upper) / 1e6, upper / 1e6


def test_the_bounds_go_from_a_tenth_of_a_millisecond_to_ten_seconds_by_a_half_each() -> None:
    assert (BOUNDS_NS[0], BOUNDS_NS[-1]) == (100_000, 10 * 10**9)
    assert all(1.3 < later / earlier < 1.7 for earlier, later in pairwise(BOUNDS_NS))


@given(DURATIONS, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_lies_in_the_bucket_of_the_duration_of_that_rank(durations: list[int], share: float) -> None:
    exact = sorted(durations)[math.ceil(share * len(durations) - 1e-9) - 1]
    lower, upper = bucket_of(exact)
    assert lower <= quantile_ms(filled(durations).counts, share) <= upper


@given(DURATIONS, DURATIONS)
def test_histograms_add_up_and_what_came_between_two_readings_is_their_difference(
    one: list[int], two: list[int]
) -> None:
    histogram = filled(one)
    before = list(histogram.counts)
    other = filled(two)
    histogram.merge(other.counts, other.sum_ns)
    assert histogram.counts == filled(one + two).counts
    assert histogram.sum_ns == sum(one) + sum(two)
    assert since(histogram.counts, before) == other.counts


def test_a_bound_belongs_to_its_bucket_and_times_count() -> None:
    histogram = Histogram()
    histogram.add(100_000, 3)
    histogram.add(100_001)
    histogram.add(10**11)
    assert histogram.counts[:2] == [3, 1]
    assert histogram.counts[-1] == 1
    assert histogram.sum_ns == 400_001 + 10**11
    assert quantile_ms(histogram.counts, 1) == 10_000, "more is not known of what is longer"
    assert quantile_ms([0] * BUCKETS, 0.5) == 0
    with pytest.raises(ValueError):
        histogram.merge([1, 2], 3)
