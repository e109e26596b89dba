"""The histogram: exact percentiles below 65 ms, three digits above, merged from several processes."""

from __future__ import annotations

import json

from fastpath.bench.load.latency import LatencyHistogram


def test_percentiles_are_those_of_the_values() -> None:
    """A thousand different microseconds, and one far outside."""
    histogram = LatencyHistogram()
    for us in range(1, 1000):
        histogram.add(us)
    histogram.add(1_234_567)

    summary = histogram.summary()

    assert summary == {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1234.567}


def test_nothing_counted_is_nothing_and_not_zero() -> None:
    """So that a table shows a dash."""
    assert set(LatencyHistogram().summary().values()) == {None}


def test_several_are_merged_as_json() -> None:
    """What another process counted, coarse values and the greatest included."""
    one, other = LatencyHistogram(), LatencyHistogram()
    one.add(100)
    other.add(300)
    other.add(90_123)
    found = json.loads(json.dumps(other.as_json()))

    one.merge(found["items"], found["max_us"])

    assert list(one.items()) == [(100, 1), (300, 1), (90_100, 1)]
    assert one.summary()["max_ms"] == 90.123


def test_a_cleared_one_keeps_its_list_which_hot_loops_hold() -> None:
    """And forgets all."""
    histogram = LatencyHistogram()
    fine = histogram.fine
    histogram.add(5)
    histogram.add(100_000)

    histogram.clear()

    assert histogram.fine is fine
    assert list(histogram.items()) == []
    assert histogram.summary()["max_ms"] is None


def test_a_latency_below_zero_counts_as_none() -> None:
    """Two machines' clocks differ."""
    histogram = LatencyHistogram()
    histogram.add(-7)
    assert list(histogram.items()) == [(0, 1)]
