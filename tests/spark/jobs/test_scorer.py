"""When the price of an instrument raises an alert, and when it does not raise another."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from spark.jobs.scorer import Alert, InstrumentState, Limits, judge
from spark.support import histories

SECOND = 1000
LIMITS = Limits()


def run(
    prices: list[float], limits: Limits = LIMITS, previous: float | None = None, every: int = SECOND
) -> list[Alert]:
    state, alerts = InstrumentState(), []
    for number, price in enumerate(prices):
        state, raised = judge(state, limits, number * every, price, previous)
        alerts += raised
    return alerts


def test_a_move_since_the_close_before_is_told_once_at_each_level() -> None:
    alerts = run([100, 104.9, 105, 107, 105, 110, 112, 109, 90], previous=100.0)
    assert alerts[:2] == [
        Alert("threshold", "warning", 105, 5.0, 5.0, 2 * SECOND),
        Alert("threshold", "critical", 110, 10.0, 10.0, 5 * SECOND),
    ]
    assert alerts[2:] == []  # also not for -10 % right after it: the instrument is known to be in motion


def test_a_fall_counts_like_a_rise() -> None:
    assert [(alert.level, alert.value) for alert in run([100, 95], previous=100.0)] == [("warning", -5.0)]


def test_without_a_close_before_the_last_price_is_what_counts() -> None:
    assert [alert.value for alert in run([200, 212])] == [6.0]


@pytest.mark.parametrize(("calm", "seconds", "told"), [(104.5, 100, 1), (103.9, 20, 1), (103.9, 40, 2)])
def test_it_is_told_again_only_after_a_calm_and_a_while(calm: float, seconds: int, told: int) -> None:
    prices = [100.0, 106.0, *[calm] * seconds, 106.0]
    assert len(run(prices, previous=100.0)) == told


def test_a_price_that_swings_about_the_limit_makes_no_storm() -> None:
    assert len(run([105.1 if number % 2 else 104.9 for number in range(3_600)], previous=100.0)) == 1


def test_a_step_out_of_the_ordinary() -> None:
    chance = random.Random(1)
    prices = [100.0]
    for _ in range(200):
        prices.append(prices[-1] * math.exp(chance.gauss(0, 0.002)))
    quiet = run(prices, previous=None)
    (alert,) = run([*prices, prices[-1] * 1.014])
    assert quiet == []
    assert (alert.kind, alert.level, alert.limit) == ("zscore", "warning", 5.0)
    assert 6 < alert.value < 8
    (alert,) = run([*prices, prices[-1] * 0.97])
    assert (alert.level, alert.limit) == ("critical", 8.0)
    assert alert.value < -12


def test_nothing_is_out_of_the_ordinary_before_the_ordinary_is_known() -> None:
    steps = [100.0, 100.1] * 14
    assert run([*steps, 103]) == []
    assert len(run([*steps, *steps, 103])) == 1


def test_a_cent_after_a_quiet_time_is_no_sensation() -> None:
    assert run([*[100.0] * 500, 100.01]) == []


def test_one_sensation_does_not_hide_the_next() -> None:
    steps = [100.0, 100.1] * 100
    alerts = run([*steps, 101.5, *[101.5, 101.6] * 20, 103.2])
    assert [alert.price for alert in alerts] == [101.5, 103.2]


def test_what_is_older_than_the_newest_price_is_not_judged() -> None:
    state, _ = judge(InstrumentState(), LIMITS, 5_000, 100.0, None)
    assert judge(state, LIMITS, 4_999, 200.0, 100.0) == (state, [])
    assert judge(state, LIMITS, 5_000, 200.0, 100.0)[1]


def test_real_closes() -> None:
    """Daily closes as ticks, as `ticks` replays them: few alerts, and those of days that are remembered."""
    closes = histories.read()
    state, days = InstrumentState(), []
    for place, (before, price) in enumerate(pairwise(closes.prices["JPM"]), 1):
        state, alerts = judge(state, LIMITS, place * 60_000, price, before)
        days += [(str(closes.dates[place]), alert.kind, alert.level) for alert in alerts]
    assert ("2009-01-20", "threshold", "critical") in days  # -20.7 %
    assert ("2020-03-09", "zscore", "warning") in days
    # The day of -15 % a week later was in motion already, and nothing out of the ordinary of that week.
    assert "2020-03-16" not in {day for day, _, _ in days}
    assert len(days) < 8312 * 0.05
