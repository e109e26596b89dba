"""The file of results: what is added, resumed, judged over all runs, and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastpath.bench.machine.description import revision
from tests.chaos import __main__ as program
from tests.chaos.faults import BY_NAME, FAULTS
from tests.chaos.results import BEGIN, END, Results
from tests.chaos.run import merge, percentile, run_fault


def result(fault: str, injections: int, **more: Any) -> dict[str, Any]:
    """A run as run_fault tells it."""
    return {
        "fault": fault,
        "injections": injections,
        "seed": 7,
        "seconds": 1.5,
        "published": 1200,
        "acknowledged": 1000,
        "lost": 0,
        "pauses_ms": [500] * injections,
        "failures": [],
    } | more


def test_runs_add_up(tmp_path: Path) -> None:
    results = Results(tmp_path / "deep" / "results.jsonl")
    results.add(result("minority", 5))
    results.add(result("minority", 3, lost=2, failures=["lost: p:1"]))
    results.add(result("disk-full", 1))
    assert results.injections("minority") == 8
    merged = merge(results.all())
    assert merged["injections"] == {"minority": 8, "disk-full": 1}
    assert (merged["published"], merged["lost"], merged["failed"]) == (3600, 2, 1)
    results.forget({"minority"})
    assert [one["fault"] for one in results.all()] == ["disk-full"]


@pytest.mark.parametrize(
    ("done", "times", "portions"), [(0, None, [5, 5, 5, 5]), (13, None, [5, 2]), (20, None, []), (20, 7, [5, 2])]
)
def test_the_long_form_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int, times: int | None, portions: list[int]
) -> None:
    path = tmp_path / "results.jsonl"
    ran: list[int] = []

    def run_fault(fault: Any, injections: int, seed: int, say: Any) -> dict[str, Any]:
        del seed, say
        ran.append(injections)
        return result(fault.name, injections)

    monkeypatch.setattr(program, "run_fault", run_fault)
    if done:
        Results(path).add(result("minority", done))
    arguments = ["run", "minority", "--results", str(path)] + (["--times", str(times)] if times else [])
    assert program.main(arguments) == 0
    assert ran == portions


def test_the_last_line_counts_and_the_status_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = result("disk-full", 1, lost=1, failures=["lost: p:1 on /a"])
    monkeypatch.setattr(program, "run_fault", lambda *_: bad)
    assert program.main(["run", "disk-full", "--times", "1", "--results", str(tmp_path / "r")]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out.splitlines()[-1])["lost"] == 1
    assert "lost: p:1 on /a" in shown.err
    assert program.main(["run", "no-such-fault"]) == 2


def test_runs_and_the_table_name_the_revision(tmp_path: Path) -> None:
    """Of runs that were made before it was recorded, that is said."""
    fault = BY_NAME["minority"]
    with_fault = replace(fault, make=lambda **_: 1 / 0)  # type: ignore[arg-type,return-value]
    made = run_fault(with_fault, 1, 7, lambda text: None)
    assert made["revision"] == revision() != ""
    results = Results(tmp_path / "r")
    for run in (result(fault.name, 1), made | result(fault.name, 1), made | result(fault.name, 1)):
        results.add(run)
    (row,) = [line for line in results.table([fault]).splitlines() if line.startswith(f"| {fault.what} |")]
    assert row.endswith(f"| not recorded, {revision()} |")


def test_pauses_are_judged_over_all_runs(tmp_path: Path) -> None:
    fault = BY_NAME["redis-primary-killed"]
    results = Results(tmp_path / "r")
    results.add(result(fault.name, 19))
    assert results.slow(fault) == ""
    results.add(result(fault.name, 1, pauses_ms=[9000]))
    assert results.slow(fault) == ""  # one of twenty
    results.add(result(fault.name, 1, pauses_ms=[9000]))
    assert "9000 ms" in results.slow(fault)


def test_percentiles() -> None:
    assert [percentile([4, 1, 3, 2], share) for share in (1, 50, 75, 95, 100)] == [1, 2, 3, 4, 4]
    assert percentile([], 95) == 0


def test_the_table_has_every_fault_and_stands_between_its_marks(tmp_path: Path) -> None:
    results = Results(tmp_path / "r")
    results.add(result("rolling-restart", 5, figures={"p99 ms": 1234}, resynchronised=7, in_reach=3))
    table = results.table(FAULTS)
    assert len(table.splitlines()) == len(FAULTS) + 2
    assert len({line.count("|") for line in table.splitlines()}) == 1
    (row,) = [line for line in table.splitlines() if "p99 ms 1,234" in line]
    assert "| 5 | 1,000 | 0 |" in row
    assert "| 7 (3) |" in row
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    results.write(page, table)
    assert page.read_text() == f"before\n{BEGIN}\n{table}\n{END}\nafter\n"
    later = Results(tmp_path / "later")
    later.add(result("minority", 5))
    both = later.table(FAULTS, page.read_text())
    assert row in both, "what was run before stands on"
    assert both.count("| 5 | 1,000 |") == 2


def test_each_fault_has_a_name_and_a_promise_of_its_own() -> None:
    assert len(BY_NAME) == len(FAULTS)
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
    assert all(fault.holds for fault in FAULTS)
