"""What stands for the engine in a worker that does not number messages, and how the one that does is listened to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.messages import Message
from .memory import MemoryEngine


class FollowerEngine:
    """Knows the epoch of the first worker's engine; messages come numbered from there."""

    def __init__(self) -> None:
        self.epoch = 0

    def append(self, messages: Sequence[Message], now: int) -> None:
        """Never called: the broker hands its publications upstream."""
        del messages, now
        raise AssertionError("a worker that follows does not number messages")


class LoggedEngine(MemoryEngine):
    """The embedded engine of the first worker: tells ``log`` of everything it has numbered, in order."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.log: Callable[[Sequence[Message]], None] | None = None

    def append(self, messages: Sequence[Message], now: int) -> None:
        """Number them, then tell."""
        super().append(messages, now)
        if self.log is not None:
            self.log(messages)
