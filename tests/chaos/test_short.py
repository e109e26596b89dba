"""The short form of `make chaos`: each fault once."""

from __future__ import annotations

import random
import sys

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.model import KINDS
from tests.chaos.run import run_fault
from tests.chaos.table import Fault
from tests.support.promises import kept


def say(text: str) -> None:
    """Shown when the test fails."""
    sys.stderr.write(text + "\n")


CASES = [
    pytest.param(
        fault,
        id=fault.name,
        marks=[*([pytest.mark.redis] if fault.redis else []), *([pytest.mark.postgres] if fault.postgres else [])],
    )
    for fault in FAULTS
    if fault.short
]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", CASES)
def test_what_must_hold_holds(fault: Fault) -> None:
    if why := fault.obstacle():
        pytest.skip(why)
    seed = random.randrange(1 << 30)
    result = run_fault(fault, 1, seed, say)
    told = f"seed {seed}:\n" + "\n".join(result["failures"])
    kept(not any(result[kind] for kind in KINDS), told)
    assert not result["failures"], told
    assert result["injections"] == 1
