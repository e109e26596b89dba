"""The embedded engine: numbers messages in memory, and knows which publications it has stored."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.broker.admission import Outcome
from ..core.cache.deduplication import Ledger
from ..core.protocol.columns import Run
from ..core.protocol.messages import STANDARD, Message
from ..core.protocol.packets import Refusal


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

    def stored(self, publisher: str) -> int:
        """The publisher's last number: up to there its publications need not be stored again."""
        return self.ledger.last(publisher)

    def append_runs(self, runs: Sequence[Run], publisher: str, last: int, now: int) -> list[int] | Refusal:
        """Number the rows of the runs, new publications of which the last one is the publisher's ``last``: all in one
        step, or none. The position of each run's first row, 0 for a run of standard quality; or why not."""
        starts, ends = self._places(runs)
        self._number_runs(ends, publisher, last, now)
        return starts

    def _places(self, runs: Sequence[Run]) -> tuple[list[int], dict[str, int]]:
        """Where each run would begin, and how far each subject's numbers would have come."""
        sequences = self._sequences
        starts: list[int] = []
        ends: dict[str, int] = {}
        for run in runs:
            if run.meta and run.standard:
                starts.append(0)
                continue
            subject = run.subject
            before = ends.get(subject) or sequences.get(subject, 0)
            starts.append(before + 1)
            ends[subject] = before + len(run.contents)
        return starts, ends

    def _number_runs(self, ends: dict[str, int], publisher: str, last: int, now: int) -> None:
        self._sequences.update(ends)
        self.ledger.advance(publisher, last, now)

    @property
    def trouble(self) -> str:
        """Why nothing can be stored at this moment; empty: it can."""
        return ""

    def resume(self, subject: str, seq: int) -> None:
        """Number the subject's next message after ``seq``."""
        self._sequences[subject] = seq
