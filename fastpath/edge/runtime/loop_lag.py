"""How late the loop comes to what is due, which everybody waits for in the worst case, and how long it had no CPU."""

from __future__ import annotations

from time import monotonic


class LoopLag:
    """Watches a timer that comes again and again; the longest delay of the last whole second is kept."""

    __slots__ = ("_began", "_due", "_last", "_longest")

    def __init__(self) -> None:
        self._due = 0.0
        self._began = monotonic()
        self._longest = self._last = 0.0

    def expect(self, delay: float) -> None:
        """Expect the timer in so many seconds."""
        self._due = monotonic() + delay

    def came(self) -> None:
        """Note that the expected timer came, and how late."""
        moment = monotonic()
        if self._due:
            self._longest = max(self._longest, moment - self._due)
        if moment - self._began >= 1:
            self._last, self._longest, self._began = self._longest, 0.0, moment

    @property
    def longest_ms(self) -> float:
        """The longest delay in ms, of the last second that is over or of the one that runs."""
        return round(1000 * max(self._last, self._longest), 1)


def waited_seconds() -> float:
    """Return how long the first thread, the loop's, has waited since it began, by Linux' /proc; 0 where that does not
    tell."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0
