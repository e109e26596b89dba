"""Every row of `make measure`, a few times each: the promises hold on a machine that does nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.sidecar import ROOT

from . import __main__ as program
from .rows import ROWS, Found, Row, run

RUNS = 2


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.redis
@pytest.mark.postgres
@pytest.mark.mariadb
@pytest.mark.parametrize("name", list(ROWS))
def test_a_promise_is_kept(name: str) -> None:
    """In a process of its own: some have a project of Django, and a database."""
    command = [sys.executable, "-m", "tests.measure", "--only", "--runs", str(RUNS), name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def found(*values: float, at_least: float = 0.0, at_most: float = float("inf")) -> Found:
    """What a row of these values gives."""
    return run(Row("a", "", lambda: iter_of(values), at_most, at_least, "s"), len(values))


def iter_of(values: tuple[float, ...]):  # type: ignore[no-untyped-def]
    """One after the other."""
    yield from values


def test_one_run_beyond_a_promise_breaks_it() -> None:
    assert (found(1, 3, 2, at_most=3).kept, found(1, 3, 2, at_most=2.9).kept) == (True, False)
    assert (found(1, 3, 2, at_least=1).kept, found(0.9, 3, 2, at_least=1).kept) == (True, False)
    assert (found(1, 3, 2, at_most=5).median, found(1, 3, 2, at_most=5).worst) == (2, 3)
    assert found(4, 0.5, at_least=1, at_most=5).worst == 0.5
    assert found(4, 1.5, at_least=1).worst == 1.5
    assert "BROKEN" in program.line(found(1, 3, at_most=2))
    assert "BROKEN" not in program.line(found(1, 2, at_most=2))


def test_a_row_ends_what_it_has_set_up() -> None:
    over = []

    def measure():  # type: ignore[no-untyped-def]
        try:
            while True:
                yield 1.0
        finally:
            over.append(True)

    assert run(Row("a", "", measure, 2, 0, "s"), 3).values == [1.0] * 3
    assert over == [True]


def test_the_rows_say_what_they_promise() -> None:
    assert len(ROWS) > 40
    for one in ROWS.values():
        assert one.promise.endswith("."), one.name
        assert one.bound, one.name
