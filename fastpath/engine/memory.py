"""The embedded engine: numbers messages in memory, one epoch a process."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.messages import STANDARD, Message


class MemoryEngine:
    """Numbers each subject's guaranteed messages from 1 on, within the epoch of this process.

    The epoch is the start time in ms: a client that comes back with a position of an earlier process is told that it
    was resynchronised, never given other messages under the same numbers.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._sequences: dict[str, int] = {}

    def append(self, messages: Sequence[Message], now: int) -> None:
        """Give each message its time and, unless it is of standard quality, its position: one atomic step."""
        sequences = self._sequences
        for message in messages:
            message.time = now
            if message.qos != STANDARD:
                subject = message.subject
                message.epoch = self.epoch
                message.seq = sequences[subject] = sequences.get(subject, 0) + 1

    def resume(self, subject: str, seq: int) -> None:
        """Number the subject's next message after ``seq``."""
        self._sequences[subject] = seq
