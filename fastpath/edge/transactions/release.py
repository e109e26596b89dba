"""Releases a committed batch: its rows become publications, one slice in a turn of the loop (protocol.md 6.8).

Which rows come next, and what was refused, core/transactions/release.py knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

import msgspec

from ...core.broker.column_batches import RunOutcome, release_runs
from ...core.broker.staged_rows import runs_of
from ...core.protocol.columns import ColumnBatch, count
from ...core.transactions.records import UNAVAILABLE, Chunk, StagingFailed
from ...core.transactions.release import PAUSE_SECONDS_MIN, Patience, ReleaseCursor, publisher_of
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import TURN_SECONDS

SLICE_ROWS_MIN, SLICE_ROWS_MAX = 20, 2000
"""Rows in a slice: as many as take TURN_SECONDS, within these."""

BROKEN = "broken"

T = TypeVar("T")


async def turn(runtime: Runtime, work: Callable[[], T]) -> T:
    """Do it in a turn of the loop that it has for itself (edge/runtime/scheduler.py)."""
    done: asyncio.Future[T] = runtime.loop.create_future()

    def go_on() -> None:
        if done.done():
            return
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    runtime.scheduler.later(go_on)
    return await done


class CommitRelease:
    """Publishes a batch, from where its cursor stands."""

    def __init__(self, runtime: Runtime, key: str, cursor: ReleaseCursor) -> None:
        self.cursor = cursor
        self._runtime = runtime
        self._publisher = publisher_of(key, cursor.record)
        self._slice_rows = 200

    async def chunk(self, chunk: Chunk) -> None:
        """Release what one frame has brought; raises StagingFailed where it cannot go on now."""
        try:
            runs = await turn(self._runtime, lambda: runs_of(chunk.data))
        except msgspec.DecodeError as error:
            raise StagingFailed(BROKEN, f"a staged chunk cannot be read: {error}") from None
        self.cursor.next_chunk(chunk, runs)
        while piece := self.cursor.piece(self._slice_rows):
            await self._publish(piece)

    async def settled(self) -> None:
        """Wait until all that was released is as safe as the engine makes it: with a journal, on the disk."""
        engine, patience = self._runtime.broker.engine, Patience()
        while True:
            synced: asyncio.Future[None] = self._runtime.loop.create_future()
            engine.when_safe(lambda synced=synced: synced.done() or synced.set_result(None))  # type: ignore[misc]
            await synced
            if not engine.trouble:
                return
            await _pause(patience, engine.trouble)

    async def _publish(self, piece: list[ColumnBatch]) -> None:
        """Publish all of it; what cannot be stored at this moment is tried until it is."""
        patience = Patience()
        while True:
            outcomes = await self._slice(piece)
            rest = self.cursor.settle(piece, outcomes)
            if not rest:
                return
            if len(rest) < len(piece):
                patience = Patience()
            await _pause(patience, str(outcomes[len(piece) - len(rest)][1]))  # type: ignore[index]
            piece = rest

    async def _slice(self, runs: list[ColumnBatch]) -> list[RunOutcome]:
        """Publish them in one turn. With Redis, or a journal that syncs each batch, the answer comes later."""
        while self._runtime.congested or self._runtime.stale:  # noqa: ASYNC110 - what sets them knows of no waiting tasks
            await asyncio.sleep(PAUSE_SECONDS_MIN)
        answered: asyncio.Future[list[RunOutcome]] = self._runtime.loop.create_future()

        def told(outcomes: list[RunOutcome]) -> None:
            if not answered.done():  # this node stops
                answered.set_result(outcomes)

        def publish() -> None:
            began = perf_counter()
            release_runs(self._runtime.broker, runs, self._publisher, self.cursor.first, now(), told)
            self._runtime.end()
            self._adapt(count(runs), perf_counter() - began)

        await turn(self._runtime, publish)
        return await answered

    def _adapt(self, rows: int, seconds: float) -> None:
        """Choose the next slice so that it takes what a slice may take; what costs more each row is felt at once."""
        fitting = int(rows * TURN_SECONDS / max(seconds, 1e-6))
        self._slice_rows = max(SLICE_ROWS_MIN, min(fitting, self._slice_rows * 2, SLICE_ROWS_MAX))


async def _pause(patience: Patience, trouble: str) -> None:
    """Wait before the next try; raises StagingFailed when that was long enough."""
    pause = patience.wait()
    if pause is None:
        raise StagingFailed(UNAVAILABLE, trouble)
    await asyncio.sleep(pause)
