"""How long deliveries took, turn by turn; and how late the loop was."""

from __future__ import annotations

import pytest

from fastpath.core.broker.broker import Broker
from fastpath.core.telemetry.histogram import BOUNDS_NS, quantile_ms
from fastpath.edge.runtime.delivery_latency import DeliveryLatency, measure
from fastpath.edge.runtime.loop_lag import LoopLag
from tests.support.core.crowds import SLOWLY, crowd
from tests.support.core.stage import Stage

MS = 1_000_000


class Clock:
    """Time as these tests tell it, in ms: what a process counts, and what its machine's clock says."""

    def __init__(self) -> None:
        self.ms = 5_000_000.0

    def monotonic_ns(self) -> int:
        """In nanoseconds."""
        return int(self.ms * MS)

    def monotonic(self) -> float:
        """In seconds."""
        return self.ms / 1000

    time_ns = monotonic_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """In place of the process's own."""
    told = Clock()
    for name in ("monotonic_ns", "time_ns"):
        monkeypatch.setattr(f"fastpath.edge.runtime.delivery_latency.{name}", getattr(told, name))
    monkeypatch.setattr("fastpath.edge.runtime.loop_lag.monotonic", told.monotonic)
    return told


def counted(latency: DeliveryLatency) -> dict[float, int]:
    """Deliveries by the upper bound of their bucket, in ms."""
    bounds = (*(bound / MS for bound in BOUNDS_NS), float("inf"))
    return {bound: count for bound, count in zip(bounds, latency.histogram.counts, strict=True) if count}


def test_a_turn_counts_from_its_first_publication_on_and_weighs_as_many_as_it_delivers(clock: Clock) -> None:
    latency = DeliveryLatency()
    latency.flushed(5)
    assert counted(latency) == {}, "nothing was published in this turn: it is an event"
    latency.accepted(clock.monotonic_ns() - 40 * MS)
    latency.accept()
    latency.accepted(clock.monotonic_ns())
    latency.flushed(1000)
    assert counted(latency) == {50: 1000}
    latency.flushed(1)
    assert counted(latency) == {50: 1000}, "the next turn begins anew"
    latency.accept()
    latency.flushed(0)
    assert counted(latency) == {50: 1000}
    latency.accept()
    latency.flushed(2)
    assert sum(latency.histogram.counts) == 1002
    assert quantile_ms(latency.histogram.counts, 0.001) < 1, "at once"


def test_what_comes_from_elsewhere_counts_from_its_acceptance_there(clock: Clock) -> None:
    latency = DeliveryLatency()
    latency.accepted(0)
    latency.flushed(1)
    assert counted(latency) == {}, "a log in which nothing was published"
    latency.accepted_at(clock.time_ns() // MS - 250)
    latency.flushed(3)
    assert counted(latency) == {300: 3}
    latency.accepted_at(clock.time_ns() // MS + 59_000)
    latency.flushed(1)
    assert sum(counted(latency).values()) == 4, "another machine's clock is ahead"
    assert latency.histogram.sum_ns == 3 * 250 * MS
    for hours in (-1, 1):
        latency.accepted_at(clock.time_ns() // MS + hours * 3_600_000)
        latency.flushed(1)
    assert sum(counted(latency).values()) == 4, "a clock has been set"


def test_what_a_listener_collects_counts_from_the_moment_at_which_it_began(clock: Clock) -> None:
    """Whatever the clock says meanwhile."""
    stage = Stage()
    latency = measure(stage.broker, on=True)
    assert latency is not None
    crowd(stage, ["ann", "bob"], "/s/1", SLOWLY)
    for _ in range(3):
        latency.accepted(clock.monotonic_ns() - 25 * MS)
        stage.publish("/s/1", "x")
        before = stage.broker.counters.messages_out - latency.collected
        stage.broker.flush(stage.now)
        latency.flushed(stage.broker.counters.messages_out - latency.collected - before)
    assert counted(latency) == {}
    stage.broker.flush(stage.now + 3_600_000)
    assert latency.collected == 6
    assert sum(counted(latency).values()) == 6
    assert latency.histogram.sum_ns == 25 * 6 * MS


def test_nothing_is_attached_when_nobody_wants_to_know() -> None:
    broker: Broker = Stage().broker
    assert measure(broker, on=False) is None
    assert (broker.stopwatch, broker.batches.released) == (None, None)


def test_the_longest_delay_of_a_second_is_kept(clock: Clock) -> None:
    loop_lag = LoopLag()
    assert loop_lag.longest_ms == 0
    loop_lag.came()
    assert loop_lag.longest_ms == 0, "it was not expected yet"
    for late_ms in (80, 30):
        loop_lag.expect(0.1)
        clock.ms += 100 + late_ms
        loop_lag.came()
    assert loop_lag.longest_ms == 80
    for _ in range(2):
        assert loop_lag.longest_ms == 80, "of the second that runs, then of the last one that is over"
        loop_lag.expect(1)
        clock.ms += 1000
        loop_lag.came()
    assert loop_lag.longest_ms == 0
