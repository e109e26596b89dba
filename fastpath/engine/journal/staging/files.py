"""Staged rows and transactions in files beside the journal: they survive a restart, and a machine that fails.

Chunks of all attempts go to one file after the other, in the form of the journal's (journal/format.py); this process
remembers where each is. A file goes when nothing in it is needed. Transactions have a file of their own
(transaction_log.py). Nothing is begun before its rows and its record are on the disk.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ....core.transactions.records import BEGUN, DONE, UNAVAILABLE, Attempt, Chunk, StagingFailed, StagingRecord
from ...staging.memory import LET_GO_AT_ONCE, MemoryStaging, weight
from ...staging.store import FULL, MISSING
from ..files import FULL as FULL_DISK
from ..files import RecordFile, sync_data
from ..format import HEAD_BYTES, read_at
from ..format import JournalRecord as Found
from .disk import good, make_folder, numbered, remove, sync_names
from .transaction_log import TransactionLog

STAGED_FILE = ".staged"

CHUNK = ord("K")
"""The kind of its records."""

FILE_BYTES = 32 << 20
"""A file of chunks that is larger is followed by the next one."""

SMALL_FILE_BYTES = 1 << 20
"""One that is larger goes as soon as nothing in it is needed, also while it is the last."""

DISK_FACTOR = 2
"""The files hold at most so many times what may be staged: what is not needed any more stands beside what is."""

log = logging.getLogger("fastpath.staging")


class _ChunkPlace(NamedTuple):
    """The place of a chunk in the files."""

    file: int
    offset: int
    size: int


class _StagedRow(msgspec.Struct, array_like=True):
    """A chunk on the disk."""

    key: str
    batch: int
    partition: int
    attempt: int
    chunk: int
    time: int
    rows: int
    refused: list[tuple[int, str, str]]
    data: bytes


class _File:
    """A file of chunks: its bytes, how many of its chunks are needed, and whether all of it is on the disk."""

    __slots__ = ("needed", "path", "size", "synced")

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.synced = False
        self.needed = 0


_decode_row = msgspec.msgpack.Decoder(_StagedRow).decode


class FileStaging(MemoryStaging):
    """A StagingStore in ``folder``, which is made if need be and belongs to this process alone. Raises OSError."""

    def __init__(self, folder: Path, clock: Callable[[], int], *, bytes_max: int, keep_seconds: int) -> None:
        super().__init__(clock, bytes_max=bytes_max, keep_seconds=keep_seconds)
        self._folder = folder
        self._files: dict[int, _File] = {}
        self._disk_bytes = 0
        self._file: RecordFile | None = None
        self._number = 0  # of the last file of chunks
        self._pool = ThreadPoolExecutor(2, "staging")
        self._log = TransactionLog(folder, clock, self._pool)
        self._restore()

    # Staged rows

    def _keep(self, attempt: Attempt, chunk: int, content: Chunk) -> tuple[Chunk, Any]:
        """Write a chunk: the kernel has it."""
        if self._disk_bytes > DISK_FACTOR * self._bytes_max + 2 * FILE_BYTES:
            raise StagingFailed(FULL, "the files of what is staged are full of what is not needed any more")
        row = _StagedRow(*attempt, chunk, self._clock(), *content)
        try:
            file = self._file
            if file is None or file.size > FILE_BYTES or file.broken:
                file = self._next_file()
            before = file.size
            file.write(CHUNK, row)
        except OSError as error:
            code = FULL if error.errno in FULL_DISK else UNAVAILABLE
            raise StagingFailed(code, f"what is staged cannot be written: {error.strerror or error}") from None
        known = self._files[file.number]
        known.size = file.size
        known.synced = False
        known.needed += 1
        self._disk_bytes += file.size - before
        return Chunk(content.rows, content.refused, b""), _ChunkPlace(file.number, before, file.size - before)

    async def chunks(self, attempt: Attempt) -> AsyncIterator[Chunk]:
        """Return the attempt's chunks in order, read in a thread."""
        staged = self._attempts.get(attempt)
        for place in tuple(staged.places) if staged is not None else ():
            if attempt not in self._attempts:
                raise StagingFailed(MISSING, "what was staged is dropped")
            path = self._files[place.file].path
            try:
                row = await self._in_thread(_read, path, place)
            except (OSError, msgspec.DecodeError) as error:
                if attempt not in self._attempts:
                    continue
                raise StagingFailed("broken", f"what was staged cannot be read: {error}") from None
            if (row.key, row.batch, row.partition, row.attempt) != attempt:
                raise StagingFailed("broken", "what was staged cannot be read: another attempt stands there")
            yield Chunk(row.rows, row.refused, row.data)

    def _free_places(self, places: list[_ChunkPlace]) -> None:
        for place in places:
            file = self._files[place.file]
            file.needed -= 1
            if not file.needed:
                self._remove(place.file)

    def _remove(self, number: int) -> None:
        """Remove a file of which nothing is needed, unless it is the last one and small."""
        file = self._files[number]
        if self._file is not None and self._file.number == number:
            if file.size < SMALL_FILE_BYTES:
                return
            self._file.close()
            self._file = None
        del self._files[number]
        self._disk_bytes -= file.size
        self._pool.submit(remove, file.path)  # of a large file that takes a while

    def _next_file(self) -> RecordFile:
        before = self._file
        number = self._number = self._number + 1
        make_folder(self._folder)
        path = self._folder / f"{number:012}{STAGED_FILE}"
        file = RecordFile(path, number, 0, "", self._clock())
        self._files[number] = _File(path, file.size)
        self._disk_bytes += file.size
        self._file = file
        if before is not None:
            before.close()
            if not self._files[before.number].needed:
                self._remove(before.number)
        return file

    # Transactions

    async def begin(self, key: str, record: StagingRecord) -> StagingRecord:
        """Bring the batch's rows to the disk, then its record."""
        self._check_winners(key, record)
        self._beginning[key] = record
        try:
            await self._bring_to_disk(key, record)
            await self._log.write(key, record)
            self._note(key, record)
        finally:
            self._beginning.pop(key, None)
        return record

    async def _bring_to_disk(self, key: str, record: StagingRecord) -> None:
        numbers: set[int] = set()
        for index, (partition, attempt, _) in enumerate(record.winners):
            numbers.update(
                [place.file for place in self._attempts[Attempt(key, record.batch, partition, attempt)].places]
            )
            if index % LET_GO_AT_ONCE == LET_GO_AT_ONCE - 1:
                await asyncio.sleep(0)
        files = [(self._files[number], self._files[number].size) for number in sorted(numbers)]
        files = [(file, size) for file, size in files if not file.synced]
        if files:
            try:
                await self._in_thread(_sync, [file.path for file, _ in files], self._folder)
            except OSError as error:
                self._beginning.pop(key, None)
                self._give_up(numbers)
                raise StagingFailed(
                    MISSING, f"what was staged cannot be brought to the disk: {error.strerror or error}"
                ) from None
            for file, size in files:
                file.synced = file.size == size

    async def finish(self, key: str, record: StagingRecord) -> None:
        """Note the batch as done; its rows go when nobody can ask for them any more."""
        await self._log.write(key, record)
        self._note(key, record)
        await self._drop_done(key, record)

    def _forget_record(self, key: str) -> None:
        super()._forget_record(key)
        self._log.forget(key)

    def _lighten(self, key: str) -> None:
        super()._lighten(key)
        self._log.lighten(key, self._records[key])

    def _give_up(self, numbers: set[int]) -> None:
        """Give files up after a failed sync: nobody knows what the disk has of them. What is not begun is staged
        again."""
        for one, staged in list(self._attempts.items()):
            if any(place.file in numbers for place in staged.places) and not self._is_begun(one):
                self._let_go(one)
        if self._file is not None and self._file.number in numbers:
            self._file.close()
            self._file = None

    # Start and end

    def _restore(self) -> None:
        self._records = self._log.restore()
        self._begun = {key for key, record in self._records.items() if record.state == BEGUN}
        for key, last in list(self._records.items()):
            self._count_winners(key, last)
        broken: set[Attempt] = set()
        for number, path in sorted(numbered(self._folder, STAGED_FILE).items()):
            self._number = number
            file = self._files[number] = _File(path, path.stat().st_size)
            self._disk_bytes += file.size
            for record in good(path):
                if record.kind == CHUNK:
                    self._restore_chunk(number, record, broken)
        for attempt in [one for one in self._attempts if one in broken or self._is_done(one)]:
            self._let_go(attempt)
        while self._trash:
            self._free_some()
        for number in [number for number, file in self._files.items() if not file.needed]:
            self._remove(number)
        self._attempts = dict(sorted(self._attempts.items(), key=lambda item: item[1].time))
        if self._attempts:
            log.info("%d rows are staged, of %d attempts", self.staged_rows, len(self._attempts))

    def _restore_chunk(self, number: int, record: Found, broken: set[Attempt]) -> None:
        row = _decode_row(record.body)
        attempt = Attempt(row.key, row.batch, row.partition, row.attempt)
        staged = self._attempts.get(attempt)
        if row.chunk != (len(staged.chunks) if staged is not None else 0):
            broken.add(attempt)  # one before it is damaged
        size = weight(Chunk(row.rows, row.refused, row.data))
        place = _ChunkPlace(number, record.offset, HEAD_BYTES + len(record.body))
        self._files[number].needed += 1
        self._add(attempt, Chunk(row.rows, row.refused, b""), place, size, row.time)

    def _is_done(self, attempt: Attempt) -> bool:
        record = self._records.get(attempt.key)
        return record is not None and attempt.batch <= record.batch - (record.state != DONE)

    async def close(self) -> None:
        self._pool.shutdown()
        self._log.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


def _read(path: Path, place: _ChunkPlace) -> _StagedRow:
    with path.open("rb", buffering=0) as file:
        file.seek(place.offset)
        data = file.read(place.size)
    record = read_at(data)
    if record is None:
        raise OSError(errno.EIO, f"{path.name} is damaged")
    return _decode_row(record.body)


def _sync(paths: list[Path], folder: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDWR)
        try:
            sync_data(descriptor)
        finally:
            os.close(descriptor)
    sync_names(folder)
