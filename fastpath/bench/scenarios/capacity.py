"""`capacity`: the load at which latency passes a bound or messages are lost, and the machines that N users need."""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Callable
from dataclasses import asdict

from ..machine.processes import open_files_most
from ..report.summary import Run
from .capacity_search import KERNEL_BYTES_PER_CONNECTION, P99_MS_MAX, Plan, Probe, Search, lines, search
from .measure import measure_own
from .run import add_server_arguments, options_of
from .scenarios import SCENARIOS

SCENARIO = "F4"
"""Clients spread over 100 subjects at a fixed rate: the load of many readers, where latency is the server's own."""

Measure = Callable[[int, float], Run]
"""Run the spread scenario with so many clients at so many messages a second for each."""

FILES_LEFT = 600
"""Number of a process's open files that are not for clients."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the search's bounds, and what the estimate assumes."""
    parser.add_argument(
        "--vary",
        choices=("clients", "rate"),
        default="clients",
        help="what is raised: the number of clients at --rate, or the messages a second at --connections",
    )
    parser.add_argument(
        "--rate", type=float, default=1.0, help="messages a second for each client and user (default 1)"
    )
    parser.add_argument("--connections", type=int, default=5000, help="clients when the rate is varied (default 5000)")
    parser.add_argument(
        "--most", type=float, help="the greatest load to try; default: what open files allow, or 1000/s"
    )
    parser.add_argument("--p99-ms", type=float, default=P99_MS_MAX, help="the bound of latency (default 15)")
    parser.add_argument(
        "--precision", type=float, default=0.1, help="end when held and failed are this close (default 0.1)"
    )
    parser.add_argument("--duration", type=float, default=5.0, help="seconds of each measurement (default 5)")
    parser.add_argument("--users", type=int, default=1_000_000, help="users to estimate machines for (default 1000000)")
    parser.add_argument(
        "--cores", type=int, default=os.cpu_count() or 1, help="cores of such a machine (default: of this)"
    )
    parser.add_argument("--headroom", type=float, default=0.3, help="part that stays free (default 0.3)")
    parser.add_argument("--memory-gib", type=float, default=_memory_gib(), help="of such a machine (default: of this)")
    parser.add_argument("--json", action="store_true", help="the outcome as one JSON object in the last line")
    parser.set_defaults(floor="")
    add_server_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search against a sidecar that is started for each measurement; return 1 if no load held."""
    open_files_most()
    options = options_of(arguments)

    def measure(connections: int, rate: float) -> Run:
        changes = {"connections": connections, "rate": rate, "duration_s": arguments.duration}
        one = measure_own(SCENARIOS[SCENARIO].changed(changes), options)
        return one | {"rate": rate, "memory_per_connection_bytes": one["server_memory_bytes"] / connections}

    return find(arguments, measure)


def find(arguments: argparse.Namespace, measure: Measure) -> int:
    """Search, saying each measurement, then the outcome and the estimate; 1 if no load held."""
    runs: dict[float, Run] = {}
    by_clients = arguments.vary == "clients"

    def at(load: float) -> Probe:
        one = measure(round(load), arguments.rate) if by_clients else measure(arguments.connections, load)
        runs[load] = one
        found = probe(one, load)
        verdict = found.fault(arguments.p99_ms) or "holds"
        print(
            f"  {load:>12,.1f}  {found.deliveries_per_s:>12,.0f}/s  p99 {found.p99_ms:>8.2f} ms  {verdict}", flush=True
        )
        return found

    most = arguments.most or (files_max() if by_clients else 1000.0)
    start = min(most, 1000.0 if by_clients else 1.0)
    print(f"{'clients' if by_clients else 'rate':>14}  deliveries", flush=True)
    found = search(at, start, most, p99_ms_max=arguments.p99_ms, precision=arguments.precision)
    for line in outcome(found, arguments):
        print(line)
    plan = estimate(found, runs[found.held.load], arguments) if found.held else None
    if plan is not None:
        print("\n".join(lines(plan)))
    if arguments.json:
        machines = None if plan is None else asdict(plan) | {"machines": plan.machines, "bound": plan.bound}
        print(json.dumps(asdict(found) | {"plan": machines}))
    return 0 if found.held else 1


def probe(run: Run, load: float) -> Probe:
    """Return what a run of the spread scenario says of its load; its ``rate`` is what each client should get a
    second."""
    return Probe(
        load=load,
        p99_ms=float(run["p99_ms"]) if run.get("p99_ms") is not None else float("nan"),
        lost=int(run["lost"]),
        deliveries_per_s=float(run["deliveries_per_s"]),
        expected_per_s=float(run["connections"]) * float(run["rate"]),
    )


def outcome(found: Search, arguments: argparse.Namespace) -> list[str]:
    """Return the capacity in words."""
    what = "clients" if arguments.vary == "clients" else "messages/s a client"
    beside = (
        f"{arguments.rate:g} messages/s a client"
        if arguments.vary == "clients"
        else f"{arguments.connections:,} clients"
    )
    if found.held is None:
        return [f"No load held, not even {found.probes[-1].load:,.1f} {what}: {found.why}. Is the machine busy?"]
    text = [
        f"Held: {found.held.load:,.0f} {what} at {beside}: {found.held.deliveries_per_s:,.0f} deliveries/s, "
        f"p99 {found.held.p99_ms:.2f} ms."
    ]
    if found.failed is None:
        text.append(
            "No load failed: the search ended at the greatest that it may try (--most, or one process's open files), "
            "not at the server's limit. --vary rate with fewer clients finds that."
        )
    else:
        text.append(f"Too much: {found.failed.load:,.0f} {what}: {found.why}.")
    return text


def estimate(found: Search, run: Run, arguments: argparse.Namespace) -> Plan | None:
    """Return the machines for users who get ``--rate`` each, from the deliveries that held; None if no load held.

    A connection's memory is the server's whole memory by its clients, which is more than what one more would take.
    """
    if found.held is None:
        return None
    memory = float(run.get("memory_per_connection_bytes") or 0)
    return Plan(
        users=arguments.users,
        rate=arguments.rate,
        deliveries_per_core_s=found.held.deliveries_per_s,
        connections_per_core_max=files_max(),
        cores=arguments.cores,
        headroom=arguments.headroom,
        bytes_per_connection=memory + KERNEL_BYTES_PER_CONNECTION,
        memory_bytes=arguments.memory_gib * 2**30,
    )


def files_max() -> int:
    """Return how many clients one process may hold here."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] - FILES_LEFT


def _memory_gib() -> float:
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
