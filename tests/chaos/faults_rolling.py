"""A rolling restart of all nodes under a crowd of clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from typing import Any

from tests.support.sidecar import ROOT

from .model import Run, Verdict
from .run import percentile
from .stage import SUBJECTS, Stage
from .stage_redis import RedisStage
from .table import Fault

CLIENTS = 5000
PROCESSES = 2
RATES = (("raw", 20), ("raw", 10), ("library", 10), ("socket", 10), ("mqtt", 5), ("mqtt-ws", 5))
"""Few, for each message goes to every twentieth of the crowd."""

CACHE_SECONDS = 30
"""Nobody is away for so long: every resynchronisation is one too many."""

RECOVERY_MS = 5000
OPEN_SECONDS = 60


class RollingStage(RedisStage):
    """Three nodes, and the crowd beside the usual clients."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nodes=3, rates=RATES, steady="", connections_max=6000, cache_seconds=CACHE_SECONDS, **settings)
        self.crowds: list[asyncio.subprocess.Process] = []
        self.reports: list[dict[str, Any]] = []

    async def gather_clients(self) -> None:
        """The crowd comes before anything is published."""
        await super().gather_clients()
        share = CLIENTS // PROCESSES
        for number in range(PROCESSES):
            options = {
                "clients": share,
                "first": number * share,
                "addresses": [node.clients for node in self.nodes],
                "subjects": SUBJECTS,
                "reach_seconds": CACHE_SECONDS - 1,
            }
            self.crowds.append(
                await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "tests.chaos.swarm",
                    json.dumps(options),
                    cwd=ROOT,
                    stdout=asyncio.subprocess.PIPE,
                    limit=1 << 24,
                )
            )
        async with asyncio.timeout(OPEN_SECONDS):
            for crowd in self.crowds:
                assert crowd.stdout is not None
                assert await crowd.stdout.readline() == b"ready\n"

    async def finish(self) -> Run:
        """The crowd tells what it saw."""
        run = await super().finish()
        for crowd in self.crowds:
            crowd.send_signal(signal.SIGTERM)
            output, _ = await crowd.communicate()
            self.reports.append(json.loads(output))
        return run

    async def __aexit__(self, *_: object) -> None:
        for crowd in self.crowds:
            with contextlib.suppress(ProcessLookupError):
                crowd.kill()
            await crowd.wait()
        await super().__aexit__()


async def roll(stage: Stage) -> None:
    """One node after the other is stopped and started; the next one when all is well again."""
    stage.note_injection()
    for node in stage.random.sample(stage.nodes, len(stage.nodes)):
        await node.stop()
        await node.start()
        await stage.healthy(30)


def everyone_recovered(stage: Stage, verdict: Verdict) -> list[str]:
    """Nobody of the crowd lacks anything, and all were quick."""
    del verdict
    assert isinstance(stage, RollingStage)
    failures = []
    heads: dict[str, int] = {}
    for one in stage.run.publications.values():
        if one.position is not None:
            heads[one.subject] = max(heads.get(one.subject, 0), one.position[1])
    times = [ms for report in stage.reports for ms in report["recovery_ms"]]
    for report in stage.reports:
        counts = report["counts"]
        wrong = {name: counts[name] for name in ("gaps", "doubled", "resynchronised", "void") if counts.get(name)}
        if wrong:
            failures.append(f"of the crowd: {wrong}")
        if report["connected"] < report["clients"]:
            failures.append(f"{report['clients'] - report['connected']} of the crowd are not connected")
        late = {subject: last for subject, last in report["lasts"].items() if last < heads.get(subject, 0)}
        if late:
            failures.append(f"some of the crowd lack the end of {sorted(late)}")
    if len(times) < CLIENTS:
        failures.append(f"{len(times)} recoveries in the crowd, fewer than it has clients")
    slow = percentile(times, 99)
    stage.figures |= {"clients recovered": len(times), "recovery p50 ms": percentile(times, 50), "p99 ms": slow}
    stage.figures |= {"away too long": sum(report["counts"].get("away too long", 0) for report in stage.reports)}
    if slow > RECOVERY_MS:
        failures.append(f"recovery took {slow} ms (p99), more than {RECOVERY_MS}")
    return failures


FAULTS = (
    Fault(
        "rolling-restart",
        f"rolling restart of all nodes with {CLIENTS:,} clients",
        f"0 lost; p99 of recovery ≤ {RECOVERY_MS / 1000:g} s",
        roll,
        {},
        RollingStage,
        cap=0,
        well_seconds=60,
        judge=everyone_recovered,
    ),
)
