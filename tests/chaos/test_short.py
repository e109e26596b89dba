"""The short form of `make chaos`: each fault once."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.run import run_fault
from tests.chaos.table import Fault


def say(text: str) -> None:
    """Shown when the test fails."""
    sys.stderr.write(text + "\n")


def cases() -> Iterator[Any]:
    """Each fault, with what it needs."""
    for fault in FAULTS:
        if why := fault.obstacle():
            say(f"NOT RUN: {fault.what}: {why}")
            continue
        yield pytest.param(fault, id=fault.name, marks=[pytest.mark.redis] if fault.redis else [])


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", list(cases()))
def test_what_must_hold_holds(fault: Fault) -> None:
    seed = random.randrange(1 << 30)
    result = run_fault(fault, 1, seed, say)
    assert not result["failures"], f"seed {seed}:\n" + "\n".join(result["failures"])
    assert result["injections"] == 1
