"""Samples of a node: what all workers counted is told once, at the rate at which it came, in memory that is bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.telemetry.samples import FIRST, NAMES, RATES, Ring, Sampler

CONNECTS = NAMES.index("connections_per_s")
DISCONNECTS = NAMES.index("disconnections_per_s")
MESSAGES_IN = NAMES.index("messages_in_per_s")


@dataclass
class Worker:
    """What one worker reports."""

    pid: int
    uptime_s: float = 0.0
    counted: dict[str, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        return {"pid": self.pid, "uptime_s": self.uptime_s, **self.counted}


def row(number: int) -> list[float]:
    return [float(number)] * len(NAMES)


def test_the_ring_holds_the_newest_and_hands_them_out_in_order() -> None:
    """From the one after that which was had last, oldest first, so many at a time."""
    ring = Ring(seconds=5)
    assert ring.after(-1, 10) == []
    for number in (1, 2, 3, 7, 8, 9, 10):
        ring.add(number, row(number))
    assert ring.after(-1, 10) == [[number, *row(number)] for number in (3, 7, 8, 9, 10)]
    assert [number for number, *_ in ring.after(7, 2)] == [8, 9]
    assert [number for number, *_ in ring.after(5, 10)] == [7, 8, 9, 10]
    assert ring.after(10, 10) == []


def test_increments_are_told_once_and_figures_as_they_are() -> None:
    """What was counted before the beginning is not told."""
    sampler, worker = Sampler(), Worker(1, 5.0, {"connects": 100})
    sampler.begin(10, [worker.figures()])
    worker.counted["connects"], worker.uptime_s = 107, 6.0
    sample = sampler.take(11, {"connections": 42, "latency_p50_ms": 0, "latency_p99_ms": 1.5}, [worker.figures()])
    assert sample[0] == 1
    assert sample[NAMES.index("latency_p99_ms")] == 1.5
    assert isnan(sample[NAMES.index("latency_p50_ms")]), "nothing was delivered"
    assert sample[NAMES.index("connections")] == 42
    assert sample[CONNECTS] == 7


def test_a_loop_that_was_blocked_leaves_a_hole_and_its_rates_are_over_the_whole_time() -> None:
    sampler, worker = Sampler(), Worker(1)
    sampler.begin(10, [worker.figures()])
    worker.counted["connects"], worker.uptime_s = 30, 3.2
    sample = sampler.take(13, {}, [worker.figures()])
    assert (sample[0], sample[CONNECTS]) == (3, 10)


def test_a_worker_that_was_blocked_is_told_of_in_as_many_samples() -> None:
    """Not as three times its rate in one second."""
    sampler, first, other = Sampler(), Worker(1), Worker(2)
    sampler.begin(0, [first.figures(), other.figures()])
    told = []
    for number in range(1, 7):
        first.uptime_s = number
        if number in (3, 4):  # it is late with its first report, and then counts nothing
            other.uptime_s, other.counted["connects"] = number, 12
        told.append(sampler.take(number, {}, [first.figures(), other.figures()])[CONNECTS])
    assert told == [0, 0, 4, 4, 4, 0]


def test_workers_that_come_and_go() -> None:
    """A new one is told from its start, one that was there before this first worker only from now on."""
    sampler, first, old = Sampler(), Worker(1, 1.0), Worker(2, 500.0, {"connects": 1000})
    sampler.begin(0, [first.figures()])
    first.uptime_s = 2.0
    assert sampler.take(1, {}, [first.figures(), old.figures()])[CONNECTS] == 0
    first.uptime_s, old.uptime_s, old.counted["connects"] = 3.0, 501.0, 1003
    new = Worker(3, 0.5, {"connects": 4})
    assert sampler.take(2, {}, [first.figures(), old.figures(), new.figures()])[CONNECTS] == 7
    first.uptime_s = 4.0
    assert sampler.take(3, {}, [first.figures()])[CONNECTS] == 0


def test_what_a_worker_that_is_gone_had_counted_is_told() -> None:
    """All that is still owed of it, at once."""
    sampler, first, other = Sampler(), Worker(1), Worker(2)
    sampler.begin(0, [first.figures(), other.figures()])
    first.uptime_s = other.uptime_s = 4.0
    other.counted["connects"] = 12
    assert sampler.take(1, {}, [first.figures(), other.figures()])[CONNECTS] == 3
    assert sampler.take(2, {}, [first.figures()])[CONNECTS] == 9


def test_clients_of_a_worker_that_is_gone_have_gone_with_it() -> None:
    """All that it had counted is told, also when it came and went between two samples."""
    sampler, first, other = Sampler(), Worker(1), Worker(2, 0.0, {"connects": 20, "disconnects": 3})
    sampler.begin(0, [first.figures(), other.figures()])
    first.uptime_s = other.uptime_s = 2.0
    other.counted = {"connects": 24, "disconnects": 5}
    new = Worker(3, 1.0, {"connects": 8})
    sample = sampler.take(2, {}, [first.figures()], [other.figures(), new.figures()])
    assert (sample[CONNECTS], sample[DISCONNECTS]) == ((4 + 8) / 2, (2 + 19 + 8) / 2)
    first.uptime_s = 3.0
    sample = sampler.take(3, {}, [first.figures()])
    assert (sample[CONNECTS], sample[DISCONNECTS]) == (0, 0)
    still = Worker(4, 500.0, {"connects": 1000, "disconnects": 990})
    sample = sampler.take(4, {}, [first.figures()], [still.figures()])
    assert (sample[CONNECTS], sample[DISCONNECTS]) == (0, 10), "what came before the first worker did is not told"


def test_of_what_all_workers_see_the_first_counts() -> None:
    sampler, first, other = Sampler(), Worker(1), Worker(2)
    sampler.begin(0, [first.figures(), other.figures()])
    for worker in (first, other):
        worker.uptime_s, worker.counted = 1.0, {"messages_in": 9, "connects": 2}
    sample = sampler.take(1, {}, [first.figures(), other.figures()])
    assert (sample[MESSAGES_IN], sample[CONNECTS]) == (9, 4)
    assert set(RATES.values()) >= FIRST


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 50)), min_size=3, max_size=3)),
        min_size=1,
        max_size=40,
    )
)
def test_the_sum_over_the_seconds_is_what_was_counted(steps: list[tuple[int, list[tuple[bool, int]]]]) -> None:
    """However late the workers report, and however late the first is itself."""
    workers, sampler = [Worker(pid) for pid in range(3)], Sampler()
    sampler.begin(0, [worker.figures() for worker in workers])
    number, told, counts, seen = 0, 0.0, 0, [worker.figures() for worker in workers]
    for seconds, reports in steps + [(1, [(True, 0)] * 3)] * (4 * len(steps) + 1):
        number += seconds
        for at, (reported, count) in enumerate(reports):
            counts += count
            workers[at].counted["connects"] = workers[at].counted.get("connects", 0) + count
            workers[at].uptime_s = number
            if reported or at == 0:
                seen[at] = workers[at].figures()
        sample = sampler.take(number, {}, seen)
        assert sample[0] == seconds
        told += sample[0] * sample[CONNECTS]
    assert abs(told - counts) < 1e-6
