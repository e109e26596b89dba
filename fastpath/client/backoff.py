"""The growing, random pause before the next attempt, so that a crowd does not return at once; pure."""

from __future__ import annotations

import random
from collections.abc import Callable

Draw = Callable[[], float]
"""Randomness: a number from 0 up to, but not, 1."""


class Backoff:
    """First some quick retries, the k-th after ``quick_seconds`` × k less a random part of ``quick_seconds``; then a
    random half to whole of ``backoff_seconds``, which doubles up to ``backoff_seconds_max`` (features.md D3)."""

    def __init__(
        self,
        quick_retries: int = 3,
        quick_seconds: float = 5,
        backoff_seconds: float = 20,
        backoff_seconds_max: float = 360,
        draw: Draw = random.random,
    ) -> None:
        if min(quick_retries, quick_seconds, backoff_seconds, backoff_seconds_max) < 0:
            raise ValueError("retries and seconds are not negative")
        self._quick_retries = quick_retries
        self._quick = quick_seconds
        self._first = backoff_seconds
        self._max = backoff_seconds_max
        self._draw = draw
        self.failures = 0

    def next_seconds(self) -> float:
        """Count a failure and return the pause before the next attempt, in seconds."""
        self.failures += 1
        if self.failures <= self._quick_retries:
            return self._quick * self.failures - self._draw() * self._quick
        # Beyond that many doublings the bound is reached; a float would overflow some day.
        doublings = min(self.failures - self._quick_retries - 1, 64)
        return min(self._max, self._first * 2.0**doublings) * (0.5 + self._draw() / 2)

    def reset(self) -> None:
        """Begin anew, as a connection has stood for long enough."""
        self.failures = 0


class Jitter:
    """Random pauses: ``next_seconds()`` draws from 0 to a bound that doubles with each call."""

    def __init__(
        self,
        first_seconds: float = 0.2,
        seconds_max: float = 10,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first = first_seconds
        self._max = seconds_max
        self._draw = draw
        self._bound = first_seconds

    def next_seconds(self) -> float:
        """Return the pause before the next attempt."""
        bound = self._bound
        self._bound = min(self._max, bound * 2)
        return self._draw(0, bound)

    def reset(self) -> None:
        """Begin anew after a successful attempt."""
        self._bound = self._first
