"""A server as a publisher sees it: it stores a number once, and refuses one that comes too late (protocol.md 3.7)."""

from __future__ import annotations

from typing import Any


class LedgerServer:
    """Of one publisher; what it answers may get lost, what it stored may not."""

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self._seqs: dict[int, int] = {}
        self._last = 0
        self._held = 0
        """The first number that was answered ``unavailable`` and has not come again."""

    def store(self, number: int, content: Any, trouble: str = "") -> int | tuple[str, str]:
        """The sequence number, or a refusal. ``trouble``: it answers so; ``lost`` stores and answers unavailable."""
        if trouble == "not_ready":
            return "not_ready", "no rights"
        if number <= self._held:
            self._held = 0
        if number in self._seqs:
            return self._seqs[number]
        if self._held and number > self._held:
            return "unavailable", "an earlier one has to come first"
        if trouble == "unavailable":
            self._held = number
            return "unavailable", "away"
        if number <= self._last:
            return "out_of_order", "later ones are stored"
        self._last = number
        self.stored.append(content)
        self._seqs[number] = len(self.stored)
        if trouble == "lost":
            return "unavailable", "perhaps stored"
        return len(self.stored)
