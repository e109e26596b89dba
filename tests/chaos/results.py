"""The file of results, one JSON line a run, and the table that docs/operate/reliability.md shows of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .model import KINDS
from .run import percentile
from .table import Fault

PAUSES_MIN = 10
"""Fewer pauses have no 95th of 100."""

NOT_RECORDED = "not recorded"
"""The revision of runs that were made before they had one."""

BEGIN, END = "<!-- results -->", "<!-- end of results -->"


class Results:
    """Runs that were made, over all invocations."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> list[dict[str, Any]]:
        """Every run."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines() if line.strip()]

    def of(self, names: set[str]) -> list[dict[str, Any]]:
        """The runs of some faults."""
        return [result for result in self.all() if result["fault"] in names]

    def injections(self, name: str) -> int:
        """How often a fault was injected."""
        return sum(result["injections"] for result in self.of({name}))

    def slow(self, fault: Fault) -> str:
        """What is wrong with the pauses over all runs; empty when nothing is."""
        pauses = [pause for run in self.of({fault.name}) for pause in run["pauses_ms"]]
        pause = percentile(pauses, 95)
        if fault.pause_ms is None or len(pauses) < PAUSES_MIN or pause <= fault.pause_ms:
            return ""
        return f"acknowledgements paused for {pause} ms (p95 of {len(pauses)}), more than {fault.pause_ms}"

    def add(self, result: dict[str, Any]) -> None:
        """One more run."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")

    def forget(self, names: set[str]) -> None:
        """Drop the runs of some faults."""
        kept = [result for result in self.all() if result["fault"] not in names]
        if self._path.exists():
            self._path.write_text("".join(json.dumps(result) + "\n" for result in kept), encoding="utf-8")

    def table(self, faults: Iterable[Fault], page: str = "") -> str:
        """Markdown: a row a fault; for one that was not run the row of the page as it is, if it has one."""
        shown = page.partition(BEGIN)[2].partition(END)[0].splitlines()
        lines = [
            "| fault | must hold | injected | acknowledged | lost | doubled | reordered | unannounced | "
            "recovered | resynchronised (cache reached) | pause p95 s | besides | revision |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|",
        ]
        for fault in faults:
            runs = self.of({fault.name})
            before = [row for row in shown if row.startswith(f"| {fault.what} | {fault.holds} |")]
            none = [f"| {fault.what} | {fault.holds} | 0 |" + " – |" * 10]
            lines += [_row(fault, runs)] if runs else before or none
        return "\n".join(lines)

    def write(self, page: Path, table: str) -> None:
        """Put the table between its two marks in the page."""
        text = page.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _row(fault: Fault, runs: list[dict[str, Any]]) -> str:
    def total(name: str) -> int:
        return sum(run.get(name, 0) for run in runs)

    silent = total("unannounced") + total("false_recovery")
    named = sum(total(kind) for kind in KINDS)
    others = sum(bool(run["failures"]) for run in runs) if not named else 0
    pauses = [pause for run in runs for pause in run["pauses_ms"]]
    cells = (
        fault.what,
        fault.holds,
        total("injections"),
        f"{total('acknowledged'):,}",
        total("lost"),
        total("doubled"),
        total("reordered") + total("wrong_snapshot"),
        silent,
        f"{total('recovered'):,}",
        f"{total('resynchronised'):,} ({total('in_reach')})",
        f"{percentile(pauses, 95) / 1000:.1f}",
        _besides(others, runs),
        ", ".join(dict.fromkeys(run.get("revision", NOT_RECORDED) for run in runs)),
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _besides(others: int, runs: list[dict[str, Any]]) -> str:
    """What the other columns do not say: runs that failed otherwise, and figures, the highest of each."""
    highest: dict[str, int] = {}
    for run in runs:
        for name, value in run.get("figures", {}).items():
            highest[name] = max(value, highest.get(name, value))
    words = [f"{name} {value:,}" for name, value in highest.items()]
    if gaps := sum(run.get("gaps", 0) for run in runs):
        words.append(f"{gaps:,} gaps seen live and repaired")
    return ", ".join([*([f"{others} runs failed"] if others else []), *words])
