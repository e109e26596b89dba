"""The parts of ``python -m spark.bench``: each is there, and one that is not is refused before Spark starts.

What they measure takes minutes and much memory; `tools/bench.sh` runs them.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from spark import bench
from spark.bench.__main__ import PARTS, main

NO_PARTS = {"classes", "discard", "serving", "tables"}
"""What the parts share."""


def test_every_module_is_a_part_or_what_parts_share() -> None:
    modules = {path.stem for path in Path(bench.__file__).parent.glob("*.py") if not path.stem.startswith("__")}
    assert modules - NO_PARTS == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_measures_in_a_session_so_many_times(part: str) -> None:
    measure = importlib.import_module(f"spark.bench.{part}").measure
    assert list(inspect.signature(measure).parameters)[:2] == ["session", "repeat"]


def test_a_part_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["writing", "wrting"])
    assert "no part wrting; there are writing" in capsys.readouterr().err
