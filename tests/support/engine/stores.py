"""Stores of staged rows for tests, and what is put into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastpath.core.transactions.records import BEGUN, Attempt, Chunk, StagingRecord
from fastpath.engine.journal.staging.files import FileStaging
from fastpath.engine.staging.memory import MemoryStaging

KEY = "5:spark:query"
ONE, OTHER = Attempt(KEY, 3, 0, 77), Attempt(KEY, 3, 1, 78)
A_CHUNK = Chunk(2, [(1, "denied", "no")], b"rows")


class Clock:
    """The time in ms, as the test says."""

    now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Stores:
    """Stores of one kind, in the same place one after the other."""

    def __init__(self, folder: Path | None) -> None:
        self.clock = Clock()
        self.folder = folder

    def open(self, bytes_max: int = 1 << 20) -> MemoryStaging:
        if self.folder is None:
            return MemoryStaging(self.clock, bytes_max=bytes_max, keep_seconds=60)
        return FileStaging(self.folder, self.clock, bytes_max=bytes_max, keep_seconds=60)


def record(batch: int, winners: list[tuple[int, int, int]], state: str = BEGUN, **more: Any) -> StagingRecord:
    return StagingRecord(batch, winners, 0, sum(one[2] for one in winners), state, [], 0, 0, 1_000_000, **more)


async def staged(store: MemoryStaging, attempt: Attempt) -> list[Chunk]:
    return [chunk async for chunk in store.chunks(attempt)]
