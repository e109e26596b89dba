"""What the client of a session over HTTP has posted: each frame is handled once, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Callable

HANDLED, ENDED, GAP, BUSY = 204, 404, 409, 503
"""Statuses of HTTP for what becomes of a request that posts frames."""

REPEATED_MAX = 8
"""Requests that may wait at a time until the same frames are handled: the first one, and repetitions of it."""

Done = Callable[[int], None]
"""Gets the status of a request."""


class PostedFrames:
    """The frames of one session. They count from 1; ``taken`` is the number of the last one that was accepted.

    While frames wait, because nothing more of the client is handled for now, no others are accepted: so what one client
    has here is the body of one request.
    """

    __slots__ = ("_waiting", "id", "taken")

    def __init__(self, number: str) -> None:
        self.id = number
        self.taken = 0
        self._waiting: list[tuple[int, Done]] = []

    def accept(self, first: int, frames: list[bytes], waits: bool, done: Done) -> list[bytes]:
        """Return the frames of a request that are new; ``done`` is called when the last one is handled, or they are
        refused.

        ``waits`` says whether some that were accepted are not handled yet.
        """
        new = frames[max(self.taken + 1 - first, 0) :]
        if first > self.taken + 1:
            done(GAP)
            return []
        if (new and waits) or len(self._waiting) >= REPEATED_MAX:
            done(BUSY)
            return []
        self.taken += len(new)
        self._waiting.append((first + len(frames) - 1, done))
        return new

    def handled(self, waiting: int) -> None:
        """Note that all but so many of the frames that were accepted are handled."""
        if self._waiting:
            last = self.taken - waiting
            ready = [done for number, done in self._waiting if number <= last]
            self._waiting = [one for one in self._waiting if one[0] > last]
            for done in ready:
                done(HANDLED)

    def end(self) -> None:
        """End the session: what is not handled will not be."""
        left, self._waiting = self._waiting, []
        for _, done in left:
            done(ENDED)
