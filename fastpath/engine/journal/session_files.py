"""Sessions of MQTT clients in files beside the journal: a base with all of them, and logs of what changed since.

The files are written by a thread, whole batches at a time. What the folder holds may be lost without harm to anything
else: damaged files, and those of a newer version, are set aside, and all clients begin anew.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from ..base import SessionRow
from .files import PARTIAL, RecordFile, boot_id, sync_data
from .format import CLEAN, END, Damage, read_records
from .staging.disk import make_folder, numbered, remove, sync_names

LOG, BASE = ".log", ".base"

SESSIONS = ord("s")
"""Rows: owner, client id, and what is said of the session."""
WRITTEN = ord("V")
"""The second record of a file: in which form of all this it is written."""

VERSION = 1

LOG_BYTES_MIN = 4 << 20
"""Logs are shortened, by a new base, when they are larger than this and than the base."""

RETRY_SECONDS = 10.0
"""Seconds to wait after a write that failed."""

log = logging.getLogger("fastpath.journal")

_decode_rows = msgspec.msgpack.Decoder(list[SessionRow]).decode
_decode_version = msgspec.msgpack.Decoder(int).decode


class _Unreadable(Exception):
    """The files cannot be used; the text says why."""


class SessionFiles:
    """The files of one folder; ``clock`` gives ms since 1970."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop, clock: Callable[[], int]) -> None:
        self._folder = folder
        self._loop = loop
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, "mqtt-sessions")
        self._number = 1  # of the next file
        self._log: RecordFile | None = None
        self._base: RecordFile | None = None
        self._log_bytes = self._base_bytes = 0
        self._retry_at = 0.0
        self._wants_base = False
        self._base_at = 0.0  # not before
        self.in_order = False
        self.busy = False

    @property
    def failed(self) -> bool:
        """State of the files: True if the last write has failed."""
        return self._retry_at > 0

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return self._log_bytes + self._base_bytes

    # What is there

    def knows(self, owner: str, client_id: str) -> bool:
        """SessionStore: what was not written is nowhere."""
        del owner, client_id
        return False

    def read(self, row: Callable[[str, str, bytes], None]) -> bool:
        """Tell every row that is in the files, in their order; False if they are of no use, whatever was told."""
        good = True
        try:
            make_folder(self._folder)
            for path in self._folder.glob("*" + PARTIAL):
                remove(path)
            for one in self._read():
                row(*one)
        except (_Unreadable, msgspec.DecodeError) as error:
            self._set_aside(str(error))
            good = False
        except OSError as error:
            log.error("sessions of MQTT clients cannot be read: %s", error.strerror or error)
            good = False
        try:
            self._begin_log()
        except OSError as error:
            log.error("sessions of MQTT clients cannot be written: %s", error.strerror or error)
            self.in_order = False  # or it would seem so at the next start
        return good

    def _read(self) -> list[SessionRow]:
        logs, bases = numbered(self._folder, LOG), numbered(self._folder, BASE)
        base = max(bases, default=0)
        self._number = max([*logs, base]) + 1
        rows: list[SessionRow] = []
        if base:
            self._base_bytes = bases[base].stat().st_size
            self._read_file(bases[base], END, rows)
        newest = sorted(number for number in logs if number >= base)
        for number in newest:
            self._log_bytes += logs[number].stat().st_size
            self.in_order = self._read_file(logs[number], 0, rows)
        self._wants_base = bool(newest)
        return rows

    def _read_file(self, path: Path, last: int, rows: list[SessionRow]) -> bool:
        """Read a file; return True if it was closed in order. One without the record that has to be its ``last`` is
        damaged."""
        kind = 0
        with path.open("rb") as file:
            for at, record in enumerate(read_records(file)):
                if isinstance(record, Damage):
                    if record.torn or (not last and _is_empty(path, record)):
                        break
                    raise _Unreadable(f"{path.name} is damaged at byte {record.offset}")
                kind = record.kind
                try:
                    if at == 1 and (kind != WRITTEN or _decode_version(record.body) > VERSION):
                        raise _Unreadable(f"{path.name} was written by a newer version of this program")
                    if kind == SESSIONS:
                        rows += _decode_rows(record.body)
                except msgspec.DecodeError as error:
                    raise _Unreadable(f"{path.name} is damaged: {error}") from None
        if last and kind != last:
            raise _Unreadable(f"{path.name} is not whole")
        return kind == CLEAN

    def _set_aside(self, why: str) -> None:
        aside = self._folder.with_name(self._folder.name + ".aside")
        log.error("the sessions of MQTT clients are lost: %s; the files are in %s, all clients begin anew", why, aside)
        self._number, self._log_bytes, self._base_bytes = 1, 0, 0
        self._wants_base = self.in_order = False
        try:
            shutil.rmtree(aside, ignore_errors=True)
            self._folder.rename(aside)
            make_folder(self._folder)
        except OSError as error:
            log.error("%s cannot be renamed: %s", self._folder, error.strerror or error)

    # What is written

    @property
    def wants_base(self) -> bool:
        """State of the logs: True if all sessions are to be written anew, so that the logs can go."""
        if time.monotonic() < self._base_at:
            return False
        return self._wants_base or self._log_bytes > max(LOG_BYTES_MIN, self._base_bytes)

    def begin_base(self) -> bool:
        """Begin a new base, and with it a new log: what is written from now on is not in the base, or in both."""
        self._wants_base = False
        number = self._next()
        try:
            self._close_log()
            self._base = self._new(self._folder / f"{number:012}{PARTIAL}", number)
            self._log = self._new(self._folder / f"{number:012}{LOG}", number)
        except OSError as error:
            log.warning("the files of MQTT sessions cannot be shortened: %s", error.strerror or error)
            self._base_at = time.monotonic() + RETRY_SECONDS
            self._give_up_base()
            return False
        return True

    def write(
        self, rows: list[SessionRow], base: list[SessionRow], *, ends_base: bool, done: Callable[[str], None]
    ) -> None:
        """Write rows into the log, and others into the base that has begun; ``done`` gets why it failed, later."""
        self.busy = True
        writing = self._loop.run_in_executor(self._pool, partial(self._write, rows, base, ends_base=ends_base))

        def written(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if isinstance(error, OSError):
                self._retry_at = time.monotonic() + RETRY_SECONDS
                self._loop.call_later(RETRY_SECONDS, self._ready)
                done(error.strerror or str(error))
                return
            self._ready()
            if error is not None:
                raise error
            done("")

        writing.add_done_callback(written)

    def _ready(self) -> None:
        self.busy, self._retry_at = False, 0.0

    def _write(self, rows: list[SessionRow], base: list[SessionRow], *, ends_base: bool) -> None:
        """Write rows, in the thread."""
        try:
            if rows:
                file = self._log or self._begin_log()
                self._append(file, rows)
                sync_data(file.descriptor)
            if self._base is not None and base:
                self._append(self._base, base)
            if ends_base and self._base is not None:
                self._end_base(self._base)
        except OSError:
            self._close_log()
            self._give_up_base()
            raise

    def _append(self, file: RecordFile, rows: list[SessionRow]) -> None:
        before = file.size
        file.write(SESSIONS, rows)
        if file is self._log:
            self._log_bytes += file.size - before

    def _end_base(self, base: RecordFile) -> None:
        base.finish(END)
        base.close()
        path = base.path.with_suffix(BASE)
        base.path.rename(path)
        sync_names(self._folder)
        self._base, self._base_bytes = None, base.size
        for number, old in [*numbered(self._folder, LOG).items(), *numbered(self._folder, BASE).items()]:
            if number < base.number:
                remove(old)
        self._log_bytes = self._log.size if self._log is not None else 0

    def _begin_log(self) -> RecordFile:
        number = self._next()
        self._log = self._new(self._folder / f"{number:012}{LOG}", number)
        return self._log

    def _next(self) -> int:
        number, self._number = self._number, self._number + 1
        return number

    def _new(self, path: Path, number: int) -> RecordFile:
        file = RecordFile(path, number, 0, boot_id(), self._clock())
        file.write(WRITTEN, VERSION)
        return file

    def _close_log(self) -> None:
        """Close the log: what is written from now on goes into another file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _give_up_base(self) -> None:
        self._wants_base = True
        if self._base is not None:
            self._base.remove()
            self._base = None

    def close(self, rows: list[SessionRow]) -> None:
        """Write the last rows, and that all has been said."""
        self._pool.shutdown()
        try:
            if self._base is not None:
                self._give_up_base()
            self._write(rows, [], ends_base=False)
            if self._log is not None:
                self._log.finish(CLEAN)
        except OSError as error:
            log.error("the sessions of MQTT clients are not written to the end: %s", error.strerror or error)
        self._close_log()


def _is_empty(path: Path, damage: Damage) -> bool:
    """Return True if there is nothing but zeros from there on: a file that had grown, and whose data did not come to
    be."""
    with path.open("rb") as file:
        file.seek(damage.offset)
        while data := file.read(1 << 20):
            if data.strip(b"\0"):
                return False
    return True
