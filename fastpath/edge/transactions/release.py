"""Releases a committed batch: its rows become publications, one slice in a turn of the loop (protocol.md 6.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TypeVar

import msgspec

from ...core.broker.column_batches import RunOutcome, release_runs
from ...core.broker.staged_rows import runs_of
from ...core.protocol.columns import ColumnBatch, count, part
from ...core.protocol.packets import Refusal
from ...engine.staging.store import DONE, UNAVAILABLE, Chunk, StagingFailed, StagingRecord
from ..runtime.runtime import Runtime, now
from ..runtime.turns import TURN_SECONDS

SLICE_ROWS_MIN, SLICE_ROWS_MAX = 20, 2000
"""Rows in a slice: as many as take TURN_SECONDS, within these."""

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.05, 1.0
"""How long to wait before what cannot be stored at this moment is tried again: twice as long each time."""

PATIENCE_SECONDS = 30.0
"""After so long without a row stored the commit is answered ``unavailable``; it stays begun, and is tried again."""

REFUSED_MAX = 100
"""Refused rows that are told one by one."""

PASSING = ("failed", "unavailable", "not_ready")
"""Codes of what may go well later."""

BROKEN = "broken"

T = TypeVar("T")


async def turn(hub: Runtime, work: Callable[[], T]) -> T:
    """Do it in a turn of the loop that it has for itself (edge/runtime/turns.py)."""
    done: asyncio.Future[T] = hub.loop.create_future()

    def go_on() -> None:
        if done.done():
            return
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    hub.turns.later(go_on)
    return await done


class CommitRelease:
    """A batch on its way out.

    Begun again after a crash the release does the same: what is stored has its number. What this process has settled of
    it in a try ``before`` is not done again, so that refused rows are still known.
    """

    def __init__(self, hub: Runtime, key: str, record: StagingRecord, before: CommitRelease | None = None) -> None:
        self.rows = 0
        """How many are stored or refused."""
        self._hub = hub
        self._record = record
        self._publisher = publisher_of(key, record)
        self._partition = 0
        self._row = 0  # of the partition, those counted that were refused when it was staged
        self._slice_rows = 200
        self._refused: list[tuple[int, int, str, str, str]] = []
        self._refused_rows = self._outdated = self._rows_before = 0
        if before is not None and before._record == record:
            self._refused, self._refused_rows, self._outdated = before._refused, before._refused_rows, before._outdated
            self._rows_before = max(before.rows, before._rows_before)

    def next_partition(self, partition: int) -> None:
        """Go on to the partition: what follows is of this one."""
        self._partition, self._row = partition, 0

    async def chunk(self, chunk: Chunk) -> None:
        """Release what one frame has brought; raises StagingFailed where it cannot go on now."""
        places = _places(chunk)
        rows = 0
        try:
            runs = await turn(self._hub, lambda: runs_of(chunk.data))
        except msgspec.DecodeError as error:
            raise StagingFailed(BROKEN, f"a staged chunk cannot be read: {error}") from None
        rest = list(reversed(runs))
        while rest:
            settled = self._rows_before - self.rows
            if settled > 0:
                skipped = count(_cut(rest, settled))
                self.rows += skipped
                rows += skipped
                continue
            piece = list(_cut(rest, self._slice_rows))
            for run, outcome in zip(piece, await self._publish(piece), strict=True):
                if not isinstance(outcome, int):
                    self._refuse(run, outcome, places[rows : rows + len(run)])
                rows += len(run)
        self._row += chunk.rows + len(chunk.refused)

    async def settled(self) -> None:
        """All that was released is as safe as the engine makes it: with a journal, on the disk."""
        engine = self._hub.broker.engine
        pause, patience = RETRY_SECONDS_MIN, PATIENCE_SECONDS
        while True:
            synced: asyncio.Future[None] = self._hub.loop.create_future()
            engine.when_safe(lambda synced=synced: synced.done() or synced.set_result(None))  # type: ignore[misc]
            await synced
            if not engine.trouble:
                return
            patience -= pause
            if patience < 0:
                raise StagingFailed(UNAVAILABLE, engine.trouble)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def done(self, time: int) -> StagingRecord:
        """Return the record of the finished batch, as it is to be remembered."""
        return msgspec.structs.replace(
            self._record,
            state=DONE,
            refused=self._refused,
            refused_rows=self._refused_rows,
            outdated=self._outdated,
            time=time,
        )

    async def _publish(self, runs: list[ColumnBatch]) -> list[RunOutcome]:
        """An outcome for each run; what cannot be stored at this moment is tried until it is."""
        final: list[RunOutcome] = []
        pause, patience = RETRY_SECONDS_MIN, PATIENCE_SECONDS
        while True:
            outcomes = await self._slice(runs)
            settled = _settled(outcomes)
            final += outcomes[:settled]
            self.rows += count(runs[:settled])
            if settled == len(runs):
                return final
            runs = runs[settled:]
            if settled:
                pause, patience = RETRY_SECONDS_MIN, PATIENCE_SECONDS
            if patience < 0:
                raise StagingFailed(UNAVAILABLE, str(outcomes[settled][1]))  # type: ignore[index]
            patience -= pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def _slice(self, runs: list[ColumnBatch]) -> list[RunOutcome]:
        """Publish them in one turn. With Redis, or a journal that syncs each batch, the answer comes later."""
        while self._hub.congested or self._hub.stale:  # noqa: ASYNC110 - what sets them knows of no waiting tasks
            await asyncio.sleep(RETRY_SECONDS_MIN)
        answered: asyncio.Future[list[RunOutcome]] = self._hub.loop.create_future()

        def told(outcomes: list[RunOutcome]) -> None:
            if not answered.done():  # this node stops
                answered.set_result(outcomes)

        def publish() -> None:
            began = perf_counter()
            first = self._record.base + 1 + self.rows
            release_runs(self._hub.broker, runs, self._publisher, first, now(), told)
            self._hub.end()
            self._adapt(count(runs), perf_counter() - began)

        await turn(self._hub, publish)
        return await answered

    def _adapt(self, rows: int, seconds: float) -> None:
        """Choose the next slice so that it takes what a slice may take; what costs more each row is felt at once."""
        fitting = int(rows * TURN_SECONDS / max(seconds, 1e-6))
        self._slice_rows = max(SLICE_ROWS_MIN, min(fitting, self._slice_rows * 2, SLICE_ROWS_MAX))

    def _refuse(self, run: ColumnBatch, refusal: Refusal, places: Iterator[int] | list[int] | range) -> None:
        code, reason = refusal
        if code == "outdated":
            self._outdated += len(run)
            return
        self._refused_rows += len(run)
        for place in places:
            if len(self._refused) >= REFUSED_MAX:
                break
            self._refused.append((self._partition, self._row + place, run.subject, code, reason))


def publisher_of(key: str, record: StagingRecord) -> str:
    """Under which name the rows of a transaction are numbered."""
    return f"{key}#{record.since}"


def _cut(rest: list[ColumnBatch], rows: int) -> Iterator[ColumnBatch]:
    """Return runs of so many rows, cut from the end of ``rest``, which keeps the others."""
    while rest and rows > 0:
        run = rest.pop()
        if len(run) > rows:
            rest.append(part(run, rows))
            run = part(run, 0, rows)
        rows -= len(run)
        yield run


def _settled(outcomes: list[RunOutcome]) -> int:
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
