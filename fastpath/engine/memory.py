"""The embedded engine: numbers messages in memory, and knows which publications it has stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from ..core.broker.admission import Done, Outcome
from ..core.broker.broker import Broker
from ..core.cache.deduplication import Deduplicator
from ..core.protocol.columns import ColumnBatch
from ..core.protocol.messages import STANDARD, Message
from ..core.protocol.packets import Refusal
from .base import Engine

if TYPE_CHECKING:
    from ..settings import Settings


class MemoryEngine(Engine):
    """Numbers each subject's guaranteed messages from 1 on, within the epoch of this process.

    The epoch is the start time in ms: a client that comes back with a position of an earlier process is told that it
    was resynchronised, never given other messages under the same numbers.
    """

    name = "memory"

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.deduplicator = Deduplicator()
        self._sequences: dict[str, int] = {}

    @classmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        del settings
        return cls(clock())

    def attach(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def numbering(self) -> Self:
        return self

    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Engine: all of it before this returns."""
        outcomes = self.append(messages, now)
        if outcomes is None and done is None:
            self._broker.deliver(messages)  # as ``numbered`` does where nobody waits for the outcomes
            return
        if outcomes is not None:
            self._broker.counters.failed(outcomes)
        self._broker.numbered(messages, outcomes, done)

    def tick(self, now: int) -> None:
        """Engine: publishers of whom nothing has come for long are forgotten."""
        self.deduplicator.expire(now)

    def append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Give each message its time and, unless it is of standard quality, its position: one atomic step.

        None when all are new, else an outcome for each: a publication that has been stored is not numbered again.
        """
        sequences = self._sequences
        outcomes: list[Outcome] | None = None
        for index, message in enumerate(messages):
            message.time = now
            if message.qos != STANDARD:
                publication = message.publication
                if publication:
                    known = self.deduplicator.find(message.publisher or "", publication)
                    if known is not None:
                        outcomes = outcomes or [one.seq for one in messages[:index]]
                        outcomes.append(known)
                        continue
                subject = message.subject
                message.epoch = self.epoch
                message.seq = sequences[subject] = sequences.get(subject, 0) + 1
                if publication:
                    self.deduplicator.note(message.publisher or "", publication, self.epoch, message.seq, now)
            if outcomes is not None:
                outcomes.append(message.seq)
        return outcomes

    def stored(self, publisher: str) -> int:
        """Return the publisher's last number: up to there its publications need not be stored again."""
        return self.deduplicator.last(publisher)

    def append_runs(self, runs: Sequence[ColumnBatch], publisher: str, last: int, now: int) -> list[int] | Refusal:
        """Number the rows of the runs, new publications of which the last one is the publisher's ``last``: all in one
        step, or none. The position of each run's first row, 0 for a run of standard quality; or why not."""
        starts, ends = self._places(runs)
        self._number_runs(ends, publisher, last, now)
        return starts

    def _places(self, runs: Sequence[ColumnBatch]) -> tuple[list[int], dict[str, int]]:
        """Return where each run would begin, and how far each subject's numbers would have come."""
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
        self.deduplicator.advance(publisher, last, now)

    def resume(self, subject: str, seq: int) -> None:
        """Number the subject's next message after ``seq``."""
        self._sequences[subject] = seq

    def begin_after(self, epoch: int) -> None:
        """Number from now on in an epoch that is later than this one."""
        self.epoch = max(self.epoch, epoch + 1)
