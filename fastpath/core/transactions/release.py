"""How far a batch is on its way out: which row comes next, under which number, and which ones were refused.

The edge publishes a piece in a turn of the loop, tells the outcomes, and waits where nothing can be stored. Begun again
after a crash the release does the same: what is stored has its number. What this process has settled in a try before
that one is not done again, so that refused rows are still known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..broker.column_batches import RunOutcome
from ..protocol.columns import ColumnBatch, count, part
from ..protocol.packets import Refusal
from .records import DONE, Chunk, StagingRecord

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 1.0
"""Seconds to wait before what cannot be stored at this moment is tried again: twice as long each time."""

PATIENCE_SECONDS = 30.0
"""Seconds without a row stored after which the commit is answered ``unavailable``; it stays begun, and is tried
again."""

REFUSED_MAX = 100
"""Refused rows that are told one by one."""

PASSING = ("failed", "unavailable", "not_ready")
"""Codes of what may go well later."""


class Patience:
    """The time to wait for what cannot be stored at this moment."""

    def __init__(self) -> None:
        self._pause, self._left = PAUSE_SECONDS_MIN, PATIENCE_SECONDS

    def wait(self) -> float | None:
        """Return the seconds until the next try; None when the patience is over."""
        if self._left < 0:
            return None
        pause = self._pause
        self._left -= pause
        self._pause = min(pause * 2, PAUSE_SECONDS_MAX)
        return pause


class ReleaseCursor:
    """The place in a begun batch up to which its rows are settled: stored, or refused for good."""

    def __init__(self, record: StagingRecord, before: ReleaseCursor | None = None) -> None:
        self.record = record
        self.rows = 0
        """Number of rows that are settled."""
        self._partition = 0
        self._row = self._chunk_rows = 0  # of the partition where the chunk begins, and of the chunk: staged or not
        self._places: Sequence[int] = ()
        self._at = 0  # of the chunk's staged rows
        self._rest: list[ColumnBatch] = []  # of the chunk, the next one last
        self._refused: list[tuple[int, int, str, str, str]] = []
        self._refused_rows = self._outdated = self._rows_before = 0
        if before is not None and before.record == record:
            self._refused, self._refused_rows, self._outdated = before._refused, before._refused_rows, before._outdated
            self._rows_before = max(before.rows, before._rows_before)

    def next_partition(self, partition: int) -> None:
        """Go on to the partition: the chunks that follow are of this one."""
        self._partition, self._row, self._chunk_rows = partition, 0, 0

    def next_chunk(self, chunk: Chunk, runs: Sequence[ColumnBatch]) -> None:
        """Go on to the chunk, with these rows in it; what was settled in the try before is passed over."""
        self._row += self._chunk_rows
        self._chunk_rows = chunk.rows + len(chunk.refused)
        self._places = _places(chunk)
        self._rest = list(reversed(runs))
        self._at = count(_cut(self._rest, self._rows_before - self.rows))
        self.rows += self._at

    def piece(self, rows: int) -> list[ColumnBatch]:
        """Return the chunk's next rows, so many at most; none when the chunk is settled."""
        return list(_cut(self._rest, rows))

    @property
    def first(self) -> int:
        """The number of the row that is settled next."""
        return self.record.base + 1 + self.rows

    def settle(self, piece: list[ColumnBatch], outcomes: Sequence[RunOutcome]) -> list[ColumnBatch]:
        """Note what became of the piece; the end of it that cannot be stored at this moment, to be tried again."""
        final = _settled(outcomes)
        for run, outcome in zip(piece[:final], outcomes[:final], strict=True):
            if not isinstance(outcome, int):
                self._refuse(run, outcome)
            self._at += len(run)
            self.rows += len(run)
        return piece[final:]

    def done(self, now: int) -> StagingRecord:
        """Return the record of the finished batch, as it is to be remembered; ``now`` in ms."""
        return msgspec.structs.replace(
            self.record,
            state=DONE,
            refused=self._refused,
            refused_rows=self._refused_rows,
            outdated=self._outdated,
            time=now,
        )

    def _refuse(self, run: ColumnBatch, refusal: Refusal) -> None:
        code, reason = refusal
        if code == "outdated":
            self._outdated += len(run)
            return
        self._refused_rows += len(run)
        for place in self._places[self._at : self._at + min(len(run), REFUSED_MAX - len(self._refused))]:
            self._refused.append((self._partition, self._row + place, run.subject, code, reason))


def publisher_of(key: str, record: StagingRecord) -> str:
    """Return the name under which the rows of a transaction are numbered."""
    return f"{key}#{record.since}"


def _cut(rest: list[ColumnBatch], rows: int) -> Iterator[ColumnBatch]:
    """Yield runs of so many rows, cut from the end of ``rest``, which keeps the others."""
    while rest and rows > 0:
        run = rest.pop()
        if len(run) > rows:
            rest.append(part(run, rows))
            run = part(run, 0, rows)
        rows -= len(run)
        yield run


def _settled(outcomes: Sequence[RunOutcome]) -> int:
    """Return how many outcomes are final: up to the first not stored now that has nothing stored behind it."""
    settled = len(outcomes)
    for index in reversed(range(len(outcomes))):
        outcome = outcomes[index]
        if isinstance(outcome, int):
            if outcome:
                break
        elif outcome[0] in PASSING:
            settled = index
    return settled


def _places(chunk: Chunk) -> list[int] | range:
    """Return where each staged row stood in its frame."""
    if not chunk.refused:
        return range(chunk.rows)
    refused = {place for place, _, _ in chunk.refused}
    return [place for place in range(chunk.rows + len(refused)) if place not in refused]
