"""Token buckets: a second's worth at once, then so many a second, and nobody is remembered for nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.protocol.options import OptionRow
from fastpath.core.sessions.rate_limits import RateLimit, RateLimits, SubjectRates
from tests.support.core.stage import Stage


def test_a_seconds_worth_may_come_at_once_and_what_is_more_is_paid_for() -> None:
    rate: RateLimit[str] = RateLimit(10)
    assert [rate.spend("ann", 1, 1000) for _ in range(10)] == [0] * 10
    assert rate.spend("ann", 1, 1000) == 1101, "one piece ahead, at ten a second"
    assert rate.spend("bob", 10, 1000) == 0, "each has his own"
    assert rate.spend("ann", 0, 1101) == 0, "the pause is over"
    assert rate.spend("ann", 1, 1500) == 0
    assert rate.spend("ann", 100, 1500) > 10_000, "a batch is taken whole, and paid for"


def test_a_bucket_holds_no_more_than_a_second() -> None:
    rate: RateLimit[str] = RateLimit(10)
    rate.spend("ann", 10, 0)
    assert rate.spend("ann", 10, 3_600_000) == 0
    assert rate.spend("ann", 1, 3_600_000) > 3_600_000


def test_a_clock_that_is_set_back_gives_and_takes_nothing() -> None:
    rate: RateLimit[str] = RateLimit(10)
    rate.spend("ann", 10, 5000)
    assert rate.spend("ann", 1, 1000) == 5101


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 50))), st.integers(1, 100))
def test_over_any_time_no_more_than_the_rate_and_a_seconds_worth(steps: list[tuple[int, int]], per_second: int) -> None:
    """Of one that obeys: says the next thing when its pause is over."""
    rate: RateLimit[str] = RateLimit(per_second)
    now = total = last = 0
    for wait, pieces in steps:
        now = max(now + wait, last)
        last = rate.spend("ann", pieces, now)
        total += pieces
        # What came last is paid for by the pause after it.
        assert total - pieces <= per_second + now * per_second / 1000 + 1


def test_who_has_not_said_anything_for_long_is_forgotten() -> None:
    rate: RateLimit[str] = RateLimit(10)
    rate.spend("ann", 5, 0)
    rate.spend("bob", 20, 0)
    rate.sweep(600)
    assert len(rate) == 1, "ann's is full again"
    rate.forget("bob")
    assert len(rate) == 0


def test_the_longer_pause_counts_and_has_a_name() -> None:
    rates: RateLimits[str] = RateLimits(10, 2)
    assert rates.spend("ann", 1, 1, 0) == ""
    assert rates.spend("ann", 1, 5, 0) == "publications"
    assert rates.due(1999) == []
    assert rates.due(2001) == ["ann"]
    assert rates.due(9999) == []
    assert rates.spend("ann", 20, 0, 2001) == "commands"
    rates.forget("ann")
    assert rates.due(9999) == []


def test_without_a_bound_nothing_is_kept() -> None:
    rates: RateLimits[str] = RateLimits(0, 0)
    assert rates.spend("ann", 10_000, 10_000, 0) == ""
    rates.sweep(0)
    assert not rates.pausing


class Counting:
    """A stage and the rates of its options."""

    def __init__(self, *rows: OptionRow, publications: int = 0) -> None:
        self.stage = Stage()
        self.rates: RateLimits[str] = RateLimits(0, publications)
        self.of_subjects = SubjectRates(self.stage.broker.interest, self.rates, self.stage.broker.counters)
        self.stage.sessions.rights.options.watch(self.of_subjects.renew)
        self.change(*rows)

    def change(self, *rows: OptionRow) -> None:
        """Other options count."""
        self.stage.sessions.rights.options.replace(rows)
        self.stage.end()

    def spend(self, who: str, *published: tuple[str, int], now: int = 0) -> int:
        """Until when somebody pauses who publishes this."""
        self.of_subjects.spend(who, published, now)
        return self.rates.pausing.get(who, 0)


def test_a_rate_counts_for_all_subjects_of_its_pattern_together_and_each_connection_by_itself() -> None:
    counting = Counting(
        OptionRow(1, "/a/**", publish_rate=10),
        OptionRow(2, "/a/free", publish_rate=0),
        OptionRow(3, "/a/slow/*", publish_rate=2),
    )
    counting.stage.publish("/a/x", "there before")
    assert counting.spend("ann", ("/a/x", 5), ("/a/y", 5), ("/a/slow/x", 2)) == 0
    assert counting.spend("ann", ("/a/free", 1000), ("/b/x", 1000)) == 0
    assert counting.spend("bob", ("/a/x", 10)) == 0
    assert counting.stage.broker.counters.limited.get("publications", 0) == 0
    assert counting.spend("ann", ("/a/z", 1)) == 101
    assert counting.spend("bob", ("/a/slow/x", 3)) == 501
    assert counting.rates.due(101) == ["ann"]
    assert counting.stage.broker.counters.limited["publications"] == 2


def test_a_pause_ends_with_the_options_that_it_is_for_and_no_other_does() -> None:
    counting = Counting(OptionRow(1, "/a/**", publish_rate=1), publications=10)
    assert counting.spend("ann", ("/a/x", 1000)) == 999_001
    assert counting.rates.spend("bob", 0, 20, 0) == "publications"
    assert counting.spend("bob", ("/a/x", 11)) == 10_001
    counting.change(OptionRow(1, "/a/**", publish_rate=1), OptionRow(2, "/b/**", cache_messages=1))
    assert counting.rates.due(2000) == [], "the rate is what it was"
    counting.change(OptionRow(1, "/a/**", publish_rate=2))
    assert counting.rates.due(1000) == ["ann"]
    assert counting.rates.due(1001) == ["bob"], "the settings have a rate too"
    assert counting.spend("ann", ("/a/x", 2), now=1000) == 0, "a new rate begins anew"
    counting.change()
    assert counting.spend("ann", ("/a/x", 1000), now=1000) == 0


def test_nobody_is_remembered_for_nothing() -> None:
    counting = Counting(OptionRow(1, "/a/**", publish_rate=10))
    counting.spend("ann", ("/a/x", 20))
    counting.spend("bob", ("/a/x", 20))
    assert len(counting.of_subjects) == 4
    counting.of_subjects.forget("bob")
    assert counting.rates.due(5000) == ["ann"]
    counting.of_subjects.sweep(5000)
    assert len(counting.of_subjects) == 0
