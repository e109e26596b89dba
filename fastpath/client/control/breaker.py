"""A circuit breaker with growing pauses, for a sidecar that has not answered in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PAUSE_SECONDS = 2.0
"""Seconds without a question after the first time-out; each further one in a row doubles them."""

PAUSE_SECONDS_MAX = 8.0
"""Seconds of a pause at most, so that a sidecar that is back is found within that time."""


class Breaker:
    """A circuit breaker: closed while answers come, open for a pause after a time-out.

    Nobody asks during the pause; then one call does, alone. ``trial_seconds`` is how long that call may take before
    another one tries. Safe to share between threads.
    """

    def __init__(self, trial_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._trial_seconds = trial_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._timeouts = 0
        self._opened_at = 0.0
        self._until = 0.0

    def refusal(self) -> str:
        """Return the reason why the sidecar should not be asked now; empty when it may be asked."""
        with self._lock:
            left = self._until - self._clock() if self._timeouts else 0
        return f"it did not answer in time; it is asked again within {max(0.1, left):.1f} s" if left > 0 else ""

    def admit(self) -> str:
        """Return the refusal for a caller about to ask, or an empty text; let one through on trial after a pause."""
        with self._lock:
            now = self._clock()
            if self._timeouts and now >= self._until:
                self._until = now + self._trial_seconds
                return ""
        return self.refusal()

    def close(self) -> None:
        """Close the breaker: the sidecar has answered, or said at once that it cannot."""
        with self._lock:
            self._timeouts = 0

    def open(self, asked_at: float) -> None:
        """Note that a question asked at that time (of the clock) had no answer; several asked beside each other count
        once."""
        with self._lock:
            if self._timeouts and asked_at < self._opened_at:
                return
            self._opened_at = self._clock()
            self._until = self._opened_at + min(PAUSE_SECONDS * 2**self._timeouts, PAUSE_SECONDS_MAX)
            self._timeouts += 1
