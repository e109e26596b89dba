"""`run`: the scenarios against a sidecar that is started for them, beside the floor if there is one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from ..floor.compiling import FloorError, compiled
from ..load.sockets import BenchError
from ..machine.description import machine
from ..machine.processes import open_files_most
from . import conflating, connecting, crowd, memory, stalling
from .measure import RunOptions, cores, measure_beside
from .result import Result, write
from .scenarios import SCENARIOS, Scenario

MEASURES: dict[str, Callable[[Scenario, RunOptions], Result]] = {
    "F6": conflating.measure,
    "F8": memory.measure,
    "F9": connecting.measure,
    "F10": crowd.measure,
    "F11": stalling.measure,
}
"""The scenarios that are more than one load beside the floor."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run F1 [F2 …|all] [--floor PROGRAM] …`."""
    parser.add_argument("scenarios", nargs="+", metavar="SCENARIO", help=f"{', '.join(SCENARIOS)}, or all")
    parser.add_argument("--json", action="store_true", help="each result as one line of JSON on the standard output")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write all results, a line of JSON each")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="measure each N times (default 1)")
    parser.add_argument("--floor", default="", metavar="PROGRAM", help="the bare C server, or auto: compile it")
    add_server_arguments(parser)
    parser.add_argument("--slow", choices=("close", "conflate"), default="", help="what F11's subscriptions ask for")
    parser.add_argument("--connections", type=int, metavar="N", help="instead of the scenario's own number")
    parser.add_argument("--duration", type=float, metavar="S", help="seconds measured, instead of the scenario's own")


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that `compare` and `capacity` take as well."""
    parser.add_argument(
        "--form",
        choices=("json", "msgpack", "sse", "stream"),
        default="json",
        help="of the WebSockets, or events, or sessions over HTTP (default json)",
    )
    parser.add_argument("--publish-via", choices=("port", "ws"), default="", help="publisher port or WebSocket")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="FASTPATH_WORKERS of the sidecar")
    parser.add_argument("--tls", action="store_true", help="subscribers over TLS")
    parser.add_argument("--server-core", type=int, metavar="N", help="the server's CPU core (default the first)")
    parser.add_argument("--load-core", type=int, metavar="N", help="the generator's CPU core (default the second)")
    parser.add_argument("--sample", type=int, default=20, metavar="N", help="read one connection in N in full (20)")


def options_of(arguments: argparse.Namespace) -> RunOptions:
    """Return the options of a command line."""
    server_core, load_core = cores(arguments.server_core, arguments.load_core)
    if not 1 <= arguments.sample <= 20:
        raise BenchError("--sample is 1 (every connection) to 20: at least one in 20 is read in full")
    return RunOptions(
        form=arguments.form,
        publish_via=arguments.publish_via,
        workers=arguments.workers,
        tls=arguments.tls,
        server_core=server_core,
        load_core=load_core,
        sample_every=arguments.sample,
        floor=_floor(arguments.floor),
        slow=getattr(arguments, "slow", ""),
        command="python -m fastpath.bench " + " ".join(sys.argv[1:]),
    )


def _floor(program: str) -> str:
    """Return the program; with ``auto`` ours, or none where it cannot be compiled, which is said."""
    if program != "auto":
        return program
    try:
        return compiled()
    except FloorError as error:
        print(f"without the floor: {error}", file=sys.stderr)
        return ""


HIDDEN = ("scenario", "title", "settings", "command", "server_pids", "form", "machine")


def text(one: Result) -> str:
    """Return a result for people: each figure on a line."""
    lines = [f"{one['scenario']}: {one['title']} ({one['form']})"]
    for name, value in one.items():
        if name not in HIDDEN:
            shown = f"{value:,}" if isinstance(value, int | float) else "–" if value is None else str(value)
            lines.append(f"  {name.replace('_', ' '):<32} {shown}")
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    """Measure; 1 when messages were lost, doubled or out of order."""
    open_files_most()
    names = list(SCENARIOS) if "all" in arguments.scenarios else arguments.scenarios
    for name in names:
        if name not in SCENARIOS:
            raise BenchError(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}, and all")
    options = options_of(arguments)
    results: list[Result] = []
    for name in names:
        scenario = SCENARIOS[name]
        if arguments.connections:
            scenario = scenario.changed({"connections": arguments.connections})
        if arguments.duration:
            scenario = scenario.changed({"duration_s": arguments.duration})
        for _ in range(arguments.repeat):
            one = MEASURES.get(name, measure_beside)(scenario, options) | {"machine": machine()}
            results.append(one)
            print(json.dumps(one) if arguments.json else text(one), flush=True)
            if arguments.output:
                write(arguments.output, results)
    return int(any(one.get(key) for one in results for key in ("lost", "doubled", "reordered")))
