"""The course of one commit: what comes next for it, by what is remembered of its transaction.

A state machine without I/O (features.md B5). The edge reads and writes the records, looks what is staged, and
publishes; it tells the machine what came of it, and takes the step that is the answer.

State      Event                                              Step      Next state
asked      ``read``: nothing is known, or an earlier batch    BEGIN     beginning
           is done
           an earlier batch was begun                         RELEASE   finishing
           this batch was begun                               PROBE     probing
           this batch is done                                 REPEATED  over
           a later batch is known                             STALE     over
finishing  ``released``: the earlier batch is done            BEGIN     beginning
probing    ``probed``: its rows are gone, and none is stored  BEGIN     beginning
           it can be released                                 RELEASE   releasing
beginning  ``begun``: the record that counts is of this batch RELEASE   releasing
           it is done: another node was faster                REPEATED  over
           it is of another batch                             STALE     over
releasing  ``released``: all of it is stored                  DONE      over

An event that a state does not have is a fault of the caller, and raises AssertionError.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

import msgspec

from ..protocol.packets import PUBLICATION_MAX
from .records import BEGUN, DONE, StagingFailed, StagingRecord


class State(Enum):
    """The state of a commit: how far it is."""

    ASKED = auto()
    FINISHING = auto()
    PROBING = auto()
    BEGINNING = auto()
    RELEASING = auto()
    OVER = auto()


class Step(Enum):
    """The next thing to be done for a commit."""

    BEGIN = auto()
    """Store a record (``first_record``) that comes behind ``record``; then ``begun``."""
    PROBE = auto()
    """Look whether the batch of ``record`` came to nothing; then ``probed``."""
    RELEASE = auto()
    """Publish all rows of the batch of ``record``; then ``released``."""
    DONE = auto()
    """Answer by ``record``: the batch is committed."""
    REPEATED = auto()
    """Answer by ``record``: the batch was committed before."""
    STALE = auto()
    """Refuse: another batch, that of ``record``, was begun after this one."""


class Next(NamedTuple):
    """A step, and the record that it is about."""

    step: Step
    record: StagingRecord | None


class CommitCourse:
    """The course of the commit of one batch."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.state = State.ASKED
        self._record: StagingRecord | None = None

    def read(self, record: StagingRecord | None) -> Next:
        """Read what is remembered of the transaction, its last batch; None: nothing."""
        assert self.state is State.ASKED
        if record is None or (record.batch < self.batch and record.state == DONE):
            return self._go(State.BEGINNING, Step.BEGIN, record)
        if record.batch < self.batch:
            return self._go(State.FINISHING, Step.RELEASE, record)
        if record.batch > self.batch:
            return self._go(State.OVER, Step.STALE, record)
        if record.state == DONE:
            return self._go(State.OVER, Step.REPEATED, record)
        return self._go(State.PROBING, Step.PROBE, record)

    def probed(self, *, nothing: bool) -> Next:
        """Go on with a batch that was begun; ``nothing``: none of its rows is stored, nor are they staged.

        Then whoever committed was told that the batch could not be begun, and dropped the rows, and yet its record has
        come to the disk. The batch begins anew, with the same numbers.
        """
        assert self.state is State.PROBING and self._record is not None
        if nothing:
            return self._go(State.BEGINNING, Step.BEGIN, msgspec.structs.replace(self._record, rows=0))
        return self._go(State.RELEASING, Step.RELEASE, self._record)

    def begun(self, record: StagingRecord) -> Next:
        """Go on by the record that counts: the one that was to be stored, or another node's, which was first."""
        assert self.state is State.BEGINNING
        if record.batch != self.batch:
            return self._go(State.OVER, Step.STALE, record)
        if record.state == DONE:
            return self._go(State.OVER, Step.REPEATED, record)
        return self._go(State.RELEASING, Step.RELEASE, record)

    def released(self, record: StagingRecord) -> Next:
        """Go on behind the batch that was to be released, which is done, as the record says."""
        if self.state is State.FINISHING:
            return self._go(State.BEGINNING, Step.BEGIN, record)
        assert self.state is State.RELEASING
        return self._go(State.OVER, Step.DONE, record)

    def _go(self, state: State, step: Step, record: StagingRecord | None) -> Next:
        self.state, self._record = state, record
        return Next(step, record)


def first_record(
    batch: int,
    winners: list[tuple[int, int, int]],
    before: StagingRecord | None,
    now: int,
    *,
    once: bool,
) -> StagingRecord:
    """Return the record of a batch that begins behind ``before``, at ``now`` (ms); raise StagingFailed where no number
    is left."""
    rows = sum(count for _, _, count in winners)
    base = before.base + before.rows if before is not None else 0
    if base + rows > PUBLICATION_MAX:
        raise StagingFailed("stale", f"a transaction has at most {PUBLICATION_MAX} rows")
    since = 0 if once else before.since if before is not None else now
    return StagingRecord(batch, winners, base, rows, BEGUN, [], 0, 0, now, since, once)
