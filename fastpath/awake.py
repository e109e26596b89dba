"""A clock that goes only while the process runs that reads it: by it a process judges the silence of others.

A process that is stopped, starved of CPU, suspended with its machine, or busy with one long turn hears nothing. What
others said meanwhile waits unread, and their silence is not theirs. So everything that ends somebody for it (pings,
deadlines, workers, links) counts in this time, not in that of the wall.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LOOK_SECONDS = 0.1
"""Seconds between two looks of a time-out at the clock."""


class AwakeClock:
    """A clock that is told the time again and again (``tick``): the time between two calls counts, ``step`` seconds at
    most.

    ``step`` is some more than the time between two calls when all is well, so that the clock then goes as others do. A
    process that knows for how long it could have run and had no processor says so, and that time does not count either:
    a process that starves runs for a moment again and again, so that its calls alone do not show it.
    """

    __slots__ = ("_last", "_step", "_waited", "late", "time")

    def __init__(self, step: float, moment: float) -> None:
        self._step = step
        self._last = moment
        self._waited = 0.0
        self.late = False
        """True when the last tick came so late that some of the time does not count."""
        self.time = 0.0
        """Seconds since the clock was made that the process was awake, up to the last tick."""

    def tick(self, moment: float, waited: float = 0.0) -> float:
        """Note that the time is ``moment`` (s, monotonic); return how much of the time since the last call counts.

        ``waited`` is for how long (s) there was no processor, since any moment before the first call.
        """
        elapsed, self._last = moment - self._last, moment
        starved, self._waited = waited - self._waited, waited
        self.late = elapsed > self._step
        counted = min(max(elapsed - max(starved, 0.0), 0.0), self._step)
        self.time += counted
        return counted


@asynccontextmanager
async def awake_timeout(seconds: float) -> AsyncIterator[None]:
    """Bound a block as ``asyncio.timeout`` does, by this clock: TimeoutError comes when the loop has run for so long
    (s), to within a tenth.

    A loop that stood still first reads what came meanwhile.
    """
    loop = asyncio.get_running_loop()
    clock = AwakeClock(2 * LOOK_SECONDS, loop.time())
    timer: asyncio.TimerHandle | None = None
    async with asyncio.timeout(None) as timeout:

        def look() -> None:
            nonlocal timer
            clock.tick(loop.time())
            left = seconds - clock.time
            if left <= 0 and not clock.late:
                timeout.reschedule(loop.time())
            else:
                timer = loop.call_later(min(max(left, LOOK_SECONDS / 10), LOOK_SECONDS), look)

        timer = loop.call_later(min(seconds, LOOK_SECONDS), look)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
