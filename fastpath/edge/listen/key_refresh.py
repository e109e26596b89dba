"""When a JWK set that lies at an address is fetched: at the start, now and then, and when a token names a key of it.

| what happened | when it is fetched next |
|---|---|
| the start | at once |
| it came | after ``seconds`` |
| it did not come | after 1 s, then after twice as long each time, at most a minute and at most ``seconds`` |
| a token names a key that is not in it | at once, but 10 s after the last time at least, and not while it backs off |
"""

from __future__ import annotations

WANTED_SECONDS_MIN = 10.0
"""Seconds between two fetches at least, however many tokens come of keys that are none."""

BACKOFF_SECONDS_MIN = 1.0
BACKOFF_SECONDS_MAX = 60.0


class KeyRefresh:
    """The times are those of a clock that only goes forward, in seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._last = float("-inf")
        self._pause = 0.0
        self._busy = False

    def begin(self, now: float) -> bool:
        """Return True if the set is to be fetched now; that is under way then, until one of the two below is called."""
        if self._busy or now < self._next:
            return False
        self._busy = True
        return True

    def came(self, now: float) -> None:
        """Note that the set has come."""
        self._busy, self._pause, self._last = False, 0.0, now
        self._next = now + self._seconds

    def failed(self, now: float) -> None:
        """Note that the set did not come, or is no JWK set."""
        self._pause = min(max(BACKOFF_SECONDS_MIN, self._pause * 2), BACKOFF_SECONDS_MAX, self._seconds)
        self._busy, self._last = False, now
        self._next = now + self._pause

    def want(self) -> None:
        """Fetch soon, as a token names a key that is not there: it may be new."""
        if not self._pause:
            self._next = min(self._next, self._last + WANTED_SECONDS_MIN)

    def hurry(self) -> None:
        """Fetch at once, as the operator says."""
        self._next = 0.0
