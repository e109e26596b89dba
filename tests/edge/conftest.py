"""Sidecars that the tests of a module share: what one client does wrong must not matter to the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sidecar import Sidecar


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One sidecar for all tests of a module, in which everybody may do everything; it has to survive them all."""
    with Sidecar(mode="none", handshake_seconds=5) as running:
        pid = running.pid
        yield running
        assert running.process is not None
        assert running.process.poll() is None
        assert running.pid == pid
        assert "Traceback" not in running.log, running.log
