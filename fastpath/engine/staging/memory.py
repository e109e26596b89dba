"""Staged rows and transactions in this process' memory: they end with it, as its messages do."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from itertools import islice
from typing import Any

import msgspec

from ...core.transactions.records import BEGUN, Attempt, Chunk, StagingFailed, StagingRecord
from .store import (
    ATTEMPTS_MAX,
    FULL,
    GAP,
    MISSING,
    OVERHEAD_BYTES,
    REFUSED_BYTES,
    TRANSACTIONS_MAX,
    WINNERS_MAX,
    Uncommitted,
    summed,
)

LET_GO_AT_ONCE = 500
"""Attempts that are let go between two turns of the loop."""

FREED_AT_ONCE = 16
"""Chunks that are given back to the system between two turns of the loop: that takes a fraction of a millisecond."""


class Staged:
    """An attempt: its chunks, its size, when it was begun and when something was added to it last (ms)."""

    __slots__ = ("bytes", "chunks", "places", "rows", "since", "time")

    def __init__(self, since: int) -> None:
        self.chunks: list[Chunk] = []
        self.places: list[Any] = []
        """Places where a store that keeps the data elsewhere finds it, chunk by chunk."""
        self.rows = self.bytes = 0
        self.since = self.time = since


class MemoryStaging:
    """A StagingStore that holds at most ``bytes_max``, and nothing for longer than ``keep_seconds``."""

    waits = False

    def __init__(self, clock: Callable[[], int], *, bytes_max: int, keep_seconds: int) -> None:
        self.bytes = self.staged_rows = 0
        self._clock = clock
        self._bytes_max = bytes_max
        self._keep_ms = keep_seconds * 1000
        self._attempts: dict[Attempt, Staged] = {}  # the one that was added to longest ago comes first
        self._of_key: dict[str, dict[int, dict[int, set[Attempt]]]] = {}  # by batch and partition
        self._records: dict[str, StagingRecord] = {}  # the one that changed longest ago comes first
        self._begun: set[str] = set()
        self._beginning: dict[str, StagingRecord] = {}  # while they are being written down
        self._winners: dict[str, int] = {}  # how many are remembered of transactions that are done, the oldest first
        self._winners_all = 0
        self._dropped: deque[Attempt] = deque()  # what is to be let go
        self._trash: deque[Staged] = deque()  # what was let go and is not freed yet

    # Staged rows

    async def put(self, attempt: Attempt, chunk: int, content: Chunk) -> Chunk | None:
        staged = self._attempts.get(attempt)
        there = len(staged.chunks) if staged is not None else 0
        if staged is not None and chunk < there:
            return staged.chunks[chunk]
        if chunk > there:
            raise StagingFailed(GAP, f"chunk {chunk} of an attempt of which {there} are staged")
        if there and self._is_winner(attempt):
            raise StagingFailed(GAP, "the batch has been begun with this attempt as it is")
        size = weight(content)
        if self.bytes + size > self._bytes_max:
            raise StagingFailed(FULL, f"{self.bytes} bytes are staged; at most {self._bytes_max} are taken")
        if staged is None and len(self._attempts) >= ATTEMPTS_MAX:
            raise StagingFailed(FULL, f"{ATTEMPTS_MAX} attempts are staged")
        kept, place = self._keep(attempt, chunk, content)
        self._add(attempt, kept, place, size, self._clock())
        return None

    async def rows(self, attempt: Attempt) -> int | None:
        staged = self._attempts.get(attempt)
        return staged.rows if staged is not None else None

    async def chunks(self, attempt: Attempt) -> AsyncIterator[Chunk]:
        staged = self._attempts.get(attempt)
        if staged is not None:
            for chunk in tuple(staged.chunks):
                yield chunk

    async def drop(self, key: str, batch: int, partition: int | None, attempt: int | None) -> None:
        partitions = self._of_key.get(key, {}).get(batch, {})
        if partition is None:
            some = [one for attempts in partitions.values() for one in attempts]
        elif attempt is None:
            some = list(partitions.get(partition, ()))
        else:
            some = [Attempt(key, batch, partition, attempt)]
        if some and self._is_begun(some[0]):
            return
        for one in some[:LET_GO_AT_ONCE]:
            if one in self._attempts:
                self._let_go(one)
        self._dropped += some[LET_GO_AT_ONCE:]  # by and by
        if not self._dropped:
            self._free_some()

    async def sweep(self, now_ms: int) -> None:
        """Forget what is too old, some hundred attempts a call, so that a call takes no long time."""
        for one, staged in list(islice(self._attempts.items(), LET_GO_AT_ONCE)):
            if staged.time > now_ms - self._keep_ms:
                break
            if self._is_begun(one):
                self._attempts[one] = self._attempts.pop(one)  # others are behind it
            else:
                self._let_go(one)
        for key, record in list(islice(self._records.items(), 1000)):
            if record.once and record.state != BEGUN and record.time <= now_ms - self._keep_ms:
                self._forget_record(key)
        await self._free()

    def uncommitted(self) -> Generator[None, None, dict[str, Uncommitted]]:
        return summed(self._attempts.items())

    # Transactions

    async def record(self, key: str) -> StagingRecord | None:
        return self._records.get(key)

    async def begin(self, key: str, record: StagingRecord) -> StagingRecord:
        self._check_winners(key, record)
        self._note(key, record)
        return record

    async def finish(self, key: str, record: StagingRecord) -> None:
        self._note(key, record)
        await self._drop_done(key, record)

    async def records(self, limit: int) -> list[tuple[str, StagingRecord]]:
        return list(islice(reversed(self._records.items()), limit))

    async def unfinished(self) -> list[tuple[str, StagingRecord]]:
        return [(key, self._records[key]) for key in self._begun]

    async def forget(self, key: str) -> bool:
        attempts = self._attempts_of(key)
        known = key in self._records
        if known:
            self._forget_record(key)
        for one in attempts[:LET_GO_AT_ONCE]:
            self._let_go(one)
        self._dropped += attempts[LET_GO_AT_ONCE:]
        return known or bool(attempts)

    async def close(self) -> None:
        """Close nothing: all that was staged goes with the process."""

    # What another store does in another way

    def _keep(self, attempt: Attempt, chunk: int, content: Chunk) -> tuple[Chunk, Any]:
        """Store a chunk; what memory keeps of it, and where the rest is. Raises StagingFailed."""
        del attempt, chunk
        return content, None

    def _let_go(self, attempt: Attempt) -> None:
        """Let go of an attempt."""
        staged = self._attempts.pop(attempt)
        self._trash.append(staged)
        self.bytes -= staged.bytes
        self.staged_rows -= staged.rows
        batches = self._of_key[attempt.key]
        partitions = batches[attempt.batch]
        attempts = partitions[attempt.partition]
        attempts.discard(attempt)
        if not attempts:
            del partitions[attempt.partition]
        if not partitions:
            del batches[attempt.batch]
        if not batches:
            del self._of_key[attempt.key]

    def _free_places(self, places: list[Any]) -> None:
        """Free the places of attempts that are not needed."""

    def _lighten(self, key: str) -> None:
        """Remember less of a transaction that is done."""
        self._winners_all -= self._winners.pop(key)
        self._records[key] = msgspec.structs.replace(self._records[key], winners=[])

    def _forget_record(self, key: str) -> None:
        """Let go of a record."""
        del self._records[key]
        self._begun.discard(key)
        self._winners_all -= self._winners.pop(key, 0)

    # For both

    def _add(self, attempt: Attempt, kept: Chunk, place: Any, size: int, time: int) -> None:
        staged = self._attempts.pop(attempt, None)
        if staged is None:
            staged = Staged(time)
            partitions = self._of_key.setdefault(attempt.key, {}).setdefault(attempt.batch, {})
            partitions.setdefault(attempt.partition, set()).add(attempt)
        self._attempts[attempt] = staged
        staged.chunks.append(kept)
        staged.places.append(place)
        staged.rows += kept.rows
        staged.bytes += size
        staged.time = time
        self.staged_rows += kept.rows
        self.bytes += size

    def _note(self, key: str, record: StagingRecord) -> None:
        """Remember a record, and forget the oldest where there are too many."""
        self._records.pop(key, None)
        self._records[key] = record
        if record.state == BEGUN:
            self._begun.add(key)
        else:
            self._begun.discard(key)
        self._count_winners(key, record)
        if len(self._records) > TRANSACTIONS_MAX:
            for old in _oldest(self._records.items()):
                self._forget_record(old)
                break

    async def _drop_done(self, key: str, record: StagingRecord) -> None:
        for index, batch in enumerate(list(self._of_key.get(key, ()))):
            if batch <= record.batch:
                for attempts in list(self._of_key.get(key, {}).get(batch, {}).values()):
                    self._dropped += attempts
            if index % LET_GO_AT_ONCE == LET_GO_AT_ONCE - 1:
                await asyncio.sleep(0)
        await self._free()

    async def _free(self) -> None:
        """Let go of what was dropped and free what was let go, some in a turn of the loop."""
        while self._dropped or self._trash:
            for _ in range(min(len(self._dropped), LET_GO_AT_ONCE // 5)):
                one = self._dropped.popleft()
                if one in self._attempts and not self._is_begun(one):
                    self._let_go(one)
            self._free_some()
            await asyncio.sleep(0)

    def _free_some(self) -> None:
        left = FREED_AT_ONCE
        while self._trash and left > 0:
            staged = self._trash[0]
            places = staged.places[-left:]
            left -= len(places)
            del staged.chunks[-len(places) :], staged.places[-len(places) :]
            self._free_places(places)
            if not staged.chunks:
                self._trash.popleft()

    def _attempts_of(self, key: str) -> list[Attempt]:
        partitions = self._of_key.get(key, {}).values()
        return [one for attempts in partitions for some in attempts.values() for one in some]

    def _check_winners(self, key: str, record: StagingRecord) -> None:
        """Raise StagingFailed unless all attempts of the record are staged as it names them."""
        for partition, attempt, rows in record.winners:
            staged = self._attempts.get(Attempt(key, record.batch, partition, attempt))
            if staged is None or staged.rows != rows:
                raise StagingFailed(MISSING, f"attempt {attempt} of partition {partition} was dropped meanwhile")

    def _count_winners(self, key: str, record: StagingRecord) -> None:
        """Count a record that has changed, and remember less of the oldest where all are too many."""
        self._winners_all -= self._winners.pop(key, 0)
        if record.state != BEGUN and record.winners:
            self._winners[key] = len(record.winners)
            self._winners_all += len(record.winners)
            while self._winners_all > WINNERS_MAX:
                self._lighten(next(iter(self._winners)))

    def _is_begun(self, attempt: Attempt) -> bool:
        return any(record.batch == attempt.batch for record in self._begun_of(attempt.key))

    def _is_winner(self, attempt: Attempt) -> bool:
        return any(
            (partition, one) == attempt[2:]
            for record in self._begun_of(attempt.key)
            if record.batch == attempt.batch
            for partition, one, _ in record.winners
        )

    def _begun_of(self, key: str) -> list[StagingRecord]:
        records = self._records.get(key), self._beginning.get(key)
        return [record for record in records if record is not None and record.state == BEGUN]


def weight(content: Chunk) -> int:
    """Return what a chunk counts against the bound, in bytes."""
    return len(content.data) + OVERHEAD_BYTES + REFUSED_BYTES * len(content.refused)


def _oldest(records: Iterable[tuple[str, StagingRecord]]) -> Iterable[str]:
    """Yield the transactions that may be forgotten, the oldest first: those of a single batch before others."""
    some = list(islice(records, 1000))
    done = [(key, record) for key, record in some if record.state != BEGUN]
    return [key for key, _ in sorted(done, key=lambda one: not one[1].once)]
