"""Turns for those who have sent more than may be handled at once: one slice in each turn of the loop, in their order.

However many there are and however much they send, everybody else waits for one slice at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

TURN_SECONDS = 0.001
"""After so long the rest of what one connection has sent waits for its next turn."""

HEAVY_SECONDS = 0.004
"""A slice that takes longer, because of one command that asks for much, is followed by a pause as long: so such
commands, of however many clients, leave half of the time to everybody else."""

PIECE_BYTES = 2048
"""Looked at between two looks at the clock: some dozen commands, some hundred pings; inflated, two MiB at most."""


class Turns:
    """The queue of those who wait for a turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()

    def later(self, go_on: Callable[[], None]) -> None:
        """Call it when all who wait already have had a turn."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        go_on = self._waiting[0]
        began = perf_counter()
        go_on()
        took = perf_counter() - began
        self._waiting.popleft()
        if self._waiting and took < HEAVY_SECONDS:
            self._loop.call_soon(self._next)
        elif self._waiting:
            self._loop.call_later(took, self._next)
