"""One sidecar for the tests of a module, and a subject for each of them: a module that imports both has them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.sidecar import Sidecar

_NUMBERS = count()


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests that need no other."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.fixture
def subject() -> str:
    """One that no other test has."""
    return f"/a/{next(_NUMBERS)}"
