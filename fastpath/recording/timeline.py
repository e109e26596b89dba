"""When each message of a recording is due, in µs after the first; pure.

The server's time of a message is when it was published, whatever the way to the recorder was like; so messages that
were missed and recovered stand where they belong. But that clock can be set, and then arrival, which is of a clock that
cannot, says how long it really was.
"""

from __future__ import annotations

from .lines import Recorded

STEP_US = 1_000_000
"""Times that disagree by more with what came before, or with arrivals, mean that the server's clock was set."""

_LIVE = ("update", "recovered")
"""Snapshots and history come when they are asked for: their own times lie before the recording."""


class Timeline:
    """``by``: ``"time"``, the server's times, or ``"arrival"``. A silence is cut to ``pause_us_max`` (0: it is not)."""

    def __init__(self, by: str = "time", pause_us_max: int = 0) -> None:
        self._by_time = by == "time"
        self._pause_us_max = pause_us_max
        self._now = 0
        self._last_at: int | None = None
        self._arrivals_from = 0
        """Time of arrival, in µs, that stands for 0."""
        self._times_from: int | None = None
        """Time of the server, in µs, that stands for 0."""

    def place(self, message: Recorded) -> int:
        """Return when this message, the next, is due; never before the one ahead of it."""
        at = message.at_us
        if self._last_at is None:
            self._last_at = self._arrivals_from = at
        if at < self._last_at - STEP_US:  # another recording, of a time before
            self._arrivals_from, self._times_from = at - self._now, None
        step = max(0, at - self._last_at)
        self._last_at = at
        arrived = at - self._arrivals_from
        if self._by_time and message.kind in _LIVE:
            due = self._by_clock(message.time * 1000, arrived, step)
        else:
            due = arrived
        excess = due - self._now - self._pause_us_max
        if self._pause_us_max and excess > 0:
            due -= excess
            self._arrivals_from += excess
            if self._times_from is not None:
                self._times_from += excess
        self._now = max(self._now, due)
        return self._now

    def _by_clock(self, time: int, arrived: int, step: int) -> int:
        if self._times_from is None:
            self._times_from = time - max(self._now, arrived)
        due = time - self._times_from
        if due < self._now - STEP_US:  # set back
            due = self._now + step
        elif due > max(self._now, arrived) + STEP_US:  # set forward: nothing arrives before it is published
            due = max(self._now, arrived)
        else:
            return due
        self._times_from = time - due
        return due
