"""Tests of a project without a sidecar: what was published, and what a user would get; for unittest and pytest.

Laws:

* Importing this needs no database, no sidecar and no pytest.
* What a test publishes, and every client that it has, ends with that test.
* Nothing here waits: what was published has arrived when the call returns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realtime.memory.client import MemoryClient
    from realtime.test.cases import RealtimeTestCase
    from realtime.test.kit import Kit, VirtualClock
    from realtime.test.live import LiveSidecar

__all__ = ["VirtualClock", "Kit", "LiveSidecar", "MemoryClient", "RealtimeTestCase"]

_WHERE = {
    "VirtualClock": "realtime.test.kit",
    "Kit": "realtime.test.kit",
    "LiveSidecar": "realtime.test.live",
    "MemoryClient": "realtime.memory.client",
    "RealtimeTestCase": "realtime.test.cases",
}
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Lazily, because pytest loads the plugin before Django's apps are there.
        if name in _WHERE:
            return getattr(import_module(_WHERE[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
