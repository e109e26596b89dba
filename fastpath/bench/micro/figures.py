"""What the sidecar's own figures cost: scenarios with FASTPATH_STATISTICS on and off, in turns."""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median

from ..load.sockets import BenchError
from ..machine.processes import open_files_most
from ..scenarios.measure import RunOptions, measure_own
from ..scenarios.run import add_server_arguments, options_of
from ..scenarios.scenarios import SCENARIOS

COST = "server_cpu_s_per_million"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `figures [F1 …] [--repeat N]`."""
    parser.add_argument("scenarios", nargs="*", default=["F1"], metavar="SCENARIO", help="default: F1")
    parser.add_argument("--repeat", type=int, default=7, metavar="N", help="pairs of measurements (default 7)")
    parser.add_argument("--duration", type=float, metavar="S", help="seconds measured, instead of the scenario's own")
    add_server_arguments(parser)
    parser.set_defaults(floor="")  # each is the other's


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print a row of a table for each scenario."""
    open_files_most()
    for name in arguments.scenarios:
        if name not in SCENARIOS:
            raise BenchError(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    options = options_of(arguments)
    print(
        f"| CPU-s per million deliveries, median of {arguments.repeat} | off | on | ratio of the pairs, median | all |"
    )
    print("|---|---|---|---|---|")
    for name in arguments.scenarios:
        changes = {"duration_s": arguments.duration} if arguments.duration else {}
        pairs = [
            _pair(name, changes, options, "off" if number % 2 else "on") for number in range(max(arguments.repeat, 1))
        ]
        ratios = sorted(on / off for off, on in pairs)
        shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
        off, on = (median(costs) for costs in zip(*pairs, strict=True))
        print(
            f"| {name}: {SCENARIOS[name].title} | {off:.3f} | {on:.3f} | {median(ratios):.3f} | {shown} |", flush=True
        )
    return 0


def _pair(name: str, changes: dict[str, float], options: RunOptions, first: str) -> tuple[float, float]:
    """Return the cost without and with figures; which is measured first changes from pair to pair, as a machine warms
    up."""
    costs = {}
    for statistics in (first, "off" if first == "on" else "on"):
        scenario = SCENARIOS[name].changed(changes) if changes else SCENARIOS[name]
        result = measure_own(scenario, replace(options, settings={"statistics": statistics}))
        if result[COST] is None:
            raise BenchError(f"{name} delivered nothing")
        costs[statistics] = float(result[COST])
    return costs["off"], costs["on"]
