"""The collector with its database: restarted, two at once, with a clock that jumps, over 15 months."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

import pytest
from django.db import connection

from fastpath.core.telemetry.samples import ROWS_MAX
from realtime.models import StatisticsBucket, StatisticsState
from realtime.stats import read, store
from realtime.stats.collector import Clock, Collector
from realtime.stats.store import Store
from realtime.stats.windows import DAY, KEPT, MINUTE, WINDOWS
from tests.support.realtime.told import Told
from tests.support.realtime.windows import check

pytestmark = pytest.mark.django_db

START = int(datetime(2026, 3, 4, 23, 50, 30, tzinfo=UTC).timestamp())


@dataclass
class TestClock:
    """Both clocks of a collector; ``jump`` is by how much the one on the wall was set."""

    __test__ = False

    moment: float = 0.0
    jump: float = 0.0

    def clock(self) -> Clock:
        return Clock(lambda: START + self.moment + self.jump, lambda: self.moment)


def collector(clock: TestClock, *nodes: str) -> Collector:
    return Collector(nodes or ("a",), Store(), clock.clock())


def a_round(one: Collector, clock: TestClock, **nodes: Told) -> bool:
    """What the service does each second; whether it is still this one that collects."""
    one.follow_clock()
    more, moment = True, clock.moment
    while more:
        told = [one.take(name, node.answer(moment, one.timeline.wanted(name)), moment) for name, node in nodes.items()]
        more = max(told) >= ROWS_MAX
        if not one.close():
            return False
    return True


def counted(window: str = "15min", name: str = "connections") -> tuple[float, float]:
    """How many samples the database holds of a window, and their sum; by way of what readers read."""
    state = StatisticsState.objects.get()
    sums = store.load("default", state.names).sums(window, name, state.through + 1)
    return (sums[0], round(sums[0] * sums[1], 6)) if sums[0] else (0, 0)


def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def killed(number: int) -> None:
    """The collector that holds the lease is no more."""
    state = StatisticsState.objects.get()
    state.holder = state.holder.replace(f" {os.getpid()} ", f" {number} ")
    state.save()


def test_one_that_was_killed_is_followed_by_one_that_counts_all_once() -> None:
    """What was not saved is read again from the nodes, in the same seconds."""
    clock, node, gone = TestClock(), Told(), dead()
    for restart in range(3):
        one = collector(clock)
        assert one.begin()
        for _ in range(5):
            clock.moment += 1.1  # a round may take longer
            node.sample(clock.moment // 1, connections=1)
            assert a_round(one, clock, a=node)
        if restart < 2:
            killed(gone)
    one.end()
    assert counted() == (len({row[0] for row in node.rows}),) * 2
    assert StatisticsState.objects.get().holder == ""


def test_one_that_was_away_fills_in_from_the_nodes() -> None:
    """Ten minutes later."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    for moment in range(1, 700):
        node.sample(moment, connections=moment)
    clock.moment = 20
    a_round(one, clock, a=Told(rows=node.rows[:20]))
    one.end()
    clock.moment = 699
    two = collector(clock)
    assert two.begin()
    a_round(two, clock, a=node)
    two.end()
    assert counted() == (699, sum(range(700)))
    node.sample(5000, connections=1)
    clock.moment = 5000
    three = collector(clock)
    assert three.begin()
    a_round(three, clock, a=node)
    three.end()
    assert StatisticsBucket.objects.filter(size=1).count() == 1, "what no window reaches is deleted"


def test_of_two_one_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other takes over when the first saves nothing any more, which then adds nothing more."""
    clock, node = TestClock(), Told()
    one, two = collector(clock), collector(clock)
    assert one.begin()
    assert not two.begin()
    node.sample(1, connections=5)
    clock.moment = 3
    assert a_round(one, clock, a=node)
    assert not two.begin(), "the first lives: it has saved"
    monkeypatch.setattr(store, "LEASE_SECONDS", -1)
    assert two.begin()
    for moment in (2, 3, 4):
        node.sample(moment, connections=5)
    clock.moment = 6
    assert not a_round(one, clock, a=node), "it has lost the lease"
    assert a_round(two, clock, a=node)
    assert counted() == (4, 20)
    one.end()
    assert StatisticsState.objects.get().holder != "", "the second still holds it"


def test_one_that_saves_in_the_very_moment_is_not_replaced() -> None:
    """Between the look at who holds the lease and taking it."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()

    class Hasty(Store):
        """Takes the one that lives for dead."""

        def _free(self, state: StatisticsState) -> bool:
            assert one.save()
            return True

    assert not Collector(["a"], Hasty(), clock.clock()).begin()
    clock.moment = 3
    assert a_round(one, clock, a=node)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and saved when it answers again."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    before = StatisticsState.objects.get().through
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE realtime_statisticsbucket RENAME TO elsewhere")
    try:
        for moment in range(1, 9):
            clock.moment = moment
            node.sample(moment, connections=1)
            assert a_round(one, clock, a=node)
        assert StatisticsState.objects.get().through == before, "how far it goes is saved with what it found"
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO realtime_statisticsbucket")
    one.end()
    assert counted() == (8, 8)
    [message] = [record.message for record in caplog.records if "cannot be saved" in record.message]
    assert message.startswith("the statistics cannot be saved: ")
    assert "realtime_statisticsbucket" in message, "as the database says it"
    assert message.endswith("; trying again")


@pytest.mark.parametrize("jump", [-40.0, 5000.0, -40.0 * DAY])
def test_a_clock_that_jumps_takes_the_history_with_it(jump: float) -> None:
    """The windows say the same as without the jump, to the bucket that was running."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    for moment in range(1, 50):
        if moment == 25:
            clock.jump = jump
        clock.moment = moment
        node.sample(moment, connections=moment)
        assert a_round(one, clock, a=node)
    one.end()
    for window in WINDOWS:
        assert counted(window) == (49, sum(range(50))), window
    [newest] = StatisticsBucket.objects.filter(size=1).order_by("-number")[:1]
    assert abs(newest.number - (START + 48 + jump)) <= 1


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_is_set_while_an_answer_is_on_its_way(jump: float) -> None:
    """Between a node's answer and the look at it: what comes after goes on in the next second."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    for moment in range(1, 60):
        clock.moment = moment
        node.sample(moment, connections=moment)
        if moment == 20:
            answer = node.answer(moment, one.timeline.wanted("a"))
            clock.jump = jump
            one.follow_clock()
            one.take("a", answer, moment)
            assert one.close()
        else:
            assert a_round(one, clock, a=node)
    one.end()
    assert counted() == (59, sum(range(60)))
    assert abs(StatisticsState.objects.get().through - (START + 59 + jump)) <= 2


@pytest.mark.parametrize("step", [-1.4, -0.8, 1.4])
def test_a_clock_that_is_set_by_little_again_and_again(step: float) -> None:
    """No sample is missing, and the history does not stay behind."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    for moment in range(1, 300):
        clock.moment = moment + 0.4
        clock.jump = moment // 30 * step
        node.sample(moment, connections=1)
        assert a_round(one, clock, a=node)
    one.end()
    assert counted() == (299, 299)
    assert abs(StatisticsState.objects.get().through + 1 - (START + clock.moment + clock.jump)) <= 2


@pytest.mark.parametrize("jump", [-30.0, -3600.0, 600.0, -1.0])
def test_a_clock_that_was_set_while_nobody_collected(jump: float) -> None:
    """What a node kept says by how much: what it told before stays as long before what it tells now."""
    clock, node, other = TestClock(), Told(), Told(server="b")
    one = collector(clock, "a", "b")
    assert one.begin()
    for moment in range(1, 300):
        clock.moment = moment
        node.sample(moment, connections=1)
        other.sample(moment, connections=2)
        a_round(one, clock, a=node, b=other)
    one.end()
    for moment in range(300, 400):
        node.sample(moment, connections=1)
        other.sample(moment, connections=2)
    clock.moment, clock.jump = 399, jump
    two = collector(clock, "a", "b")
    assert two.begin()
    a_round(two, clock, a=node, b=other)
    two.end()
    assert counted() == (399, 3 * 399)
    assert abs(StatisticsState.objects.get().through - (START + 399 + jump)) <= 2


def test_a_node_whose_machine_slept_is_no_clock_that_was_set() -> None:
    """What the other nodes and those before have told stays where it is, while the collector goes on."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    for moment in range(1, 40):
        clock.moment = moment if moment < 20 else moment + 500
        node.clock = 5000.0 if moment < 20 else 4500.0
        node.sample(clock.moment, connections=1)
        a_round(one, clock, a=node)
    one.end()
    assert counted() == (39, 39)
    [oldest] = StatisticsBucket.objects.filter(size=1).order_by("number")[:1]
    assert oldest.number == START


def test_a_clock_that_was_set_back_while_nobody_collected() -> None:
    """The history ends now, and not in what is to come."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    node.sample(1, connections=1)
    clock.moment = 1
    a_round(one, clock, a=node)
    one.end()
    clock.jump = -7000.0
    two = collector(clock)
    assert two.begin()
    for moment in (2, 3, 4):
        clock.moment = moment
        node.sample(moment, connections=1)
        assert a_round(two, clock, a=node)
    two.end()
    assert counted("1h") == (4, 4)
    assert abs(StatisticsState.objects.get().through - (START + 4 - 7000)) <= 2


def test_a_version_with_other_names_goes_on_with_what_there_is() -> None:
    """Also where they stand in another order; names that are new begin with nothing."""
    clock, node = TestClock(), Told()
    one = collector(clock)
    assert one.begin()
    node.sample(1, connections=3, subjects=4, publishers=5)
    clock.moment = 1
    a_round(one, clock, a=node)
    one.end()
    state = StatisticsState.objects.get()
    other = {"subjects": "connections", "connections": "an_old_one", "publishers": "subjects"}
    state.names = [other.get(name, name) for name in state.names]
    state.save()
    two = collector(clock)
    assert two.begin()
    two.end()
    assert tuple(StatisticsState.objects.get().names) == KEPT
    found = {name: counted(name=name) for name in ("connections", "subjects", "publishers")}
    assert found == {"connections": (1, 4), "subjects": (1, 5), "publishers": (0, 0)}


@pytest.mark.slow
def test_fifteen_months_with_restarts_are_what_all_their_samples_say() -> None:
    """A sample every six minutes, each second of the last twenty minutes; saved, killed and begun again on the way."""
    clock, node, gone, chance = TestClock(), Told(), dead(), random.Random(6)
    end = 460 * DAY
    moments = [*range(6 * MINUTE, end - 20 * MINUTE, 6 * MINUTE), *range(end - 20 * MINUTE, end)]
    samples = []
    for moment in moments:
        told = {"connections": chance.randrange(1_000_000), "bytes_in_per_s": chance.expovariate(1e-9)}
        node.sample(moment, **told)
        samples.append((START + moment - 1, told))
    rows, restarts = node.rows, 0
    one = collector(clock)
    assert one.begin()
    for at in range(0, len(rows), 300):
        node.rows = rows[: at + 300]
        clock.moment = moments[len(node.rows) - 1] + 0.4
        assert a_round(one, clock, a=node)
        if chance.random() < 0.02:
            restarts += 1
            if chance.random() < 0.5:
                one.end()
            else:
                killed(gone)
            one = collector(clock)
            assert one.begin()
    one.end()
    assert restarts > 3
    state = StatisticsState.objects.get()
    history = store.load("default", state.names)
    assert isfinite(history.sums("15mo", "connections", state.through + 1)[1])
    assert state.through == samples[-1][0]
    check(history, samples, state.through + 1)
    assert StatisticsBucket.objects.count() <= 2700


def test_readers_see_what_was_saved_and_nothing_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody collects the windows end with the newest second; else they end now."""
    clock, node = TestClock(), Told()
    assert read.newest()["connections"]["15mo"]["maximum"] is None, "before the first sample"
    assert read.series(["connections"], "1h")["connections"]["average"] == [None] * 61
    one = collector(clock)
    assert one.begin()
    for moment in range(1, 6):
        node.sample(moment, connections=moment, connections_per_s=2)
    clock.moment = 5
    a_round(one, clock, a=node)
    one.end()
    monkeypatch.setattr(read.time, "time", lambda: START + 5.0)
    assert read.newest()["connections"]["1min"] == {"maximum": 5, "average": 3, "deviation": pytest.approx(2**0.5)}
    told = read.series(["connections", "connections_per_s"], "1min")
    assert (len(told["t"]), told["t"][-1]) == (60, 1000 * (START + 4))
    assert told["connections"]["average"][-6:] == [None, 1, 2, 3, 4, 5]
    assert (told["connections_per_s"]["total"], told["connections_per_s"]["sampled"], told["seconds"]) == (10, 5, 60)
    assert "total" not in told["connections"]
    monkeypatch.setattr(read.time, "time", lambda: START + 1000.0)
    assert read.newest()["connections"]["5min"]["maximum"] is None
    assert read.newest()["connections"]["1h"]["maximum"] == 5
    later = read.series(["connections_per_s"], "1h")
    assert later["connections_per_s"]["sampled"] == 5
    assert later["seconds"] == 3600 + (START + 1000) % 60, "60 minutes, and what has gone of the one that runs"
    with pytest.raises(read.UnknownName, match="no indicator 'x': connections, "):
        read.newest(["x"])
    with pytest.raises(read.UnknownName, match="no window '2h': 1min, "):
        read.series(["connections"], "2h")
