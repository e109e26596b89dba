"""One run of one fault: load, injections at random moments, rest, and the verdict as a line of results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastpath.bench.machine.description import revision
from tests.support.sidecar import ROOT

from .checker import check
from .model import KINDS, Verdict
from .stage import Stage
from .table import Fault

LOGS = ROOT / "var" / "chaos" / "failed"

INJECTIONS_MAX = 5
"""In one run: what it records is held in memory."""

PAUSE_SECONDS = (0.3, 1.5)
"""Between two injections, after all is well again."""

PAUSE_FACTOR = 1.5
"""One pause may be longer than 95 of 100 may be, by so much; over all runs results.py judges."""

NAMED_MAX = 20
"""Findings that a result names."""

Say = Callable[[str], None]


def run_fault(fault: Fault, injections: int, seed: int, say: Say) -> dict[str, Any]:
    """Inject so often, at most INJECTIONS_MAX; the result has ``failures``, a list of texts that should be empty."""
    begin = time.monotonic()
    result: dict[str, Any] = {"fault": fault.name, "injections": 0, "seed": seed, "revision": revision()}
    failures: list[str] = []
    verdict = Verdict()
    pauses: list[int] = []
    try:
        limit = fault.limit_seconds(injections)
        verdict, pauses, failures = asyncio.run(asyncio.wait_for(_run(fault, injections, seed, say, result), limit))
    except TimeoutError as error:
        failures = [f"not done in time, of {fault.limit_seconds(injections):g} s in all: {error!r}"]
    except Exception as error:
        failures = [f"{type(error).__name__}: {error}"]
    result |= {
        "published": verdict.published,
        "acknowledged": verdict.acknowledged,
        "delivered": verdict.delivered,
        "recovered": verdict.recovered,
        **verdict.counts,
        "resynchronised": verdict.resynchronised,
        "in_reach": verdict.resynchronised_in_reach,
        "gaps": verdict.gaps,
        "disconnected": verdict.disconnected,
        "pauses_ms": pauses,
        "seconds": round(time.monotonic() - begin, 1),
        "failures": failures,
    }
    return result


async def _run(
    fault: Fault, injections: int, seed: int, say: Say, result: dict[str, Any]
) -> tuple[Verdict, list[int], list[str]]:
    async with fault.make(seed=seed, **fault.stage) as stage:
        stage.run.forgets, stage.run.sessions = fault.forgets, fault.sessions
        for number in range(injections):
            await asyncio.sleep(stage.random.uniform(*PAUSE_SECONDS))
            await fault.inject(stage)
            await stage.healthy(fault.well_seconds)
            result["injections"] = number + 1
            say(f"{fault.name}: {number + 1} of {injections}")
        run = await stage.finish()
        pauses = stage.pauses_ms()
        verdict = await asyncio.to_thread(check, run)
        failures = judge(fault, stage, verdict, pauses)
        if failures and not fault.name.startswith("bug-"):
            keep(LOGS / f"{fault.name}-{seed}", stage, verdict)
        result["figures"] = stage.figures
        return verdict, pauses, failures


def keep(folder: Path, stage: Stage, verdict: Verdict) -> None:
    """What helps to find the reason: every finding, what was acknowledged when and by whom, the processes' logs, and
    all that was sent to those clients of whom something was found."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "findings").write_text("".join(f"{finding}\n" for finding in verdict.findings))
    for name, text in stage.logs().items():
        (folder / name).write_text(text)
    rows = [f"injected {at}\n" for at in stage.injected_ms]
    for one in sorted(stage.run.publications.values(), key=lambda one: one.acked_ms):
        rows.append(f"{one.acked_ms} sent {one.sent_ms} {one.content} {one.subject} {one.outcome} {one.positions}\n")
    (folder / "publications").write_text("".join(rows))
    named = {finding.client for finding in verdict.findings}
    for trace in stage.run.traces:
        if trace.name in named:
            (folder / f"trace-{trace.name}").write_text("".join(f"{event}\n" for event in trace.events))


def judge(fault: Fault, stage: Stage, verdict: Verdict, pauses: Sequence[int]) -> list[str]:
    """All that did not hold, as texts."""
    failures = [str(finding) for finding in verdict.findings[:NAMED_MAX]]
    if len(verdict.findings) > NAMED_MAX:
        failures.append(f"and {len(verdict.findings) - NAMED_MAX} more findings")
    allowed = None if fault.cap is None else fault.cap * len(stage.injected_ms)
    if allowed is not None and verdict.resynchronised_in_reach > allowed:
        failures.append(f"{verdict.resynchronised_in_reach} resynchronised within the cache's reach, not {allowed}")
    if fault.steady and verdict.disconnected:
        failures.append(f"{verdict.disconnected} connections lost that nothing should disconnect")
    if fault.pause_ms is not None and max(pauses, default=0) > fault.pause_ms * PAUSE_FACTOR:
        failures.append(f"acknowledgements paused for {max(pauses)} ms, far more than {fault.pause_ms}")
    if not verdict.acknowledged or not verdict.delivered:
        failures.append("nothing was published, or nothing delivered")
    if fault.judge is not None:
        failures += fault.judge(stage, verdict)
    return failures


def percentile(values: Sequence[int], share: int) -> int:
    """The smallest value that so many of a hundred do not pass; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else 0


def merge(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The last line of a program that ran them: injections per fault, and the sums over all."""
    injections: dict[str, int] = {}
    for result in results:
        injections[result["fault"]] = injections.get(result["fault"], 0) + result["injections"]
    names = ("published", "acknowledged", "delivered", *KINDS, "resynchronised", "in_reach")
    sums = {name: sum(result.get(name, 0) for result in results) for name in names}
    return {"injections": injections} | sums | {"failed": sum(bool(result["failures"]) for result in results)}
