"""The checker's short run: each kind of fault once, in a random order."""

from __future__ import annotations

import random

import pytest

from tests.exactly_once import __main__ as program
from tests.support.promises import kept

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]


def test_every_row_is_stored_once_through_each_fault() -> None:
    told: list[str] = []
    verdict, done = program.rows(len(program.FAULTS), random.Random(4), told.append)
    kept(verdict.good, (verdict, told))
    assert all(done[name] == 1 for name in program.FAULTS)
    assert verdict.rows >= 10_000
