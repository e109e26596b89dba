"""Tasks that fail and are tried again with their rows in another order: nothing is stored twice, nothing is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.sidecar import ROOT, Sidecar
from tests.support.spark.retried_job import ROWS, SUBJECTS
from tests.support.spark.writing import contents

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_task_that_fails_half_way_stores_nothing(sidecar: Sidecar, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.spark.retried_job", sidecar.publisher_url, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "1"]
    for subject in range(SUBJECTS):
        got = sorted(map(int, contents(sidecar, f"/t/{subject}")))
        assert got == list(range(subject, ROWS, SUBJECTS))
    with Control(sidecar.control) as control:
        assert control.stats()["staged_rows"] == 0
