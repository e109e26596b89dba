"""Answers to a publisher that take long, made in slices beside everybody else, and no faster than it reads them."""

from __future__ import annotations

import logging
from collections.abc import Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...core.protocol.errors import Close, Refused
from ..runtime.scheduler import TURN_SECONDS

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime
    from .connection import PublisherConnection

OPEN_MAX = 16
"""Answers of one connection that are being made at a time (protocol.md 6.3, `window`)."""

FULL_SECONDS = 0.005
"""Seconds to wait for a publisher that has much to read still."""

Slices = Generator[None, None, None]
"""Yields as often as it may be interrupted, every 0.5 ms or so; raises Refused to end the connection."""

log = logging.getLogger("fastpath.publishers")


class Slicing:
    """The answers under way, of all connections."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._open: WeakKeyDictionary[PublisherConnection, int] = WeakKeyDictionary()

    def begin(self, connection: PublisherConnection) -> None:
        """Begin one more answer; raises Refused when the connection waits for too many already."""
        count = self._open.get(connection, 0)
        if count >= OPEN_MAX:
            raise Refused(Close.BAD_MESSAGE, f"over {OPEN_MAX} questions without an answer")
        self._open[connection] = count + 1

    def run(self, connection: PublisherConnection, slices: Slices) -> None:
        """Make the answer, the first slice of it in the next turn."""
        self._runtime.scheduler.later(lambda: self._step(connection, slices))

    def end(self, connection: PublisherConnection, packet: list[Any]) -> None:
        """Send the last frame of an answer."""
        self._open[connection] = self._open.get(connection, 1) - 1
        connection.reply(packet)

    def _step(self, connection: PublisherConnection, slices: Slices) -> None:
        try:
            if not connection.over and self._goes_on(connection, slices):
                return
        except Refused as error:
            connection.close(error.code, error.reason)
        except Exception:
            log.exception("fault while answering publisher %s", connection.address)
            connection.close(Close.INTERNAL_ERROR, "a fault of the server; reconnect and ask again")
        slices.close()

    def _goes_on(self, connection: PublisherConnection, slices: Slices) -> bool:
        """Do one turn's worth of an answer; return whether there is more to come."""
        until = perf_counter() + TURN_SECONDS
        while not connection.full:
            try:
                next(slices)
            except StopIteration:
                return False
            if perf_counter() > until:
                self.run(connection, slices)
                return True
        self._runtime.loop.call_later(FULL_SECONDS, self.run, connection, slices)
        return True
