"""The command around the search: what it says, and the estimate it makes of what held."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from fastpath.bench.scenarios.capacity import add_arguments, find


def arguments(*words: str) -> argparse.Namespace:
    """The command's, for machines that do not depend on this one."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([*words, "--cores", "4", "--memory-gib", "16", "--most", "19000", "--json"])


def server(connections: int, rate: float) -> dict[str, Any]:
    """One that holds 12,000 deliveries a second."""
    wanted = connections * rate
    return {
        "connections": connections,
        "rate": rate,
        "deliveries_per_s": wanted,
        "p99_ms": 4.0 if wanted <= 12_000 else 400.0,
        "lost": 0,
        "memory_per_connection_bytes": 1500.0,
    }


@pytest.mark.parametrize("words", [("--vary", "clients"), ("--vary", "rate", "--connections", "100")])
def test_the_load_that_holds_and_the_machines(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """By clients and by rate; the estimate uses the deliveries of the load that held."""
    assert find(arguments(*words), server) == 0

    *text, last = capsys.readouterr().out.splitlines()
    outcome = json.loads(last)
    deliveries = outcome["held"]["deliveries_per_s"]
    assert 10_800 <= deliveries <= 12_000
    assert outcome["plan"]["deliveries_per_core_s"] == deliveries
    assert outcome["plan"]["machines"] > 1
    assert any("holds" in line for line in text)
    assert any("Too much" in line and "p99 400.0 ms" in line for line in text)
    assert any(line.startswith("1,000,000 users") for line in text)


def test_when_no_load_holds_there_is_no_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code says so."""
    broken = lambda connections, rate: server(connections, rate) | {"lost": 1}

    assert find(arguments(), broken) == 1

    *text, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["plan"] is None
    assert any("No load held" in line and "1 messages lost" in line for line in text)


def test_when_every_load_holds_the_end_is_said_to_be_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """The greatest load that may be tried is not the server's limit."""
    fast = lambda connections, rate: server(connections, rate) | {"p99_ms": 1.0}

    assert find(arguments(), fast) == 0
    assert "No load failed" in capsys.readouterr().out
