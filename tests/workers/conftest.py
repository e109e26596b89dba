"""The sidecar that tests of other folders share when they run here: two workers instead of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sidecar import Sidecar


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """Two workers in which everybody may do everything."""
    with Sidecar(workers=2, handshake_seconds=5) as running:
        workers = running.ready["workers"]
        yield running
        assert running.process is not None
        assert running.process.poll() is None
        assert "Traceback" not in running.log, running.log
        assert "restarting" not in running.log, running.log
        assert running.ready["workers"] == workers
