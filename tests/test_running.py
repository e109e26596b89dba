"""What `make test` makes of a test that fails once: in CI it fails the run, but for one of time."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.sidecar import ROOT

TESTS = """
import random
from pathlib import Path

import pytest


class Late(AssertionError):
    pass


def fail_once(name, error=AssertionError):
    seen = Path(__file__).with_name(name)
    seen.open("a").write(f"{random.random()}\\n")
    if len(seen.read_text().splitlines()) == 1:
        raise error("the first time")


@pytest.mark.timing
def test_of_time():
    fail_once("time")


def test_of_anything_else():
    fail_once("else")


@pytest.mark.timing(only="Late")
def test_that_is_late():
    fail_once("late", Late)


@pytest.mark.timing(only="Late")
def test_that_loses():
    fail_once("lost")
"""


def test_only_what_compares_times_runs_again(tmp_path: Path) -> None:
    """In CI, as `make test` runs them."""
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    plugins = [f"-ptests.support.{name}" for name in ("seeds", "again")]
    where = ["-c", "pyproject.toml", "--rootdir", str(tmp_path), "-o", "addopts=", "--import-mode=importlib", "-rf"]
    done = subprocess.run(
        ["tools/run_tests.sh", "not slow", *plugins, *where, str(path)],
        cwd=ROOT,
        env=os.environ | {"CI": "true", "TEST_PROCESSES": "1", "TEST_SEED": "7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed = re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE)
    assert sorted(failed) == ["test_of_anything_else", "test_that_loses"]
    chosen = {name: (tmp_path / name).read_text().splitlines() for name in ("time", "else", "late", "lost")}
    assert {name: len(times) for name, times in chosen.items()} == {"time": 2, "else": 1, "late": 2, "lost": 1}
    assert all(len(set(times)) == 1 for times in chosen.values()), "by chance, but the same both times"
    assert len(re.findall(r"the first time$", done.stdout, re.MULTILINE)) >= 4, "what failed is shown in any case"
    assert len(re.findall(r"^TEST_SEED=7$", done.stdout, re.MULTILINE)) == 1 + 4, "at the head, and each time"
