"""What guaranteed delivery and the journal cost: servers beside each other, each measured for moments in turn."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..load.dialects import Fastpath
from ..load.drive import Load, Measured
from ..scenarios.measure import RunOptions, loaded
from ..scenarios.scenarios import SCENARIOS, Scenario
from ..servers import fastpath_server
from ..servers.fastpath_server import MeasuredServer

STARTS = 3
"""Number of times that the servers are started anew, in another order: where a process lies in memory makes some
percent."""

ROUNDS = 6
"""Rounds of each start; F1, whose publications cost next to nothing beside its deliveries, needs more to show that."""

WARMUP_SECONDS = 0.1
BATCH = 100
IN_FLIGHT = 8
FAULTS = ("lost", "doubled", "reordered", "gaps", "out_of_sequence")

VARIANTS: dict[str, dict[str, str]] = {
    "standard": {"delivery": "standard"},
    "guaranteed": {},
    "interval": {"journal": "interval"},
    "batch": {"journal": "batch"},
}
"""The servers by name, with what they are told besides the defaults; the first is what the others are compared with."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A load; its cost is the server's CPU time for a million ``unit``."""

    name: str
    title: str
    scenario: Scenario
    run: Callable[[Load, float], Measured]
    unit: str
    slice_s: float
    rounds: int = ROUNDS


CASES = (
    Case(
        "F1", "one subject, 1000 subscribers, one message on the way", SCENARIOS["F1"],
        lambda load, seconds: load.window(1, WARMUP_SECONDS, seconds), "deliveries", 0.6, 12,
    ),
    Case(
        "F3", "50 clients on the same 100 subjects, 64 on the way", SCENARIOS["F3"],
        lambda load, seconds: load.window(64, WARMUP_SECONDS, seconds), "deliveries", 0.5,
    ),
    Case(
        "publish", "one publisher, batches of 100, 10 subscribers on the same 100 subjects",
        Scenario("publish", "", 10, BATCH, "all"),
        lambda load, seconds: load.batches(BATCH, IN_FLIGHT, WARMUP_SECONDS, seconds), "publications", 0.5,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Rig:
    """A server with its load, connected and subscribed."""

    server: MeasuredServer
    load: Load

    def faults(self) -> int:
        """Return what the rig's subscribers missed, got twice or in the wrong order so far, by those that are read in
        full."""
        tally = self.load.swarm.tally
        return tally.doubled + tally.reordered + tally.gaps + tally.out_of_sequence


@contextlib.contextmanager
def rigs(variants: Mapping[str, dict[str, str]], scenario: Scenario, options: RunOptions) -> Iterator[dict[str, Rig]]:
    """Yield a server and a load for each variant, all of them at the same time."""
    with contextlib.ExitStack() as stack:
        started = {
            name: stack.enter_context(
                fastpath_server.sidecar(
                    options.server_core, workers=options.workers, settings=options.settings | settings
                )
            )
            for name, settings in variants.items()
        }
        found = {}
        for name, server in started.items():
            load = stack.enter_context(loaded(scenario, server, Fastpath(options.form, server.token), options))
            load.barrier()
            found[name] = Rig(server, load)
        yield found


def in_turn(names: list[str], number: int) -> list[str]:
    """Return the order of a round: there and back, so that a machine that gets slower or faster favours nobody."""
    return names if number % 2 == 0 else names[::-1]


def live(found: Mapping[str, Rig], seconds: float) -> None:
    """Have clients that wait for their server's turn go on answering its pings."""
    for rig in found.values():
        for _ in range(max(1, round(seconds))):
            rig.load.swarm.show_life()


CPU_S_MIN = 1e-6
"""Seconds that a slice costs at least: in a very short one the system may have counted nothing yet; ratios need
more."""


def measure(options: RunOptions, say: Say, scale: float = 1.0) -> dict[str, Any]:
    """Measure every case; less than 1, ``scale`` makes fewer starts and rounds, shorter slices and fewer clients of
    it."""
    return {"cases": {case.name: case_of(case, options, say, scale) for case in CASES}}


def case_of(case: Case, options: RunOptions, say: Say, scale: float) -> dict[str, Any]:
    """Measure one case."""
    names = list(VARIANTS)
    costs: dict[str, list[float]] = {name: [] for name in names}
    lost = faults = 0
    starts, rounds = max(1, round(STARTS * scale)), max(2, round(case.rounds * scale))
    scenario = case.scenario.changed({"connections": max(10, round(case.scenario.connections * scale))})
    for start in range(starts):
        order = names[start % len(names) :] + names[: start % len(names)]
        with rigs({name: VARIANTS[name] for name in order}, scenario, options) as found:
            for number in range(rounds):
                for name in in_turn(order, number):
                    measured = case.run(found[name].load, case.slice_s * scale)
                    units = measured.deliveries if case.unit == "deliveries" else measured.published
                    costs[name].append(max(measured.cpu_s, CPU_S_MIN) * 1e6 / max(1, units))
                    lost += measured.lost
                    live(found, measured.duration_s)
            faults += sum(rig.faults() for rig in found.values())
        say(f"cost of {case.name}: start {start + 1} of {starts}")
    return {
        "title": case.title,
        "unit": case.unit,
        "rounds": starts * rounds,
        "lost": lost,
        "faults": faults,
        "variants": {name: _figures(costs[name], costs[names[0]]) for name in names},
    }


def _figures(costs: list[float], compared: list[float]) -> dict[str, Any]:
    """Return the median cost, and the median and the quartiles of the ratios, each to the same round's of the first."""
    low, middle, high = statistics.quantiles(
        [a / b for a, b in zip(costs, compared, strict=True)], n=4, method="inclusive"
    )
    return {
        "cpu_s_per_million": round(statistics.median(costs), 4),
        "ratio": round(middle, 3),
        "ratio_low": round(low, 3),
        "ratio_high": round(high, 3),
    }
