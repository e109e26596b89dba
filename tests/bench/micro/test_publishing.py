"""The benchmark of publish() runs, beside a bare round trip and Redis, and has figures of each."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.load.sockets import BenchError
from fastpath.bench.micro.publishing import Kind, started


@pytest.mark.slow
def test_it_runs_small(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "rounds.json"
    options = ["--threads", "3", "--seconds", "1.5", "--repeat", "1", "--output", str(output)]
    assert main(["publishing", "--processes", "1", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Revision: ")
    rows = {cells[1].strip(): cells[2:8] for cells in (line.split("|") for line in lines[4:])}
    assert {"`publish()`", "bare round trip"} <= rows.keys()
    for cells in rows.values():
        assert all(float(cell.replace(",", "")) > 0 for cell in cells)
    assert rows["bare round trip"][-1].strip() == "1.00"
    rounds = json.loads(output.read_text())["rounds"]
    assert all(one["calls"] > 0 for each in rounds.values() for one in each)


def test_a_call_that_fails_is_told(tmp_path: Path) -> None:
    """And not counted as a quick one."""
    program = tmp_path / "failing.py"
    program.write_text(
        'print("ready", flush=True)\ninput()\nprint(\'{"cpu_s": 0, "times_us": [], "errors": ["it broke"]}\')'
    )
    with contextlib.ExitStack() as stack:
        process = started(stack, [program], "failing")
        with pytest.raises(BenchError, match="failing: it broke"):
            Kind("failing", "failing", [], [process]).work(0.1)
