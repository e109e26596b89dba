"""How long a test may take before it is ended and says where it hangs: in CI as much longer as every wait in it is."""

from __future__ import annotations

import pytest

from .no_skips import IN_CI

CI_SECONDS = 300
"""Enough for a test that waits several times for as long as it may (PATIENCE_SECONDS), and fails by saying for what."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest-timeout reads it; by hand it is pyproject.toml's."""
    if IN_CI and config.option.timeout is None:
        config.option.timeout = CI_SECONDS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that names a shorter time for itself has as much as all others."""
    for item in items if IN_CI else ():
        own = item.get_closest_marker("timeout")
        if own is not None and own.args and own.args[0] < CI_SECONDS:
            item.add_marker(pytest.mark.timeout(CI_SECONDS), append=False)
