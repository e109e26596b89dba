"""The benchmark of patterns runs, and what it measures is delivered."""

from __future__ import annotations

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.micro.patterns import CoreServer


@pytest.mark.slow
def test_it_runs_small(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row has its figures."""
    assert main(["patterns", "--patterns", "50", "--clients", "20"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|") and "---" not in line]
    assert len(rows) == 8


def test_what_is_measured_is_delivered() -> None:
    """A hundred clients get the first message of a new subject, and the second."""
    server = CoreServer()
    for _ in range(100):
        server.subscribe("/s/**")
    before = server.broker.counters.messages_out
    server.publish(["/s/new", "/s/new", "/elsewhere/new"])
    assert server.broker.counters.messages_out - before == 300  # the event of the new subject is one
