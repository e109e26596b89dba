"""How the figures are sampled, told to the first worker, and put together there."""

from __future__ import annotations

import asyncio

import pytest

from fastpath.core.telemetry.histogram import Histogram
from fastpath.edge.control.rankings import Rankings
from fastpath.edge.node.messages import Latency
from fastpath.edge.telemetry.figures import Statistics
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Leading


async def test_the_first_worker_is_told_what_the_others_count_also_without_statistics() -> None:
    """At once, each second, and at the end; what is over the last second stays 0."""
    told: list[dict[str, float]] = []
    runtime = make_runtime(Settings(mode="none", statistics=False), asyncio.get_running_loop())
    statistics = Statistics(runtime, 1, told.append)
    runtime.broker.counters.connects = 7
    statistics.start()
    assert statistics._timer is not None
    runtime.broker.counters.connects = 8
    statistics.stop()
    assert [(one["worker"], one["connects"], one["connections_per_s"]) for one in told] == [(1, 7, 0), (1, 8, 0)]
    assert told[-1]["memory_bytes"] > 1 << 20
    runtime.stop()


class Clock:
    """The process's times, at a moment that a test chooses."""

    def __init__(self, moment: float) -> None:
        self._moment = moment

    def monotonic(self) -> float:
        """In seconds."""
        return self._moment

    process_time = time = monotonic


@pytest.mark.parametrize(("moment", "wait"), [(100.0, 1), (100.25, 0.75), (100.5, 1.5), (100.75, 1.25)])
async def test_the_figures_are_sampled_on_the_whole_seconds_of_a_clock_that_all_workers_share(
    monkeypatch: pytest.MonkeyPatch, moment: float, wait: float
) -> None:
    """A second that is over in a moment is not sampled by itself."""
    loop = asyncio.get_running_loop()
    runtime = make_runtime(Settings(mode="none"), loop)
    waits: list[float] = []
    later = loop.call_later
    monkeypatch.setattr("fastpath.edge.telemetry.figures.time", Clock(moment))
    monkeypatch.setattr(loop, "call_later", lambda seconds, *call: (waits.append(seconds), later(seconds, *call))[1])
    statistics = Statistics(runtime)
    statistics.start()
    assert waits == [wait]
    statistics.stop()
    runtime.stop()


async def test_how_the_figures_of_workers_make_those_of_the_node() -> None:
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    statistics = Statistics(runtime)
    own = statistics.own()
    others = [own | {"worker": 2, "connections": 3, "messages_in": 9, "loop_lag_ms": 40.5, "connects": 5}]
    others.append(own | {"worker": 1, "loop_lag_ms": 2.5, "connections": 4})
    links = Leading()
    links.told, links.gone = others, {"connects": 100, "connections": 7, "messages_in": 8, "loop_lag_ms": 900}
    runtime.workers.lead(links)
    assert [one["worker"] for one in statistics.by_worker()] == [0, 1, 2]
    figures = statistics.figures()
    assert (figures["workers"], figures["connections"], figures["connects"]) == (3, 7, 105)
    assert (figures["messages_in"], figures["loop_lag_ms"]) == (0, 40.5)
    runtime.stop()


async def test_latencies_of_all_workers_are_one_histogram_also_of_those_that_are_no_more() -> None:
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    statistics = Statistics(runtime)
    latencies = statistics.latencies
    links = Leading()
    links.told = [statistics.own() | {"worker": 1}]
    runtime.workers.lead(links)
    runtime.serve(statistics, latencies)
    fast, slow = Histogram(), Histogram()
    fast.add(150_000, 90)
    slow.add(3_000_000, 10)
    runtime.workers.received(1, Latency(list(fast.counts), fast.sum_ns))
    latencies.sample()
    assert statistics.figures()["latency_p99_ms"] == 0, "since when is not known of what is told first"
    assert runtime.latency is not None
    runtime.latency.histogram.merge(fast.counts, fast.sum_ns)
    fast.merge(slow.counts, slow.sum_ns)
    latencies.sample()
    runtime.workers.received(1, Latency(list(fast.counts), fast.sum_ns))
    assert 0.1 < statistics.figures()["latency_p50_ms"] <= 0.15
    assert 2 < statistics.figures()["latency_p99_ms"] <= 3
    assert latencies.of_own["latency_p99_ms"] < 0.2
    counts, moment = latencies._last[1]
    latencies._last[1] = counts, moment - 4
    assert statistics.figures()["latency_p99_ms"] < 0.2, "it hangs"
    latencies._last[1] = counts, moment
    runtime.workers.parted(1)
    runtime.workers.received(1, Latency(list(slow.counts), slow.sum_ns))
    assert statistics.figures()["latency_p99_ms"] < 0.2, "its own are left"
    latencies.sample()
    assert statistics.figures()["latency_p99_ms"] == 0, "the second is over"
    total = latencies.total()
    assert (sum(total.counts), total.sum_ns) == (90 + 100 + 10, 2 * 90 * 150_000 + 20 * 3_000_000)
    runtime.stop()


async def test_what_the_server_itself_publishes_is_no_message_that_came_in() -> None:
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    statistics = Statistics(runtime)
    Rankings(runtime, statistics)
    statistics.start()
    assert runtime.broker.interest.topics.keys() == {"/__sys__/stats"}
    assert (runtime.broker.counters.messages_in, runtime.broker.sample_at) == (0, 1)
    statistics.stop()
    runtime.stop()
