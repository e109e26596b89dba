"""Which subjects messages come for: all messages are looked at while they are few, else some.

docs/operate/figures.md explains it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from itertools import pairwise

from ..protocol.messages import Message

WINDOW_SECONDS = 10
"""Rates are over the last whole seconds, so many."""

SAMPLES_MAX = 1000
"""Messages looked at each second; in the first second of a higher load a few times as many."""

_RUSH = SAMPLES_MAX * 3 // 2  # so many in a second are more than was to be expected by the second before

MERGED_AT_ONCE = 200
"""Subjects put together between two interruptions."""

_MULTIPLIER, _INCREMENT, _MODULUS = 1664525, 1013904223, 1 << 32  # Numerical Recipes' generator

Counts = dict[str, list[int]]
"""Messages and bytes by subject."""


class HeavyHitters:
    """Looks at one of ``every`` messages on average, each standing for as many; ``turn`` is called once a second.

    Distances vary, or subjects that take turns would be looked at in step with them. ``next`` is the number of the
    message, counted from the first one on, that is looked at next. What is kept are a few thousand samples at most.
    """

    def __init__(self, number: int) -> None:
        """Begin to look; ``number``: how many messages have come so far."""
        self.next = number + 1
        self.every = 1
        self._seed = 1
        self._counted = number
        self.samples = 0
        """Messages looked at in this second."""
        self._bound = _RUSH
        self._now: Counts = {}
        self._past: deque[tuple[Counts, float]] = deque(maxlen=WINDOW_SECONDS)

    def look(self, messages: Sequence[Message], number: int) -> int:
        """Look at messages, the last of them the ``number``-th, and ``next`` is among them; return the new ``next``."""
        counts, count = self._now, len(messages)
        at = self.next - (number - count) - 1
        self.every = max(self.every, count // SAMPLES_MAX)
        while at < count:
            message, every = messages[at], self.every
            found = counts.get(message.subject)
            if found is None:
                found = counts[message.subject] = [0, 0]
            found[0] += every
            found[1] += every * message.size
            self.samples += 1
            if self.samples >= self._bound:
                self._bound += SAMPLES_MAX // 2
                self.every = every * 2
            at += self._distance() if self.every > 1 else 1
        self.next = number - count + at + 1
        return self.next

    def turn(self, number: int, seconds: float) -> None:
        """Begin another second: so many messages have come by now, and so long is it since the last call."""
        self._past.append((self._now, seconds))
        self.every = max(1, round((number - self._counted) / SAMPLES_MAX))
        self._now, self._counted = {}, number
        self.samples, self._bound = 0, _RUSH
        self.next = min(self.next, number + self.every)

    def totals(self) -> Generator[None, None, tuple[Counts, float]]:
        """Return what came in the window, and its length in seconds; yield where it may be interrupted.

        Before the first second is over: what has come so far.
        """
        past = list(self._past) or [(dict(self._now), 1.0)]
        totals: Counts = {}
        for counts, _ in past:
            rows = list(counts.items())
            for start, end in pairwise((*range(0, len(rows), MERGED_AT_ONCE), len(rows))):
                for subject, (messages, size) in rows[start:end]:
                    found = totals.setdefault(subject, [0, 0])
                    found[0] += messages
                    found[1] += size
                yield
        return totals, max(sum(seconds for _, seconds in past), 0.001)

    def _distance(self) -> int:
        """Return the distance to the next message that is looked at: 1 to 2 · every − 1."""
        self._seed = (self._seed * _MULTIPLIER + _INCREMENT) % _MODULUS
        return 1 + (self._seed * (2 * self.every - 1) >> 32)
