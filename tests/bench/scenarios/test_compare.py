"""The comparison around its measurements: who takes part, what is said, what is handed on."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from fastpath.bench.report.tables import figures
from fastpath.bench.scenarios.compare import CompareError, add_arguments, chosen, compare, run
from fastpath.bench.servers import peers

COSTS = {"": 2.0, "channels": 300.0, "fastpath-mqtt": 3.0, "fastpath-mqtt-ws": 4.0}


def measured(scenario: str, running: peers.Running | None, changes: dict[str, Any]) -> dict[str, Any]:
    """What a run would have found, by the server."""
    name = running.peer.name if running else ""
    beside = {} if running else {"floor_cpu_s_per_million": 1.6, "ratio": 1.25}
    return {
        "scenario": scenario,
        "connections": changes.get("connections", 1000),
        "server_cpu_s_per_million": COSTS[name],
        "deliveries_per_s": 1e6 / COSTS[name],
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "lost": 0,
    } | beside


@pytest.mark.slow
def test_a_peer_that_is_missing_gets_its_word_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but Channels and ours, which are no programs, can be found on an empty PATH."""
    monkeypatch.setenv("PATH", "")
    said: list[str] = []

    runs = list(compare(["F1"], chosen(""), measured, None, said.append))

    assert [run["peer"] for run in runs] == ["fastpath", "fastpath-mqtt", "fastpath-mqtt-ws", "channels"]
    words = [line for line in said if "skipped" in line]
    assert len(words) == len(peers.PEERS) - 3
    assert "Redis: skipped, no redis-server on the PATH; install it with: apt-get install redis-server" in words


def test_the_table_has_the_floor_ours_and_the_ratio_to_ours() -> None:
    """One line each, as soon as it is known."""
    said: list[str] = []

    list(compare(["F1"], chosen("channels"), measured, None, said.append))

    assert "\n".join(said).splitlines()[-3:] == [
        "| Floor (bare C) | 1.6 | ×0.80 | – | – | – | – | – | – |",
        "| Fastpath | 2 | ×1.00 | 500k | 1.00 | 2.00 | – | 1k | none |",
        "| Channels + Daphne | 300 | ×150.00 | 3.33k | 1.00 | 2.00 | – | 100 | none |",
    ]


@pytest.mark.slow
def test_a_peer_that_breaks_down_does_not_end_the_comparison() -> None:
    """Its line says what happened."""
    said: list[str] = []

    def broken(scenario: str, running: peers.Running | None, changes: dict[str, Any]) -> dict[str, Any]:
        if running is not None:
            raise ConnectionResetError("it hung up")
        return measured(scenario, running, changes)

    runs = list(compare(["F1", "F2"], chosen("channels"), broken, None, said.append))

    assert [(run["scenario"], run["peer"]) for run in runs] == [("F1", "fastpath"), ("F2", "fastpath")]
    assert said.count("Channels + Daphne: not measured, it hung up") == 2


def test_a_peer_that_does_not_exist_is_named_with_those_that_do() -> None:
    """Instead of a run without it."""
    with pytest.raises(CompareError, match=r"no peer 'rabbit'; there are nchan, redis, "):
        chosen("redis,rabbit")


def arguments(*words: str) -> argparse.Namespace:
    """The command's."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.slow
def test_a_short_comparison_with_redis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real servers, an instant each; where Redis is not installed, its word stands in its place.

    The results are what the report takes, and the last lines are the same.
    """
    path = tmp_path / "var" / "compare.json"
    missing = peers.PEERS["redis"].missing()

    words = ("F1", "--peers", "redis", "--duration", "0.2", "--output", str(path), "--json")
    assert run(arguments(*words)) == 0

    said = capsys.readouterr().out
    results = [json.loads(line) for line in path.read_text().splitlines()]
    assert said.endswith(path.read_text())
    assert [one["peer"] for one in results] == ["fastpath"] + ([] if missing else ["redis"])
    assert all(one["deliveries"] > 0 and one["lost"] == 0 for one in results)
    assert ("Redis: skipped" in said) == bool(missing)
    assert figures(results)[0].title == "F1: CPU seconds per million deliveries, beside other servers"


def test_a_scenario_that_no_other_server_can_do_is_refused() -> None:
    """Conflation, pairs, memory by subject: those are ours."""
    with pytest.raises(CompareError, match="F6: the other servers can only be given F1, F2, F3, F5"):
        run(arguments("F6"))
