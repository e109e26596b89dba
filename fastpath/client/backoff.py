"""How long to wait before the next attempt: doubling, with full jitter."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """``next_seconds()`` draws from 0 to a bound that doubles with each call: a crowd does not return at once."""

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
        """The pause before the next attempt."""
        bound = self._bound
        self._bound = min(self._max, bound * 2)
        return self._draw(0, bound)

    def reset(self) -> None:
        """An attempt was successful: begin anew."""
        self._bound = self._first
