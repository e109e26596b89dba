"""Ten thousand clients come back within a second, each with messages to catch up on, beside a stream that goes on."""

from __future__ import annotations

import math
import os
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any

from ..load.crew import processes_for
from ..load.dialects import Fastpath
from ..load.drive import Load
from ..load.publishing import PortLoadPublisher
from ..load.sockets import BenchError
from ..load.swarm import Swarm
from ..load.team import GOING, STOP, Post, Team
from ..load.tracks import FrameTrack, Tally
from ..machine.procfs import cpu_ns
from ..scenarios.measure import RunOptions, loaded, pinned, sockets_for
from ..scenarios.scenarios import Plan, Scenario
from ..servers import fastpath_server
from ..servers.fastpath_server import MeasuredServer
from .cost import Say

CLIENTS = 10_000
SUBJECTS = 100
MISSED = 100
WITHIN_SECONDS = 1.0
ROUNDS = 3
PROCESSES = 2

LIVE_CLIENTS = 100
LIVE_PER_S = 100
"""Messages a second of the stream beside the storm, each to all of its clients."""

WATCH_SECONDS = 3.0
"""Seconds for which the stream is watched before and after."""

PATIENCE_SECONDS = 20.0
"""Seconds without a further message after which what is missing counts as lost."""

AWAY, BACK = STOP + 1, STOP + 2
"""Wishes of the parent to the clients' processes besides: all are cut off; all come back."""

ACTIVE, DELIVERED, READY, SLOTS = range(4)

MARKS = {"half_s": 0.5, "most_s": 0.99, "all_s": 1.0}
"""Parts of the messages of which the time is taken."""


def measure(options: RunOptions, say: Say, scale: float = 1.0) -> dict[str, Any]:
    """Measure how fast clients come back; ``scale`` makes fewer clients and rounds of it."""
    clients = max(SUBJECTS, round(CLIENTS * scale))
    team = Team(max(PROCESSES, processes_for(clients)), SLOTS)
    live = Scenario("live", "", LIVE_CLIENTS, SUBJECTS + 1)
    with fastpath_server.sidecar(options.server_core, settings=options.settings) as server:
        try:
            with pinned(options.load_core):
                team.start(lambda post: _clients(post, team.count, clients, server, options))
            dialect = Fastpath(options.form, server.token)
            with loaded(_Live(live), server, dialect, RunOptions(load_core=options.load_core, sample_every=1)) as load:
                storm = Storm(team, load, clients, WATCH_SECONDS * max(0.2, scale))
                _until(storm, lambda: team.total(ACTIVE) == clients, "came up")
                rounds = [storm.round(say, number) for number in range(max(1, round(ROUNDS * scale)))]
            found = team.collect()
        finally:
            team.close()
    return _summary(clients, rounds, found, load.swarm.tally, team.count)


class _Live(Scenario):
    """The scenario of the stream: all of its clients are on the one subject that the others are not on."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(**vars(scenario))

    def plan(self) -> Plan:
        return [[SUBJECTS]] * self.connections


class Milestones:
    """The times at which parts of what is to come had come, counted from the making of this."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._came = 0
        self._begin = self._last = time.monotonic()
        self.marks: dict[str, float] = {}

    @property
    def complete(self) -> bool:
        """True once all has come."""
        return self._came >= self._wanted

    @property
    def text(self) -> str:
        """The progress in words."""
        if self.complete:
            return f"{self.marks['all_s']:.2f} s until all had everything"
        return f"{self._wanted - self._came:,} of {self._wanted:,} messages did not come"

    def over(self, came: int) -> bool:
        """Take note of what came in all; return whether the wait is over though something is missing."""
        moment = time.monotonic()
        if came != self._came:
            self._came, self._last = came, moment
        for name, part in MARKS.items():
            if came >= part * self._wanted:
                self.marks.setdefault(name, moment - self._begin)
        return not self.complete and moment - self._last > PATIENCE_SECONDS


class Storm:
    """Sends the clients away, publishes what they miss, calls them back and watches."""

    def __init__(self, team: Team, load: Load, clients: int, watch_s: float) -> None:
        self.team = team
        self.watch_s = watch_s
        self.load = load
        self.clients = clients
        (outlet,) = load.outlets
        assert isinstance(outlet, PortLoadPublisher)
        self.outlet = outlet
        self._expected = 0

    def round(self, say: Say, number: int) -> dict[str, Any]:
        """Let the clients come back once."""
        self._publish(1)
        self._await("got the first message")
        self.team.want(AWAY)
        _until(self, lambda: self.team.total(READY) == self.team.count, "went away")
        self._publish(MISSED)
        before, calm_cpu, calm = self._watch(self.watch_s)
        began = self.team.total(DELIVERED)
        progress = Milestones(self.clients * MISSED)
        self.team.want(BACK)

        def done() -> bool:
            came = self.team.total(DELIVERED) - began
            return progress.over(came) or (progress.complete and self.team.total(ACTIVE) == self.clients)

        during, cpu, took = self._watch(None, done)
        self.team.want(GOING)
        after, _, _ = self._watch(self.watch_s)
        say(f"recovery: round {number + 1}: {progress.text}")
        missing = self._expected - self.team.total(DELIVERED)
        self._expected -= missing
        spent = cpu - calm_cpu / calm * took
        p99 = {"p99_before_ms": before, "p99_during_ms": during, "p99_after_ms": after}
        return progress.marks | p99 | {"cpu_s": spent, "lost": max(0, missing), "doubled": max(0, -missing)}

    def _publish(self, each: int) -> None:
        """Publish so many on each of the clients' subjects, acknowledged; nobody of the stream's clients reads them."""
        for _ in range(each):
            self.load.when_room()
            self.load.publish(range(SUBJECTS))
            self.load.swarm.poll(0)
        self._expected += self.clients * each
        _until(self, lambda: self.outlet.quiet, "was acknowledged")

    def _await(self, what: str) -> None:
        _until(self, lambda: self.team.total(DELIVERED) >= self._expected, what)

    def _watch(self, seconds: float | None, done: Callable[[], bool] = lambda: False) -> tuple[float, float, float]:
        """Return the stream's p99 in ms, the server's CPU seconds, and how long it was watched; None: until it is
        ``done``."""
        load, swarm = self.load, self.load.swarm
        step = _pace(load)
        swarm.tally.latency.clear()
        swarm.tally.measuring = True
        cpu, begin = cpu_ns(load.pids), time.monotonic()
        while not done() and (seconds is None or time.monotonic() - begin < seconds):
            load.turn(0.02, step)
        cpu, took = cpu_ns(load.pids) - cpu, time.monotonic() - begin
        swarm.tally.measuring = False
        return swarm.tally.latency.summary()["p99_ms"] or 0.0, cpu / 1e9, took


def _pace(load: Load) -> Callable[[], None]:
    """Return what publishes one message of the stream when it is due; its latency is from then."""
    due = time.monotonic_ns()

    def step() -> None:
        nonlocal due
        while due <= time.monotonic_ns():
            load.publish([SUBJECTS], [due])
            due += 1_000_000_000 // LIVE_PER_S
        load.outlets[0].flush()
        load.swarm.poll(min(0.02, max(0.0, (due - time.monotonic_ns()) / 1e9)))

    return step


def _until(storm: Storm, done: Callable[[], bool], what: str) -> None:
    """Go on until ``done`` says so; raise BenchError, or with what a process of the clients says that failed."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        storm.load.turn(0.02)
        if not storm.team.running:
            storm.team.collect()
        if time.monotonic() > end:
            raise BenchError(f"not everybody {what} within {PATIENCE_SECONDS:.0f} s")


# The clients' processes


def _clients(post: Post, processes: int, clients: int, server: MeasuredServer, options: RunOptions) -> dict[str, Any]:
    """Run one process: its part of the clients, who go and come back as the parent wants; one in 20 is read in full."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)  # the stream beside it shares this core, and must not wait for the clients' own work
    mine = range(post.number * clients // processes, (post.number + 1) * clients // processes)
    plan = [[number % SUBJECTS] for number in mine]
    dialect = Fastpath(options.form, server.token)
    swarm = Swarm(
        dialect, sockets_for(server, options.tls), plan, first=1 + mine.start + LIVE_CLIENTS, tracked=range(SUBJECTS)
    )
    swarm.connect(0, lambda swarm: post.tell(ACTIVE, swarm.active))
    preambles: list[bytes] = []
    begin = opened = 0.0
    life_at = time.monotonic() + 1
    while (wanted := post.wanted) != STOP:
        if wanted == AWAY and not preambles:
            preambles = _leave(swarm, dialect)
            begin = opened = 0
            post.tell(READY, 1)
        elif wanted == BACK and opened < len(plan):
            begin = begin or time.monotonic()
            due = min(len(plan), int((time.monotonic() - begin) / WITHIN_SECONDS * len(plan)) + 1)
            for index in range(int(opened), due):
                swarm.open(index, preambles[index])
            opened = due
        elif wanted == GOING and preambles:
            preambles = []
            post.tell(READY, 0)
        swarm.poll(0.005)
        if swarm.faults:
            raise BenchError(f"a client that came back was refused: {swarm.faults[0]}")
        post.tell(ACTIVE, swarm.active)
        post.tell(DELIVERED, swarm.delivered)
        if time.monotonic() > life_at:
            life_at += 1
            swarm.show_life()
    return {
        "tally": swarm.tally.as_json(),
        "sampled": swarm.sampled_count,
        "closed": swarm.closed,
        "cpu_s": time.process_time(),
    }


def _leave(swarm: Swarm, dialect: Fastpath) -> list[bytes]:
    """Cut all clients off; return what each will say when it comes back, with its position.

    Nothing was under way: all clients of a subject stand where the one stands that is read in full.
    """
    positions: dict[str, tuple[int, int]] = {}
    for track in swarm.tracks.values():
        assert isinstance(track, FrameTrack)
        positions.update(track.positions)
        track.reopened()
    swarm.drop(range(len(swarm.plan)))
    names = [[dialect.subject(subject) for subject in subjects] for subjects in swarm.plan]
    return [dialect.preamble(swarm.first + index, some, positions) for index, some in enumerate(names)]


def _summary(
    clients: int, rounds: list[dict[str, Any]], found: list[dict[str, Any]], stream: Tally, processes: int
) -> dict[str, Any]:
    tally = Tally()
    for one in found:
        tally.merge(one["tally"])
    names = (*MARKS, "p99_before_ms", "p99_during_ms", "p99_after_ms", "cpu_s")
    return {
        "clients": clients,
        "missed_each": MISSED,
        "within_s": WITHIN_SECONDS,
        "rounds": len(rounds),
        "processes": processes,
        **{name: round(statistics.median(one.get(name, math.inf) for one in rounds), 3) for name in names},
        "recoveries": tally.recoveries,
        "sampled": sum(one["sampled"] for one in found),
        "closed": sum(one["closed"] for one in found),
        "load_cpu_s": round(sum(one["cpu_s"] for one in found), 2),
        "lost": stream.gaps + max(tally.gaps, sum(one["lost"] for one in rounds)),
        "doubled": stream.doubled + max(tally.doubled, sum(one["doubled"] for one in rounds)),
        "reordered": tally.reordered + stream.reordered + tally.out_of_sequence + stream.out_of_sequence,
    }
