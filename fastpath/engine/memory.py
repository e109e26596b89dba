"""The embedded engine: numbers messages in memory, and knows which publications it has stored."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.admission import Outcome
from ..core.ledger import Ledger
from ..core.messages import STANDARD, Message


class MemoryEngine:
    """Numbers each subject's guaranteed messages from 1 on, within the epoch of this process.

    The epoch is the start time in ms: a client that comes back with a position of an earlier process is told that it
    was resynchronised, never given other messages under the same numbers.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ledger = Ledger()
        self._sequences: dict[str, int] = {}

    def append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Give each message its time and, unless it is of standard quality, its position: one atomic step.

        None when all are new, else an outcome for each: a publication that has been stored is not numbered again.
        """
        sequences = self._sequences
        outcomes: list[Outcome] | None = None
        for index, message in enumerate(messages):
            message.time = now
            if message.qos != STANDARD:
                if message.publication:
                    known = self.ledger.find(message.publisher or "", message.publication)
                    if known is not None:
                        outcomes = outcomes or [one.seq for one in messages[:index]]
                        outcomes.append(known)
                        continue
                subject = message.subject
                message.epoch = self.epoch
                message.seq = sequences[subject] = sequences.get(subject, 0) + 1
                if message.publication:
                    self.ledger.note(message.publisher or "", message.publication, self.epoch, message.seq, now)
            if outcomes is not None:
                outcomes.append(message.seq)
        return outcomes

    @property
    def trouble(self) -> str:
        """Why nothing can be stored at this moment; empty: it can."""
        return ""

    def resume(self, subject: str, seq: int) -> None:
        """Number the subject's next message after ``seq``."""
        self._sequences[subject] = seq
