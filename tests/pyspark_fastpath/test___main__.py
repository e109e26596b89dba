"""Which Pythons Spark would start is told before a session is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.sidecar import ROOT


def told(**more: str) -> tuple[int, str]:
    """Status, and what was said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_fastpath"], cwd=ROOT, env=kept | more, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_another_python_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    """The one that plans and the one that runs tasks may differ; without either it is the first on PATH."""
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    paths = str(ROOT)
    assert told(PYSPARK_PYTHON=sys.executable, PYTHONPATH=paths) == (
        0,
        f'format("fastpath") is found by {sys.executable}\n',
    )
    for environment in (
        {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": str(bare)},
        {"PYSPARK_PYTHON": str(bare), "PYSPARK_DRIVER_PYTHON": sys.executable},
    ):
        status, text = told(PYTHONPATH=paths, **environment)
        assert status == 1
        assert f"Spark's Python workers run {bare}, which has no pyspark and no pyarrow and no msgspec." in text
        assert f"Set PYSPARK_PYTHON to a Python that has all, such as {sys.executable}" in text
        assert ("PYSPARK_DRIVER_PYTHON wins over it" in text) == ("PYSPARK_DRIVER_PYTHON" in environment)
        assert "Traceback" not in text
