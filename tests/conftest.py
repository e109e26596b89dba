"""Fixtures that several folders of tests use."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET


def pytest_configure() -> None:
    """Passwords are quick; programs hear Ctrl-C, also where a shell runs the tests in the background and ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hashes that cost nothing: a quarter of a second for each user would be most of what some tests take.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


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
