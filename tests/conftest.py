"""Fixtures that several folders of tests use."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET


def pytest_configure() -> None:
    """Programs that the tests start hear Ctrl-C, also where a shell runs the tests in the background and ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
