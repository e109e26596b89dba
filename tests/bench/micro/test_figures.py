"""The benchmark of the sidecar's own figures runs, with them and without, and says what they cost."""

from __future__ import annotations

import pytest

from fastpath.bench.__main__ import main


@pytest.mark.slow
def test_pairs_of_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "F3", "--repeat", "1", "--duration", "0.3"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split("|")
    off, on, ratio, every = (float(cell) for cell in row[2:6])
    assert row[1].strip().startswith("F3: ")
    assert off > 0
    assert on > 0
    assert ratio == every == pytest.approx(on / off, abs=0.01)


def test_a_scenario_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "F99"]) == 2
    assert "no scenario 'F99'; there are F1, " in capsys.readouterr().err
