"""The benchmark of the outbox runs, and has figures of all that it sent."""

from __future__ import annotations

import pytest

from fastpath.bench.__main__ import main


@pytest.mark.slow
def test_it_runs_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outbox", "--rows", "50", "--messages", "5", "--repeat", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Revision: ")
    assert lines[0].endswith("; SQLite")
    figures = [float(cell.replace(",", "")) for cell in lines[-1].strip("|").split("|")]
    assert len(figures) == 5
    assert all(figure > 0 for figure in figures)
    assert figures[2] <= figures[3] <= figures[4]
