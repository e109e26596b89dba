"""`guarantee` in short: what it measures is there, nothing is lost on the way, and what is lost is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.guarantee import cost, recovery, starts, tables
from fastpath.bench.guarantee.acknowledgements import rounds, servers_of
from fastpath.bench.machine.procfs import filesystem
from fastpath.bench.scenarios.measure import RunOptions

SHORT = 0.02


def _quiet(text: str) -> None:
    assert text


@pytest.mark.slow
def test_the_cost_of_every_setting_is_beside_that_of_standard_delivery() -> None:
    """Four servers at once, each measured in turn; every message reaches its subscribers."""
    case = next(case for case in cost.CASES if case.name == "publish")

    found = cost.case_of(case, RunOptions(), _quiet, 0.1)

    assert list(found["variants"]) == ["standard", "guaranteed", "interval", "batch"]
    assert (found["lost"], found["faults"]) == (0, 0)
    assert found["variants"]["standard"]["ratio"] == 1
    for variant in found["variants"].values():
        assert variant["cpu_s_per_million"] > 0
        assert variant["ratio_low"] <= variant["ratio"] <= variant["ratio_high"]


def test_a_round_goes_there_and_back() -> None:
    """So that a drift of the machine favours no server."""
    names = ["a", "b", "c"]

    assert [cost.in_turn(names, number) for number in range(3)] == [names, names[::-1], names]


@pytest.mark.slow
def test_acknowledgements_are_timed_at_a_rate_and_at_the_most() -> None:
    """In memory, and with a journal that is synced before each."""
    with servers_of(["memory", "batch"], RunOptions()) as found:
        rounds(found, _quiet, "in short", 1, 0.3)
        figures = {name: one.figures() for name, one in found.items()}
        served = [one.rig.server.settings["FASTPATH_JOURNAL"] for one in list(found.values())[1:]]

    assert served == ["batch"]
    for one in figures.values():
        assert (one["lost"], one["faults"]) == (0, 0)
        assert 0 < one["p50_ms"] <= one["p99_ms"]
        assert 0 < one["full_p50_ms"] <= one["full_p99_ms"]
        assert one["full_per_s"] > 0
        assert one["cpu_us"]["node"] > 0


@pytest.mark.slow
def test_clients_that_come_back_get_all_that_they_missed() -> None:
    """Two hundred of them, each a hundred messages, each told that it recovered."""
    found = recovery.measure(RunOptions(), _quiet, SHORT)

    assert (found["clients"], found["missed_each"], found["rounds"]) == (200, 100, 1)
    assert found["recoveries"] == {"recovered": found["sampled"]}
    assert [found[key] for key in ("lost", "doubled", "reordered", "closed")] == [0, 0, 0, 0]
    assert 0 < found["half_s"] <= found["most_s"] <= found["all_s"]
    assert found["cpu_s"] > 0
    assert all(found[f"p99_{when}_ms"] > 0 for when in ("before", "during", "after"))


def test_what_does_not_come_back_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of ten messages cannot give back a hundred."""
    monkeypatch.setattr(recovery, "PATIENCE_SECONDS", 2.0)

    found = recovery.measure(RunOptions(settings={"cache_messages": "10"}), _quiet, SHORT)

    assert found["recoveries"] == {"resynchronised": found["sampled"]}
    assert found["lost"] == found["clients"] * 99  # each gets the snapshot
    assert tables.faults(found) > 0


@pytest.mark.slow
def test_the_journal_is_written_and_replayed() -> None:
    """Ten thousand messages; what one costs, and a start with them."""
    found = starts.journal(RunOptions(), _quiet, 0.01)

    assert found["messages"] == 10_000
    assert 140 < found["bytes_each"] < 400
    assert found["number_100_us"] > 0
    assert {"append_1_us", "append_100_us", "replay_s", "replay_cpu_s"} <= found.keys()


@pytest.mark.slow
@pytest.mark.redis
def test_all_parts_are_measured_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each result is a line of JSON; of them the documentation's tables are made."""
    page = tmp_path / "page.md"
    page.write_text(f"# Prose\n\n{tables.BEGIN}\nstale\n{tables.END}\n\nMore.\n")
    output = tmp_path / "results.json"

    status = main(["guarantee", "--scale", "0.03", "--json", "--output", str(output), "--docs", str(page)])

    captured = capsys.readouterr()
    runs: list[dict[str, Any]] = [json.loads(line) for line in captured.out.splitlines()]
    assert status == 0
    assert captured.out == output.read_text()
    assert [one["part"] for one in runs] == ["cost", "ack", "recovery", "redis", "journal"]
    assert "acknowledgements: round 1 of 1" in captured.err
    assert list(runs[1]["servers"]) == ["memory", "interval", "batch", "redis", "redis1", "redis2"]
    cpu = runs[3]["cpu_us"]
    assert all(cpu[name] > 0 for name in ("node", "primary", "replicas", "generator"))
    assert runs[3]["join_entries"] >= 500_000 * 0.03
    assert "stale" not in page.read_text()
    assert page.read_text().endswith(f"{tables.END}\n\nMore.\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["speed"], "no part 'speed'; there are cost, ack"), (["--scale", "3"], "--scale is more than 0 and at most 1")],
)
def test_what_cannot_be_measured_is_said(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit status 2."""
    assert main(["guarantee", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_without_redis_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """And why is said."""
    monkeypatch.setenv("PATH", "/nowhere")
    said: list[str] = []

    found = starts.joining(RunOptions(), said.append, SHORT)

    assert found["missing"] in said[0]
    assert "apt-get install redis-server" in said[0]
    assert tables.figures([{"part": "redis", **found}]) == []


def test_the_kind_of_disk_is_told() -> None:
    """A journal on a file system in memory would be synced for nothing."""
    assert filesystem(Path("/proc/self")) == "proc"
    assert filesystem(Path("/sys")) == "sysfs"
