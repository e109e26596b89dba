"""F11: some clients stop reading for a while: what the others notice of it, and what becomes of the slow ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..load.dialects import Fastpath
from ..load.drive import Load, Measured
from ..load.latency import LatencyHistogram
from ..load.tracks import FrameTrack
from ..machine.procfs import memory_bytes
from ..servers import fastpath_server
from .measure import RunOptions, loaded
from .result import Result, result
from .scenarios import SCENARIOS, Scenario

STALL_SECONDS = 10.0
RECOVERY_SECONDS_MAX = 60.0


def measure(scenario: Scenario, options: RunOptions) -> Result:
    """Measure with the load of F1; ``f3`` holds the same for that of F3."""
    first = _measure(SCENARIOS["F1"].changed({"connections": scenario.connections}), options)
    second = _measure(SCENARIOS["F3"], options)
    keys = ("p99_ms", "p99_before_ms", "p99_rise_percent", "memory_peak_bytes", "slow_clients", "fates", "gaps", "lost")
    worst = max(first["p99_rise_percent"], second["p99_rise_percent"])
    return first | {
        "scenario": scenario.name,
        "title": scenario.title,
        "p99_rise_f1_percent": first["p99_rise_percent"],
        "p99_rise_f3_percent": second["p99_rise_percent"],
        "p99_rise_percent": worst,
        "lost": first["lost"] + second["lost"],
        "doubled": first["doubled"] + second["doubled"],
        "reordered": first["reordered"] + second["reordered"],
        "out_of_sequence": first["out_of_sequence"] + second["out_of_sequence"],
        "f3": {key: second[key] for key in keys},
    }


def _measure(scenario: Scenario, options: RunOptions) -> Result:
    """Have every twentieth client stall, all of them read in full; the window counts only the deliveries to the
    others."""
    slow = list(range(1, scenario.connections, 20))
    with fastpath_server.sidecar(options.server_core, workers=options.workers, settings=options.settings) as server:
        dialect = Fastpath(options.form, server.token, options=_policy(options))
        with loaded(scenario, server, dialect, options, tracked=slow) as load:
            load.barrier()
            before = load.window(scenario.window, scenario.warmup_s, STALL_SECONDS)
            calm = load.swarm.tally.latency.summary()
            stall = Stall(load, slow)
            during = stall.run(scenario)
            found = result(
                scenario.name, scenario.title, load.swarm, during, server.pids, connections=load.swarm.active
            )
            found |= stall.latency.summary() | stall.outcome()
        shown = server.settings | options.shown
    calm_p99, p99 = calm["p99_ms"] or 0.0, found["p99_ms"] or 0.0
    return found | {
        "lost": before.lost + found["lost"],
        "p99_before_ms": calm_p99,
        "p99_rise_percent": round(100 * (p99 / calm_p99 - 1), 1) if calm_p99 else 0.0,
        "cpu_before_s_per_million": round(before.cpu_s * 1e6 / max(1, before.deliveries), 4),
        "settings": shown,
        "command": options.command,
    }


def _policy(options: RunOptions) -> dict[str, int | str]:
    return {"slow": options.slow} if options.slow else {}


class Stall:
    """One stall: the slow clients leave what is counted, and come back with their positions."""

    def __init__(self, load: Load, slow: Sequence[int], seconds: float = STALL_SECONDS) -> None:
        self.seconds = seconds
        self.load = load
        self.swarm = load.swarm
        self.slow = slow
        self.latency = LatencyHistogram()
        self.memory_peak = 0
        self._fates: dict[str, int] = {}
        self._unrecovered = 0

    def run(self, scenario: Scenario) -> Measured:
        """Stop the slow clients, measure the others, let the slow ones go on or come back until each stands where the
        publisher does."""
        load, swarm = self.load, self.swarm
        swarm.pause(self.slow)
        for index in self.slow:
            swarm.tracks[index].counted = False
            for subject in swarm.plan[index]:
                load.subscribers[subject] -= 1
        load.memory_peak = 0
        during = load.window(scenario.window, 0.5, self.seconds - 0.5)
        summary = swarm.tally.latency.as_json()
        self.latency.merge(summary["items"], summary["max_us"])
        self.memory_peak = max(load.memory_peak, memory_bytes(load.pids))
        closed = swarm.closed
        swarm.resume(self.slow)
        self._recover()
        self._fates["closed and resumed"] = swarm.closed - closed
        self._fates["went on"] = len(self.slow) - (swarm.closed - closed)
        return during

    def outcome(self) -> dict[str, Any]:
        """Return the slow clients' fates and what they were told; ``gaps`` are missing messages that nobody
        announced."""
        tally = self.swarm.tally
        return {
            "slow_clients": len(self.slow),
            "stall_s": self.seconds,
            "memory_peak_bytes": self.memory_peak,
            "fates": self._fates | {"not up to date": self._unrecovered},
            "recoveries": tally.recoveries,
            "notices": tally.notices,
            "announced": tally.announced,
            "gaps": tally.gaps,
            "lost": self._unrecovered,
        }

    def _recover(self) -> None:
        """Read on; who was closed connects again with ``since``. Nothing is published meanwhile."""
        swarm, end = self.swarm, time.monotonic() + RECOVERY_SECONDS_MAX
        behind = list(self.slow)
        while behind and time.monotonic() < end:
            self.load.turn(0.1)
            swarm.come_back([index for index in self.slow if index not in swarm.fds])
            behind = [index for index in behind if not self._current(index)]
        self._unrecovered = len(behind)
        self.load.turn(0.5)

    def _current(self, index: int) -> bool:
        track, numbers = self.swarm.tracks[index], self.load.payloads.numbers
        assert isinstance(track, FrameTrack)
        return index in self.swarm.fds and all(track.newest(s) == numbers[s] for s in self.swarm.plan[index])
