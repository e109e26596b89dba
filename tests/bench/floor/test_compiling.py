"""The floor: compiled where there is a compiler, driven by the same generator."""

from __future__ import annotations

import time

import pytest

from fastpath.bench.floor.compiling import FloorError, compiled
from fastpath.bench.load.dialects import Dialect, Floor, FloorAll
from fastpath.bench.scenarios.measure import RunOptions, loaded, run
from fastpath.bench.scenarios.scenarios import SCENARIOS
from fastpath.bench.servers import fastpath_server


def test_without_a_compiler_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be found on an empty PATH."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FloorError, match=r"no C compiler \(cc, gcc, clang\): give --floor PROGRAM"):
        compiled()


@pytest.mark.compiler
@pytest.mark.parametrize("coalesce", [False, True])
@pytest.mark.parametrize(
    ("scenario", "changes", "dialect"),
    [
        ("F2", {"connections": 7}, Floor()),
        ("F3", {"connections": 5}, FloorAll()),
        ("F3", {"connections": 5}, Floor()),
        ("F5", {"connections": 30}, Floor()),
        ("F7", {"connections": 40, "subjects": 40}, Floor()),
    ],
)
def test_it_delivers_everything_in_order(
    coalesce: bool, scenario: str, changes: dict[str, int], dialect: Dialect
) -> None:
    """One subject, all subjects, lists and pairs; every connection is read in full."""
    short = SCENARIOS[scenario].changed(changes | {"duration_s": 0.2, "warmup_s": 0.05})
    options = RunOptions(sample_every=1)
    with fastpath_server.floor(compiled(), coalesce, None) as server, loaded(short, server, dialect, options) as load:
        found = run(short, load)
        deadline = time.monotonic() + 30
        while found["deliveries"] <= 100 and time.monotonic() < deadline:  # a machine that stood still meanwhile
            found = run(short, load, ready=True)

    assert found["deliveries"] > 100
    assert [found[key] for key in ("lost", "doubled", "reordered", "gaps")] == [0, 0, 0, 0]
    assert found["sampled_connections"] == short.connections
