"""Turns for those who have more to do than may be done at once: one slice in each turn of the loop, in their order.

However many there are and however much they want, everybody else waits for one slice at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

TURN_SECONDS = 0.001
"""Seconds after which the rest of what one connection has sent waits for its next turn."""

HEAVY_SECONDS = 0.004
"""A slice that takes longer, because of one command that asks for much, is followed by a pause as long: so such
commands, of however many clients, leave half of the time to everybody else."""

PIECE_BYTES = 2048
"""Looked at between two looks at the clock: some dozen commands, some hundred pings."""

LARGE_BYTES = 16 << 10
"""A read of so much waits for a turn however quickly it can be handled: the clock does not see what follows from it,
such as the answers that are written behind it, and several of them would have their turns in one round of the loop."""

T = TypeVar("T")

_Work = tuple[Generator[None, None, Any], Callable[[Any], None], Callable[[Exception], None]]


class Scheduler:
    """The queue of those who wait for a turn, and works in steps, which have their turns together.

    ``before`` is called before each turn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, before: Callable[[], None] = lambda: None) -> None:
        self._loop = loop
        self._before = before
        self._waiting: deque[Callable[[], None]] = deque()
        self._line: deque[Callable[[], bool]] = deque()
        self._works: deque[_Work] = deque()
        self._working = False
        self._spent = 0.0

    def spend(self, seconds: float) -> None:
        """Count time that was taken without waiting for a turn; it is forgotten when the loop has been round."""
        if not self._spent:
            self._loop.call_soon(self._renew)
        self._spent += seconds

    @property
    def spent(self) -> bool:
        """State of the turn: True once those who did not wait have had a turn's time together. Who comes now waits for
        one."""
        return self._spent >= TURN_SECONDS

    def _renew(self) -> None:
        self._spent = 0.0

    def later(self, go_on: Callable[[], None]) -> None:
        """Call it when all who wait already have had a turn."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def in_line(self, go_on: Callable[[], bool]) -> None:
        """Call it turn after turn until it answers False; nobody behind it in this line has a turn before that.

        For what holds much from its first turn to its last: of all who do, one at a time.
        """
        self._line.append(go_on)
        if len(self._line) == 1:
            self.later(self._serve)

    def _serve(self) -> None:
        again = False
        try:
            again = self._line[0]()
        finally:
            if not again:
                self._line.popleft()
            if self._line:
                self.later(self._serve)

    def run(
        self, steps: Generator[None, None, T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Take the steps, and call ``done`` with what they return, or ``failed`` with what they raise.

        ``steps`` yields as often as it may be interrupted, every 0.1 ms or so. All works have TURN_SECONDS of a turn
        together; the one that is interrupted is the last one then.
        """
        self._works.append((steps, done, failed))
        if not self._working:
            self._working = True
            self.later(self._work)

    def _work(self) -> None:
        due = perf_counter() + TURN_SECONDS
        try:
            while self._works and perf_counter() < due:
                self._slice(*self._works[0], due)
        finally:
            self._working = bool(self._works)
            if self._working:
                self.later(self._work)

    def _slice(
        self,
        steps: Generator[None, None, T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        due: float,
    ) -> None:
        """Go on with the first work until it is done or the time is over."""
        try:
            while True:
                next(steps)
                if perf_counter() >= due:
                    self._works.rotate(-1)
                    return
        except StopIteration as end:
            ended = partial(done, end.value)
        except Exception as error:
            ended = partial(failed, error)
        self._works.popleft()
        ended()

    def _next(self) -> None:
        go_on = self._waiting[0]
        began = perf_counter()
        try:
            self._before()
            go_on()
        finally:  # a fault of one holds up nobody else
            took = perf_counter() - began
            self._waiting.popleft()
            if self._waiting and took < HEAVY_SECONDS:
                self._loop.call_soon(self._next)
            elif self._waiting:
                self._loop.call_later(took, self._next)
