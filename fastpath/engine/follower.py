"""What stands for the engine in a worker that does not number messages."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.broker.admission import Outcome
from ..core.protocol.messages import Message


class FollowerEngine:
    """Knows the epoch of the first worker's engine; messages come numbered from there."""

    def __init__(self) -> None:
        self.epoch = 0

    def append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Never called: the broker hands its publications upstream."""
        del messages, now
        raise AssertionError("a worker that follows does not number messages")
