"""The lateness of sent messages: a table of counts, of constant size."""

from __future__ import annotations

from array import array

STEP_SECONDS = 0.0001
STEPS = 20_000
"""Two seconds; what is later counts in the last step, and in ``max_ms``."""


class Lateness:
    """Counts of seconds, exact to 0.1 ms."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._steps = array("Q", bytes(8 * STEPS))

    def add(self, seconds: float, count: int = 1) -> None:
        """Count messages that were sent ``seconds`` late."""
        self._steps[min(max(0, int(seconds / STEP_SECONDS)), STEPS - 1)] += count
        self.count += count
        self.max_ms = max(self.max_ms, 1000 * seconds)

    def percentile_ms(self, percent: float) -> float:
        """Return the lateness in ms that this share of the messages did not exceed; 0 without any message."""
        wanted, found = self.count * percent / 100, 0
        for step, count in enumerate(self._steps):
            found += count
            if found >= wanted and found:
                return min(self.max_ms, 1000 * STEP_SECONDS * (step + 1))
        return 0.0
