"""The faults of a machine that is short of CPU: a node's processes share a hundredth of a core for half a minute, or
one of its workers has what others leave of one, while its parent runs and judges it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def alone_starved(pid: int, burners: int = 10) -> Iterator[None]:
    """Leave a process what others leave of one core, which they want all the time; the rest of its node has the others.

    It can run and does not get to: stopped it would be one that hangs. The others are sessions of their own, between
    which the kernel may share before it looks at who is idle.
    """
    core = min(os.sched_getaffinity(pid))
    before = os.sched_getaffinity(pid)
    burn = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", burn], start_new_session=True) for _ in range(burners)]
    threads = [int(one) for one in os.listdir(f"/proc/{pid}/task")]
    try:
        for thread in threads:
            os.sched_setaffinity(thread, [core])
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()
        for thread in threads:
            with suppress(ProcessLookupError, PermissionError):  # that needs a right where the kernel is old
                os.sched_setaffinity(thread, before)
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


async def no_cpu_for_one(stage: Stage) -> None:
    """Half a minute for the first worker, which numbers, or for another one; the parent is as before."""
    node = stage.random.choice(stage.nodes)
    worker = stage.random.choice(pids(node)[1:])
    stage.note_injection()
    before, waited = ran_seconds([worker]), waited_seconds(worker)
    with alone_starved(worker):
        await asyncio.sleep(STARVED_SECONDS)
    stage.figures["CPU s while starved"] = round(ran_seconds([worker]) - before, 2)
    stage.figures["CPU s waited for"] = round(waited_seconds(worker) - waited, 2)


def waited_seconds(pid: int) -> float:
    """For how long the first thread of a process could have run and had no CPU."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


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
    Fault(
        "worker-no-cpu",
        "one worker of a node has what busy processes leave of one core for 30 s, its parent and the others run",
        "acknowledged: 0 lost; no worker killed; nobody closed for silence; clients recover, or are told",
        no_cpu_for_one,
        {"journal": "interval", "workers": 2, "hang_seconds": 3, "ping_seconds": 6, "handshake_seconds": 6},
        cap=0,
        well_seconds=40,
        judge=nobody_blamed,
        # Also in the short form: for half a minute the core is others', and all else that runs has what is left.
        obstacle=lambda: "" if len(os.sched_getaffinity(0)) > 1 else "one core: its parent would starve as well",
    ),
)
