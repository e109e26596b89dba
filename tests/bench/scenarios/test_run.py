"""The scenarios in short against a real sidecar with rights: all arrives, once, in order, also beside slow readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.load.dialects import Fastpath
from fastpath.bench.scenarios.conflating import measure as measure_conflating
from fastpath.bench.scenarios.connecting import measure as measure_connecting
from fastpath.bench.scenarios.crowd import measure as measure_crowd
from fastpath.bench.scenarios.measure import RunOptions, loaded, measure_own
from fastpath.bench.scenarios.memory import measure as measure_memory
from fastpath.bench.scenarios.result import KEYS
from fastpath.bench.scenarios.scenarios import SCENARIOS, Scenario
from fastpath.bench.scenarios.stalling import Stall
from fastpath.bench.servers import fastpath_server

FAULTS = ("lost", "doubled", "reordered", "gaps", "out_of_sequence")
PERCENTILES = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")


def _short(name: str, **changes: Any) -> Scenario:
    return SCENARIOS[name].changed({"duration_s": 1.0, "warmup_s": 0.1} | changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes", "options"),
    [
        ("F1", {"connections": 60}, {}),
        ("F1", {"connections": 60}, {"form": "msgpack", "publish_via": "ws"}),
        ("F2", {"connections": 60}, {"tls": True}),
        ("F3", {"connections": 20}, {}),
        ("F3", {"connections": 20}, {"form": "msgpack"}),
        ("F4", {"connections": 200, "rate": 3}, {}),
        ("F5", {"connections": 60}, {}),
        ("F7", {"connections": 60, "subjects": 60}, {}),
    ],
)
def test_all_that_is_published_arrives_once_and_in_order(
    name: str, changes: dict[str, Any], options: dict[str, Any]
) -> None:
    """Every delivery on every connection is counted, one connection in five is read in full."""
    found = measure_own(_short(name, **changes), RunOptions(sample_every=5, **options))

    assert set(KEYS) <= found.keys()
    assert [found[key] for key in FAULTS] == [0] * len(FAULTS)
    assert found["deliveries"] > 0
    assert found["server_cpu_s_per_million"] > 0
    assert found["sampled_connections"] == found["connections"] / 5
    latencies = [found[key] for key in PERCENTILES]
    assert latencies == sorted(latencies)
    assert found["settings"]["FASTPATH_MODE"] == "rules"


@pytest.mark.slow
def test_slow_readers_are_closed_and_resume_and_nobody_else_notices() -> None:
    """Two of ten clients do not read until their queues pass the bound; each comes back with its positions."""
    scenario = _short("F3", connections=10, window=64)
    settings = {"outbox_bytes_max": "300000", "cache_messages": "10"}
    with (
        fastpath_server.sidecar(None, settings=settings) as server,
        loaded(scenario, server, Fastpath("json", server.token), RunOptions(sample_every=1)) as load,
    ):
        load.barrier()
        stall = Stall(load, [1, 6], seconds=3)
        others = stall.run(scenario)
        found = stall.outcome()
        tally = load.swarm.tally

    assert others.lost == 0
    assert others.deliveries > 0
    assert found["fates"] == {"closed and resumed": 2, "went on": 0, "not up to date": 0}
    assert found["recoveries"].get("resynchronised", 0) + found["recoveries"].get("recovered", 0) == 200
    assert (found["gaps"], tally.doubled, tally.reordered, tally.out_of_sequence) == (0, 0, 0, 0)
    assert stall.latency.summary()["p99_ms"] is not None


@pytest.mark.slow
def test_conflated_clients_get_the_newest_message_of_every_subject() -> None:
    """However many were published meanwhile."""
    found = measure_conflating(_short("F6", connections=10, subjects=20, rate=50), RunOptions(sample_every=1))

    assert [found[key] for key in FAULTS] == [0] * len(FAULTS)
    assert found["alone_lost"] == 0
    assert 0 < found["deliveries"] < found["published"] * 10 / 5
    assert found["ratio"] > 0


@pytest.mark.slow
def test_memory_and_the_cost_of_connecting_are_measured() -> None:
    """In small numbers, which say only that the figures are there."""
    memory = measure_memory(_short("F8", connections=300, subjects=2000), RunOptions())
    connecting = measure_connecting(_short("F9", connections=600), RunOptions())

    assert memory["connections"] == 300
    assert memory["memory_per_subject_bytes"] < 10_000
    assert connecting["connect_cpu_us"] > 0
    assert connecting["connect_hs256_cpu_us"] > 0
    assert connecting["verification_us"]["HS256 by this server"] > 0


@pytest.mark.slow
def test_the_memory_of_readers_over_http_is_measured() -> None:
    """Their subjects are published to over a WebSocket all the same."""
    memory = measure_memory(_short("F8", connections=300, subjects=200), RunOptions(form="sse"))

    assert (memory["form"], memory["connections"]) == ("sse", 300)
    assert memory["memory_per_connection_bytes"] > 0


@pytest.mark.slow
def test_several_workers_and_load_processes_lose_nothing() -> None:
    """Two of each at least, one order over all."""
    found = measure_crowd(_short("F10", connections=300), RunOptions(workers=2, sample_every=5))

    assert [found[key] for key in (*FAULTS, "closed")] == [0] * (len(FAULTS) + 1)
    assert found["connections"] == 300
    assert found["sampled_connections"] == 60
    assert found["workers"] == 2
    assert len(found["server_pids"]) == 3


@pytest.mark.slow
def test_the_command_prints_json_and_writes_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`run F1 --json --output FILE`, the machine described in each."""
    output = tmp_path / "results.json"

    status = main(["run", "F1", "--json", "--connections", "40", "--duration", "0.5", "--output", str(output)])

    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    written = json.loads(output.read_text())
    assert status == 0
    assert found["scenario"] == "F1"
    assert written == found
    assert written["machine"]["cores"] >= 1


def test_what_cannot_be_run_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario that does not exist, and a sample that is too small."""
    assert main(["run", "F99"]) == 2
    assert "no scenario 'F99'; there are F1" in capsys.readouterr().err
    assert main(["run", "F1", "--sample", "50"]) == 2
    assert "at least one in 20" in capsys.readouterr().err
