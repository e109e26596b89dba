"""`compare`: the same scenarios against ours and against other servers, one after the other in the same run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fastpath.core.protocol.errors import FastpathError

from ..load.dialects import Dialect, Fastpath, PeerAdapter
from ..load.peer_dialects import DIALECTS
from ..machine.processes import open_files_most
from ..machine.procfs import memory_bytes
from ..report import documents, tables
from ..report.summary import OURS, Run, rows
from ..servers import fastpath_server, peers
from .measure import RunOptions, loaded, measure_floor
from .measure import run as run_load
from .result import beside, lines, write
from .run import add_server_arguments, options_of
from .scenarios import SCENARIOS as ALL_SCENARIOS
from .scenarios import Scenario

SCENARIOS = ("F1", "F2", "F3", "F5")
"""Scenarios that every server can do: plain subjects, one publisher; the others need conflation, pairs or our
figures."""

SLOW: dict[str, dict[str, Any]] = {
    "F1": {"connections": 100},
    "F2": {"connections": 100, "window": 4},
    "F3": {"window": 4},
    "F5": {"connections": 100, "window": 16},
}
"""Changes by which a scenario is cut down for a server that takes a hundredth of the load: else its window alone would
take longer to deliver than the measurement lasts."""

Measure = Callable[[str, "peers.Running | None", dict[str, Any]], Run]
"""Run one scenario against a peer, or with None against ours and perhaps the floor, with changes to its size."""


class CompareError(FastpathError):
    """A peer or scenario that does not exist was asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compare [SCENARIO …] [--peers A,B] [--output FILE] [--json]`."""
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {' '.join(SCENARIOS)}; default all")
    parser.add_argument("--peers", default="", metavar="A,B", help=f"of {','.join(peers.PEERS)}; default all")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the results, for `report`")
    parser.add_argument("--json", action="store_true", help="each result as one line of JSON, last of all")
    parser.add_argument("--floor", default="", metavar="PROGRAM", help="the bare C server beside ours, or auto")
    parser.add_argument("--duration", type=float, default=5.0, metavar="S", help="seconds of each measurement (5)")
    add_server_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table as it grows, and write the results. Raises CompareError for a scenario that others cannot do."""
    names = arguments.scenarios or list(SCENARIOS)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise CompareError(f"{', '.join(unknown)}: the other servers can only be given {', '.join(SCENARIOS)}")
    open_files_most()
    options = options_of(arguments)

    def measure(name: str, running: peers.Running | None, changes: dict[str, Any]) -> Run:
        scenario = ALL_SCENARIOS[name].changed(changes | {"duration_s": arguments.duration})
        return measure_ours(scenario, options) if running is None else measure_other(scenario, running, options)

    def say(text: str) -> None:
        print(text, flush=True)

    runs: list[Run] = []
    for one in compare(names, chosen(arguments.peers), measure, options.server_core, say):
        runs.append(one)
        if arguments.output is not None:
            write(arguments.output, runs)
    if arguments.json:
        print(lines(runs), end="")
    return 0


def measure_ours(scenario: Scenario, options: RunOptions) -> Run:
    """Measure the sidecar, and the floor beside it if there is one."""
    with fastpath_server.sidecar(
        options.server_core, workers=options.workers, tls=options.tls, settings=options.settings
    ) as server:
        own = measure_server(scenario, server, Fastpath(options.form, server.token), options)
    if not options.floor:
        return own
    return beside(own, measure_floor(scenario, options), options.floor, scenario.coalesces)


def measure_other(scenario: Scenario, running: peers.Running, options: RunOptions) -> Run:
    """Measure a peer; where a publishing connection is bound to one subject, there is one for each."""
    dialect = DIALECTS[running.peer.dialect]()
    if dialect.publisher_per_subject:
        scenario = scenario.changed({"pairs": True})
    server = fastpath_server.MeasuredServer(running.peer.name, "127.0.0.1", running.port, running.pids)
    return measure_server(scenario, server, PeerAdapter(dialect), options)


def measure_server(
    scenario: Scenario, server: fastpath_server.MeasuredServer, dialect: Dialect, options: RunOptions
) -> Run:
    """Measure a server that runs.

    The memory of a connection is what connecting and subscribing added, before anything is sent.
    """
    before = memory_bytes(server.pids)
    with loaded(scenario, server, dialect, options) as load:
        added = max(0, memory_bytes(server.pids) - before)
        one = run_load(scenario, load)
    return one | {
        "memory_per_connection_bytes": round(added / max(1, one["connections"])),
        "settings": server.settings | options.shown,
        "command": options.command,
    }


def chosen(names: str) -> list[peers.Peer]:
    """Return the peers of a comma-separated list; empty means all. Raises CompareError naming those that exist."""
    wanted = [name for name in names.split(",") if name] or list(peers.PEERS)
    for name in wanted:
        if name not in peers.PEERS:
            raise CompareError(f"no peer {name!r}; there are {', '.join(peers.PEERS)}")
    return [peers.PEERS[name] for name in wanted]


def compare(
    scenarios: Sequence[str],
    others: Sequence[peers.Peer],
    measure: Measure,
    core: int | None,
    say: Callable[[str], None],
) -> Iterator[Run]:
    """Measure each scenario with ours and then each peer, and say each line of the table as soon as it is known.

    A peer that is not installed, does not start, or breaks down while it is measured gets its line in words; the
    others go on. Yields the results of those that were measured, each with ``peer``.
    """
    for peer in others:
        missing = peer.missing()
        if missing:
            say(peers.word(peer, missing))
    present = [peer for peer in others if not peer.missing()]
    for scenario in scenarios:
        own = measure(scenario, None, {}) | {"peer": OURS}
        (ours,) = rows([own])
        own_cost = ours.value("server_cpu_s_per_million")
        say(f"\n{scenario}: {own.get('title', '')}\n")
        floor = tables.floor_line(ours, own_cost)
        say(documents.markdown([tables.COMPARED, *floor, tables.compared_line(ours, own_cost)]))
        yield own
        for peer in present:
            try:
                with peers.run(peer, core) as running:
                    one = measure(scenario, running, SLOW.get(scenario, {}) if peer.slow else {})
            except (FastpathError, OSError, TimeoutError) as error:
                say(f"{peer.title}: not measured, {error}")
                continue
            one = one | {"peer": peer.name}
            say(documents.row(tables.compared_line(rows([one])[0], own_cost)))
            yield one
