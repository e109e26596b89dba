"""Which worker hangs, as a table: what each of them does from some second on, and what the judge says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.server.hangs import LOOK_SECONDS, REPLACED_SECONDS, SILENT_SECONDS, HangVerdict, Judge, Work

HANG = 10.0
BEATS, SPINS, STANDS, STARVES, CREEPS = "beats", "spins", "stands", "starves", "creeps"
"""Well; in an endless loop; blocked or stopped; runnable and without a CPU; with one for a quarter of the time."""

SHARE = {BEATS: 0.1, SPINS: 1.0, STANDS: 0.0, STARVES: 0.0, CREEPS: 0.25}


class Machine:
    """Workers that do what ``does`` says of a number and a second; the parent looks after each of ``steps`` seconds."""

    def __init__(self, count: int, does: Callable[[int, float], str], hang: float = HANG, waits: bool = True) -> None:
        self.moment = 0.0
        self.judge = Judge(hang, self.moment)
        self.said: list[tuple[float, HangVerdict, int]] = []
        self._does = does
        self._waits = waits
        self._ran = dict.fromkeys(range(count), 0.0)
        self._waited = dict.fromkeys(range(count), 0.0)
        self._beat = dict.fromkeys(range(count), 0.0)
        self._used = dict.fromkeys(range(count), 0.0)
        self._stood = dict.fromkeys(range(count), 0.0)
        self.killed: list[tuple[float, float, list[float]]] = []
        """What each that was killed had used, and stood still, since its last beat; how long the others were silent."""
        for number in range(count):
            self.judge.begin(number)

    def run(self, steps: Iterable[float]) -> list[tuple[HangVerdict, int]]:
        """What was said; a worker that is killed is replaced 2 s later, and beats then."""
        replaced: dict[int, float] = {}
        for step in steps:
            end = self.moment + step
            while self.moment < end - 1e-6:
                lived = min(0.25, end - self.moment)
                self.moment += lived
                for number in self._ran:
                    self._live(number, lived)
            works = {number: self._work(number) for number in self.judge.silent}
            for verdict, number, _ in self.judge.look(self.moment, works):
                self.said.append((round(self.moment, 2), verdict, number))
                if verdict is HangVerdict.KILL:
                    del self._ran[number]
                    others = [self.moment - self._beat[other] for other in self._ran]
                    self.killed.append((self._used[number], self._stood[number], others))
                    replaced[number] = self.moment + 2
            for number in [number for number, at in replaced.items() if self.moment >= at]:
                del replaced[number]
                self._ran[number], self._beat[number] = 0.0, self.moment
                self.judge.begin(number)
        return [(verdict, number) for _, verdict, number in self.said]

    def _live(self, number: int, step: float) -> None:
        what = self._does(number, self.moment)
        self._ran[number] += SHARE[what] * step
        self._used[number] += SHARE[what] * step
        self._stood[number] += step if what == STANDS else 0
        if what in (STARVES, CREEPS):
            self._waited[number] += (1 - SHARE[what]) * step
        if what == BEATS and self.moment - self._beat[number] >= 1:
            self._beat[number] = self.moment
            self._used[number] = self._stood[number] = 0.0
            self.judge.heard(number)

    def _work(self, number: int) -> Work:
        runnable = self._does(number, self.moment) in (SPINS, STARVES, CREEPS)
        return Work(self._ran[number], self._waited[number] if self._waits else 0.0, runnable)


def looks(seconds: float, pause: float = LOOK_SECONDS) -> list[float]:
    """As often as the parent looks in so many seconds."""
    return [pause] * round(seconds / pause)


def one(what: str) -> Callable[[int, float], str]:
    """Worker 1 does that from the fifth second on."""
    return lambda number, moment: what if number == 1 and moment >= 5 else BEATS


def all_of(what: str, end: float = 1e9) -> Callable[[int, float], str]:
    """All do, until some second."""
    return lambda number, moment: what if 5 <= moment < end else BEATS


@pytest.mark.parametrize("what", [SPINS, STANDS])
@pytest.mark.parametrize("waits", [True, False])
def test_one_that_hangs_is_asked_and_killed(what: str, waits: bool) -> None:
    machine = Machine(3, lambda number, moment: what if number == 1 and 5 <= moment < 17 else BEATS, waits=waits)
    assert machine.run(looks(60)) == [(HangVerdict.HANGS, 1), (HangVerdict.KILL, 1)]
    asked, killed = (moment for moment, *_ in machine.said)
    assert HANG - LOOK_SECONDS <= asked - 4 <= HANG + 1, "its last beat was at 4 s"
    assert 1 <= killed - asked <= 1.5


def test_one_that_goes_on_is_left_alone() -> None:
    machine = Machine(2, lambda number, moment: STANDS if number == 1 and 5 <= moment < 13 else BEATS)
    assert machine.run(looks(60)) == []


@pytest.mark.parametrize("waits", [True, False])
def test_one_that_is_starved_is_told_of_once_and_never_killed(waits: bool) -> None:
    assert Machine(2, one(STARVES), waits=waits).run(looks(600)) == [(HangVerdict.STARVED, 1)]


def test_one_that_gets_little_and_never_beats_hangs_once_it_has_had_enough() -> None:
    machine = Machine(2, lambda number, moment: CREEPS if number == 1 and 5 <= moment < 45 else BEATS)
    assert machine.run(looks(60)) == [(HangVerdict.STARVED, 1), (HangVerdict.HANGS, 1), (HangVerdict.KILL, 1)]
    assert machine.said[-1][0] > 5 + (HANG - 1.5) / SHARE[CREEPS], "by its own time, not the wall's"


@pytest.mark.parametrize("count", [2, 8, 53])
@pytest.mark.parametrize("what", [STANDS, STARVES])
def test_several_at_once_are_the_machine(count: int, what: str) -> None:
    said = Machine(count, all_of(what)).run(looks(300))
    assert {verdict for verdict, _ in said} <= {HangVerdict.MACHINE, HangVerdict.STARVED}
    assert {number for verdict, number in said if verdict is HangVerdict.MACHINE} == set(range(count))
    assert len(said) == len(set(said)), "each is told of once"


def test_the_last_one_that_comes_back_is_judged_from_then_on() -> None:
    machine = Machine(4, lambda number, moment: STANDS if 5 <= moment < (45 if number else 53) else BEATS)
    assert HangVerdict.HANGS not in {verdict for verdict, _ in machine.run(looks(100))}


def test_some_of_many_are_the_machine_too() -> None:
    machine = Machine(53, lambda number, moment: STARVES if number < 22 and moment >= 5 else BEATS)
    assert HangVerdict.KILL not in {verdict for verdict, _ in machine.run(looks(120))}


def test_endless_loops_end_one_after_the_other() -> None:
    """No machine makes a worker use that much: but each of them is judged anew when the one before it is replaced."""
    killed: list[float] = []

    def does(number: int, moment: float) -> str:
        times = [at for at, verdict, one in machine.said if verdict is HangVerdict.KILL and one == number]
        return BEATS if times else SPINS

    machine = Machine(3, does)
    machine.run(looks(120))
    killed = [at for at, verdict, _ in machine.said if verdict is HangVerdict.KILL]
    assert len(killed) == 3
    assert all(after - before >= HANG for before, after in pairwise(killed))


def test_a_replacement_that_never_serves_does_not_hold_up_the_others_for_ever() -> None:
    judge, ran = Judge(HANG, 0.0), 0.0
    for number in range(2):
        judge.begin(number)
    killed = []
    for count in range(1, 400):
        ran += LOOK_SECONDS
        works = {number: Work(ran, 0.0, True) for number in judge.silent}
        killed += [
            (number, count * LOOK_SECONDS)
            for verdict, number, _ in judge.look(count * LOOK_SECONDS, works)
            if verdict is HangVerdict.KILL
        ]
    assert [number for number, _ in killed] == [0, 1]
    assert killed[1][1] - killed[0][1] >= REPLACED_SECONDS


@pytest.mark.parametrize("pause", [0.6, 3.0, 60.0])
def test_a_parent_that_does_not_run_itself_blames_nobody_for_standing_still(pause: float) -> None:
    assert Machine(2, one(STANDS)).run([*looks(5), *looks(40 * pause, pause)]) == []


def test_a_parent_that_was_suspended_counts_on_from_where_it_was() -> None:
    machine = Machine(2, lambda number, moment: STANDS if number == 1 and moment < 3600 + 16 else BEATS)
    assert machine.run([*looks(4), 3600.0, *looks(4)]) == []
    assert machine.run(looks(30)) == [(HangVerdict.HANGS, 1), (HangVerdict.KILL, 1)]


def test_without_proc_the_time_the_parent_was_awake_counts() -> None:
    judge = Judge(HANG, 0.0)
    judge.begin(0)
    found = []
    for count in range(1, 50):
        found += [(verdict, count * LOOK_SECONDS) for verdict, *_ in judge.look(count * LOOK_SECONDS, {0: None})]
    assert [verdict for verdict, _ in found] == [HangVerdict.HANGS, HangVerdict.KILL]
    assert 10 <= found[0][1] <= 11


def test_nobody_is_judged_where_0_seconds_are_too_much() -> None:
    assert Machine(2, one(SPINS), hang=0).run(looks(100)) == []


BEHAVIOURS = st.lists(
    st.tuples(st.sampled_from([BEATS, STANDS, STARVES, CREEPS, SPINS]), st.integers(1, 40)), min_size=1, max_size=6
)


STEPS = st.lists(st.tuples(st.sampled_from([0.25, 0.3, 1.0, 7.0]), st.integers(1, 200)), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.lists(BEHAVIOURS, min_size=1, max_size=5), STEPS)
def test_whoever_is_killed_had_the_time_and_was_the_only_one(
    scripts: list[list[tuple[str, int]]], steps: list[tuple[float, int]]
) -> None:
    """Whatever happens: HANG seconds of its own since its last beat, with ten of them between two that are killed."""

    def does(number: int, moment: float) -> str:
        for what, seconds in scripts[number]:
            moment -= seconds
            if moment < 0:
                return what
        return BEATS

    machine = Machine(len(scripts), does)
    machine.run(step for step, count in steps for _ in range(count))
    kills = [at for at, verdict, _ in machine.said if verdict is HangVerdict.KILL]
    assert all(later - earlier >= HANG - SILENT_SECONDS for earlier, later in pairwise(kills))
    for used, stood, others in machine.killed:
        assert used + stood >= HANG - SILENT_SECONDS
        assert used >= HANG - SILENT_SECONDS or not any(silent > HANG / 2 for silent in others)
