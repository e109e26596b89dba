"""Slices of what clients missed: one client after the other, a millisecond in each turn of the loop for all of them."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING

from ...core.protocol.errors import Close
from ..runtime.scheduler import TURN_SECONDS

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime

log = logging.getLogger("fastpath.clients")


class Recovering:
    """Runs core/delivery/backlogs.py, in turns with all others who want much at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._recoveries = runtime.sessions.recoveries
        self._due = False

    def wake(self) -> None:
        """Somebody has become ready for a slice."""
        if not self._due:
            self._due = True
            self._runtime.scheduler.later(self._step)

    def _step(self) -> None:
        self._due = False
        until = perf_counter() + TURN_SECONDS
        while self._recoveries.busy and perf_counter() < until:
            client = self._recoveries.next()
            try:
                self._recoveries.step(client)
            except Exception:
                log.exception("fault while sending client %s what it missed", client.address)
                client.link.close(Close.INTERNAL_ERROR, "internal_error: a fault of the server; reconnect")
        if self._recoveries.busy:
            self.wake()
        self._runtime.end()
