"""The fault of a machine that is short of CPU: a node's processes share a hundredth of a core for half a minute."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from .model import Verdict
from .stage import Node, Stage
from .table import Fault

STARVED_SECONDS = 30.0
SHARE = 0.01
ROUND_SECONDS = 1.0

LOST_WORDS = ("worker killed", "restarting it", "ping_timeout", "handshake_timeout")
"""Of the log of a node, none of which may stand in it."""


def pids(node: Node) -> list[int]:
    """The node's processes, the parent first."""
    ready = node.sidecar.ready
    return [ready["pid"], *ready.get("workers", [])]


def starve(processes: list[int], seconds: float) -> None:
    """Stop all of them, and let one after the other run for its share of each round: that needs no rights, anywhere."""
    end = time.monotonic() + seconds
    run = ROUND_SECONDS * SHARE / len(processes)
    try:
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        while time.monotonic() < end:
            for pid in processes:
                os.kill(pid, signal.SIGCONT)
                time.sleep(run)
                os.kill(pid, signal.SIGSTOP)
            time.sleep(ROUND_SECONDS - ROUND_SECONDS * SHARE)
    except ProcessLookupError:
        raise AssertionError("a process of the node was killed, which only had no CPU") from None
    finally:
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def ran_seconds(processes: list[int]) -> float:
    """The CPU time that they have used."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in processes]
    return sum(int(user) + int(system) for user, system in fields) / ticks


async def no_cpu(stage: Stage) -> None:
    """Half a minute, and then as before."""
    node = stage.random.choice(stage.nodes)
    processes = pids(node)
    stage.note_injection()
    before = ran_seconds(processes)
    await asyncio.to_thread(starve, processes, STARVED_SECONDS)
    stage.figures["CPU s while starved"] = round(ran_seconds(processes) - before, 2)


def nobody_blamed(stage: Stage, verdict: Verdict) -> list[str]:
    """No process was killed, and nobody closed by the server for silence."""
    del verdict
    failures = []
    for number, node in enumerate(stage.nodes):
        # No socket says that a client has given up a session which it asks for: the server ends it alone.
        lines = [line for line in node.sidecar.log.splitlines() if "transport=poll" not in line]
        found = [word for word in LOST_WORDS if any(word in line for line in lines)]
        if found:
            failures.append(f"node {number}: {', '.join(found)}")
    for client in stage.clients:
        ends = [event.why for event in client.trace.events if hasattr(event, "why")]
        failures += [f"{client.trace.name}: {why}" for why in ends if why.startswith(("4002", "4003"))]
    used = stage.figures.get("CPU s while starved", 0)
    if used > STARVED_SECONDS * SHARE * 10:
        failures.append(f"the node was not starved: it had {used} s")
    return failures


FAULTS = (
    Fault(
        "no-cpu",
        "a node's processes share a hundredth of a core for 30 s",
        "acknowledged: 0 lost; no worker killed; nobody closed for silence; clients recover, or are told",
        no_cpu,
        {"journal": "interval", "workers": 2, "hang_seconds": 3, "ping_seconds": 6, "handshake_seconds": 6},
        cap=0,
        well_seconds=40,
        judge=nobody_blamed,
    ),
)
