"""Buckets and windows, against a straightforward computation over all samples."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime.stats.windows import DAY, HOUR, INDICATORS, KEPT, MINUTE, SECOND, WINDOWS, History, deviation
from tests.support.realtime.windows import NAMES, check, values


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def test_the_seven_indicators_and_the_twelve_windows_are_always_there() -> None:
    """Also before the first sample."""
    nothing = {"maximum": None, "average": None, "deviation": None}
    assert History().windows(1_800_000_000) == {name: dict.fromkeys(WINDOWS, nothing) for name in INDICATORS}
    assert len(INDICATORS) == 7
    assert list(WINDOWS) == ["1min", "5min", "15min", "1h", "5h", "15h", "1d", "5d", "15d", "1mo", "5mo", "15mo"]
    assert len(KEPT) == len(set(KEPT))


gaps = st.sampled_from([1, 1, 1, 2, 59, 60, 61, 3599, 3600, 80000, 86400, 40 * DAY, 200 * DAY])
series = st.lists(st.tuples(gaps, st.dictionaries(st.sampled_from(NAMES), values, max_size=2)), min_size=1, max_size=60)


@settings(max_examples=50)
@given(series, st.integers(at("2025-01-01"), at("2026-12-31")), st.sampled_from([1, 2, 61, 3600, 31 * DAY]))
def test_windows_are_those_of_all_samples(given: list[tuple[int, dict[str, float]]], start: int, idle: int) -> None:
    """Whatever came when; the bounds are those of whole buckets, and nothing is forgotten too early."""
    history, samples, second = History(), [], start
    for gap, sample in given:
        second += gap
        history.add(second, sample)
        samples.append((second, sample))
        history.prune(second + 1)
    check(history, samples, second + 1)
    history.prune(second + idle)
    check(history, samples, second + idle)


def test_windows_that_are_asked_for_each_second_are_the_same() -> None:
    """What is remembered of whole buckets between two questions is of those buckets."""
    history, samples = History(), []
    start = at("2026-11-30T22:58:30")
    for second in range(start, start + 4000, 17):
        sample = {"connections": second % 101}
        history.add(second, sample)
        samples.append((second, sample))
        check(history, samples, second + 1, ("connections",))


def test_large_values_that_hardly_differ_keep_their_deviation() -> None:
    """A difference of sums of squares would lose it."""
    history, start = History(), at("2026-01-01")
    for second in range(900):
        history.add(start + second, {"bytes_in_per_s": 1e12 + second % 2})
    told = history.windows(start + 900, ["bytes_in_per_s"])["bytes_in_per_s"]
    assert [told[window]["deviation"] for window in ("15min", "1h", "1d", "15mo")] == pytest.approx([0.5] * 4)


def test_no_more_is_kept_than_the_windows_need() -> None:
    history, start = History(), at("2024-01-01")
    for second in (*range(start, start + 1000 * DAY, DAY), *range(start + 1000 * DAY, start + 1001 * DAY, 40)):
        history.add(second, {"connections": 1})
        history.prune(second + 1)
    sizes = {size: len(buckets) for size, buckets in history.buckets.items()}
    assert sizes[SECOND] <= 900
    assert sizes[MINUTE] <= 901
    assert sizes[HOUR] <= 361
    assert 440 <= sizes[DAY] <= 462
    assert history.forgotten
    assert not history.forgotten & history.changed


def test_what_is_forgotten_while_nothing_is_kept_is_bounded() -> None:
    """The database is away for a day: then it gets all of it anew."""
    history, start = History(), at("2026-01-01")
    for second in range(start, start + 6000):
        history.add(second, {})
        history.prune(second + 1)
    assert history.moved
    assert len(history.forgotten) < 5000


def test_months_are_those_of_the_calendar() -> None:
    """On 31 March one month before is the last day of February."""
    history = History()
    for day in ("2026-02-27", "2026-02-28", "2026-03-30"):
        history.add(at(day), {"connections": int(day[-2:])})
    told = history.windows(at("2026-03-31T12:00"), ["connections"])["connections"]
    assert (told["1mo"]["average"], told["5mo"]["average"]) == (29, pytest.approx(85 / 3))


@settings(max_examples=50)
@given(series, st.integers(-500 * DAY, 500 * DAY), st.integers(at("2025-01-01"), at("2026-12-31")))
def test_a_jump_of_the_clock_takes_the_history_with_it(
    given: list[tuple[int, dict[str, float]]], jump: int, start: int
) -> None:
    """Nothing is lost or doubled; what was in the running bucket is in the running bucket."""
    history, second = History(), start
    for gap, sample in given:
        second += gap
        history.add(second, sample)
    before = {size: list(buckets.values()) for size, buckets in history.buckets.items()}
    newest = {size: max(buckets) for size, buckets in history.buckets.items()}
    history.move(second + 1, second + 1 + jump)
    assert {size: list(buckets.values()) for size, buckets in history.buckets.items()} == before
    for size, number in newest.items():
        running = (second + 1) // size - number  # 0, or 1 where the next one has begun
        assert max(history.buckets[size]) == (second + 1 + jump) // size - running
    assert history.moved


def test_a_jump_back_forgets_what_was_remembered_of_whole_buckets() -> None:
    """The same minute runs a second time, after another history."""
    history, minute = History(), at("2026-01-01T10:00")
    history.add(minute - 30, {"connections": 1})
    assert history.windows(minute + 1)["connections"]["1h"]["maximum"] == 1
    history.move(minute + 1, minute - 59)
    history.add(minute - 20, {"connections": 5})
    assert history.windows(minute + 1)["connections"]["1h"]["maximum"] == 5


def test_names_of_an_older_version_are_put_in_their_places() -> None:
    """What is kept under names of then is kept; names that are new begin with nothing."""
    old, start = History(("gone", "connections")), at("2026-01-01")
    old.add(start, {"gone": 7, "connections": 3})
    new = History(("bytes_in_per_s", "connections"))
    new.put(SECOND, start, old.names, old.buckets[SECOND][start])
    told = new.windows(start + 1, new.names)
    assert told["connections"]["1min"]["maximum"] == 3
    assert told["bytes_in_per_s"]["1min"]["maximum"] is None


def test_what_is_no_number_is_no_sample() -> None:
    history = History()
    history.add(100, {"connections": nan, "unknown": 1.0})
    history.add(101, {"connections": 2.0})
    assert history.windows(102)["connections"]["1min"] == {"maximum": 2, "average": 2, "deviation": 0}


def test_the_rows_of_a_window_are_its_buckets() -> None:
    """Each one, in order, with the time at which it begins; the running one is the last, but of seconds."""
    history, start = History(), at("2026-01-01T10:00:30")
    for second, value in ((start, 1.0), (start + 1, 3.0), (start + 60, 5.0)):
        history.add(second, {"connections": value})
    rows = list(history.rows("1h", "connections", start + 61))
    assert (len(rows), rows[-1][0]) == (61, at("2026-01-01T10:01"))
    assert [(sums[0], sums[1]) for _, sums in rows[-2:]] == [(2, 2), (1, 5)]
    assert deviation(rows[-2][1]) == 1
    seconds = list(history.rows("1min", "connections", start + 61))
    assert (len(seconds), seconds[-1][0], seconds[-1][1][1]) == (60, start + 60, 5)
