"""The transactions of a node with a journal: a file of their last batches, which is on the disk before it counts."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from ....core.transactions.records import UNAVAILABLE, StagingFailed, StagingRecord
from ..files import FULL, RecordFile, sync_data
from .disk import good, make_folder, numbered, remove, sync_names

TRANSACTIONS_FILE = ".transactions"

TRANSACTIONS, FORGOTTEN = ord("T"), ord("F")
"""Kinds of records: transactions and their last batches; one that is forgotten."""

LOG_BYTES = 4 << 20
"""The file is written anew when it is larger, and has grown to four times what it began with."""

log = logging.getLogger("fastpath.staging")

_decode_records = msgspec.msgpack.Decoder(list[tuple[str, StagingRecord]]).decode
_decode_key = msgspec.msgpack.Decoder(str).decode


class TransactionLog:
    """The log of transactions in ``folder``; raises OSError."""

    def __init__(self, folder: Path, clock: Callable[[], int], pool: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._clock = clock
        self._pool = pool
        self._file: RecordFile | None = None
        self._began = 0  # bytes, when it was written anew
        self._written: dict[str, StagingRecord] = {}  # as the file has them, on the disk or not yet
        self._meanwhile: list[tuple[int, Any]] | None = None  # what is added to the file while it is written anew
        self._writes = self._synced = 0
        self._syncing = asyncio.Lock()

    def restore(self) -> dict[str, StagingRecord]:
        """Return the records in the log, oldest first; from now on it can be written, where there is room."""
        olds = numbered(self._folder, TRANSACTIONS_FILE)
        for _, path in sorted(olds.items()):
            for record in good(path):
                if record.kind == TRANSACTIONS:
                    for key, one in _decode_records(record.body):
                        self._written.pop(key, None)
                        self._written[key] = one
                elif record.kind == FORGOTTEN:
                    self._written.pop(_decode_key(record.body), None)
        try:
            self._begin(self._new(list(self._written.items()), max(olds, default=0) + 1), olds)
        except OSError as error:
            if error.errno not in FULL:
                raise
            # No reason not to start: the old files stay, and the next record is tried in a new one.
            log.error("transactions cannot be written down: %s", error.strerror or error)
        return dict(self._written)

    async def write(self, key: str, record: StagingRecord) -> None:
        """Write a record, and wait until it is on the disk; one sync serves all who wait meanwhile."""
        try:
            if self._file is None or self._file.broken:
                async with self._syncing:
                    if self._file is None or self._file.broken:
                        await self._rewrite()
            self._append(TRANSACTIONS, [(key, record)])
        except OSError as error:
            raise _unavailable(error) from None
        mine = self._writes
        before = self._written.pop(key, None)
        self._written[key] = record
        async with self._syncing:
            try:
                if self._synced < mine:
                    covered = self._writes
                    await self._in_thread(sync_data, self._append_to().descriptor)
                    self._synced = covered
                if self._append_to().size > max(LOG_BYTES, 4 * self._began):
                    await self._rewrite()
            except OSError as error:
                # Nothing is believed of the file any more: the next record begins another one, without this one.
                if self._written.get(key) is record:
                    del self._written[key]
                    if before is not None:
                        self._written[key] = before
                log.error("transactions cannot be brought to the disk: %s", error.strerror or error)
                if self._file is not None:
                    self._file.close()
                    self._file = None
                raise _unavailable(error) from None

    def _append(self, kind: int, body: Any) -> None:
        self._append_to().write(kind, body)
        self._writes += 1
        if self._meanwhile is not None:
            self._meanwhile.append((kind, body))

    def _append_to(self) -> RecordFile:
        if self._file is None:
            raise OSError(errno.EIO, "the file of transactions failed")
        return self._file

    async def _rewrite(self) -> None:
        """Write what counts into a new file, while the old one is still added to. Raises OSError."""
        self._meanwhile = []
        try:
            olds = numbered(self._folder, TRANSACTIONS_FILE)
            file = await self._in_thread(self._new, list(self._written.items()), max(olds, default=0) + 1)
            for kind, body in self._meanwhile:
                file.write(kind, body)
            if self._meanwhile:
                await self._in_thread(sync_data, file.descriptor)
        finally:
            self._meanwhile = None
        self._begin(file, olds)

    def _new(self, items: list[tuple[str, StagingRecord]], number: int) -> RecordFile:
        """Make a file of these records, on the disk, in a thread; raise OSError."""
        make_folder(self._folder)
        file = RecordFile(self._folder / f"{number:012}{TRANSACTIONS_FILE}", number, 0, "", self._clock())
        try:
            for some in (items[at : at + 200] for at in range(0, len(items), 200)):
                file.write(TRANSACTIONS, some)
            sync_data(file.descriptor)
            sync_names(self._folder)
        except OSError:
            file.remove()
            raise
        return file

    def _begin(self, file: RecordFile, olds: dict[int, Path]) -> None:
        """Go on in it; all others are outdated."""
        if self._file is not None:
            self._file.close()
        self._file, self._began = file, file.size
        for old in olds.values():
            remove(old)

    def lighten(self, key: str, record: StagingRecord) -> None:
        """Note that less is known of a transaction: on the disk when the file is written anew."""
        if key in self._written:
            self._written[key] = record

    def forget(self, key: str) -> None:
        """Forget the transaction, some time later on the disk, too."""
        self._written.pop(key, None)
        try:
            self._append(FORGOTTEN, key)
        except OSError as error:
            log.warning("a transaction cannot be forgotten for ever: %s", error.strerror or error)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


def _unavailable(error: OSError) -> StagingFailed:
    return StagingFailed(UNAVAILABLE, f"transactions cannot be written down: {error.strerror or error}")
