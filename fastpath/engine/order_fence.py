"""Whose publications wait for an earlier one that could not be stored: nothing overtakes it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf

from ..core.protocol.messages import Message
from ..core.protocol.packets import Refusal

HELD: Refusal = ("unavailable", "an earlier publication of this publisher could not be stored: it has to come first")
"""Answer to publications that wait for an earlier one."""

HELD_SECONDS = 3.0
"""Seconds that the publications behind one that could not be stored wait for it to come again, once publications are
stored again. Client libraries send it after half a second."""

HELD_SECONDS_MAX = 60.0
"""The same while nothing is stored."""

SWEEP_SECONDS = 1.0
SWEPT_MAX = 1000


class OrderFence:
    """Publishers of whom a publication could not be stored: what comes behind it waits too, or it would be stored
    first, and then be out of order when it comes again.

    A publisher sends what could not be stored again soon, before anything later. So this is for what was on its way by
    then, and is over for a publisher who sends something later twice: he has given the other up.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # By publisher, in the order of the time: number of that publication, since when, highest number refused.
        self._held: OrderedDict[str, tuple[int, float, int]] = OrderedDict()
        self._back = -inf
        self._sweep_at = -inf

    def __len__(self) -> int:
        return len(self._held)

    def away(self) -> None:
        """Note that nothing is stored for now."""
        self._back = inf

    def back(self) -> None:
        """Note that publications are stored again: the wait will be over soon."""
        self._back = self._clock()

    def note(self, messages: Sequence[Message]) -> None:
        """Note messages that could not be stored."""
        now = self._clock()
        for message in messages:
            if message.publication and message.publisher is not None:
                held = self._held.get(message.publisher)
                if held is None or message.publication <= held[0] or self._over(held[1], now):
                    self._held[message.publisher] = message.publication, now, 0
                    self._held.move_to_end(message.publisher)

    def refused(self, messages: Sequence[Message], why: Refusal) -> dict[int, Refusal]:
        """Return those of the messages, by their index, that come too early."""
        now = self._clock()
        if now >= self._sweep_at:
            self._sweep(now)
        refused: dict[int, Refusal] = {}
        for index, message in enumerate(messages):
            publisher = message.publisher
            held = self._held.get(publisher) if publisher is not None else None
            if held is None or publisher is None or not message.publication:
                continue
            number, since, highest = held
            if highest < message.publication > number and not self._over(since, now):
                self._held[publisher] = number, since, message.publication
                refused[index] = why
            else:
                del self._held[publisher]
        return refused

    def _sweep(self, now: float) -> None:
        self._sweep_at = now + SWEEP_SECONDS
        for _ in range(min(SWEPT_MAX, len(self._held))):
            if not self._over(next(iter(self._held.values()))[1], now):
                break
            self._held.popitem(last=False)

    def _over(self, since: float, now: float) -> bool:
        return now > min(max(since, self._back) + HELD_SECONDS, since + HELD_SECONDS_MAX)
