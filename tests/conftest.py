"""Fixtures that several folders of tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    """A sidecar in which everybody may do everything."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.fixture
def rules_sidecar() -> Iterator[Sidecar]:
    """A sidecar that asks rules, none of which have arrived yet; its tokens are those of tests/support/tokens.py."""
    with Sidecar(mode="rules", token_secret=SECRET) as running:
        yield running
