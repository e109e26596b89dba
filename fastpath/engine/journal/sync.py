"""Brings the journal to the disk in a thread: one sync covers all that was written before it began.

A sync that fails may have lost what the kernel held, and the next one would succeed without it. So nothing is believed
of the file any more: what was not synced before is written again, in a new segment, and synced there. If that fails as
well, nothing is acknowledged and nothing taken until it works.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ...core.broker.admission import Done, Outcome
from .files import Folder, RecordFile, sync_data

RETRY_SECONDS_MAX = 60.0
"""A journal that cannot be synced is tried again after a second, then after a time that doubles up to this."""

log = logging.getLogger("fastpath.journal")

Written = list[tuple[int, Any]]
"""Records: their kind and body."""


class Syncs:
    """The records that are written and not synced, and who waits for them; at most one sync is under way."""

    def __init__(self, folder: Folder, reopen: Callable[[Written], RecordFile]) -> None:
        self.failed = ""
        """Reason why nothing may be taken; empty when all is well."""
        self.failures = 0
        self.bytes = 0
        """Written and not synced."""
        self.milliseconds = 0.0
        """Milliseconds that the last sync took."""
        self.after: Callable[[], None] = lambda: None
        """Function called when answers have been given."""
        self.lost: Callable[[list[Outcome]], None] = lambda outcomes: None
        """Told what is answered of messages that had been taken and could not be synced."""
        self._folder = folder
        self._reopen = reopen
        self._file: RecordFile | None = None
        self._written: Written = []
        self._retired: list[RecordFile] = []
        self._names_changed = False
        self._waiting: deque[tuple[Done, list[Outcome]]] = deque()
        self._due = False
        self._running: Future[float] | None = None
        self._again = False  # the sync under way is the second attempt
        self._pause = 1.0
        self._retry_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = ThreadPoolExecutor(1, "journal")

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make syncs possible from now on."""
        self._loop = loop

    def begin(self, file: RecordFile) -> None:
        """Begin with a new file, which is written from now on, the one before not any more."""
        if self._file is not None:
            self._retired.append(self._file)
        self._file = file
        self._names_changed = True

    def note(self, kind: int, body: Any, size: int) -> None:
        """Note a record that has been written, and its size in bytes."""
        self._written.append((kind, body))
        self.bytes += size

    def acknowledge(self, done: Done, outcomes: list[Outcome]) -> None:
        """Call ``done`` when all that has been written so far is on the disk (Broker.acknowledge), in the order of
        these calls."""
        if self.failed or (not self._waiting and not self._written and self._running is None):
            done(outcomes)
            return
        self._waiting.append((done, outcomes))
        if self._running is None and not self._due and self._loop is not None:
            self._due = True
            self._loop.call_soon(self._begin)

    def on_second(self) -> None:
        """Sync what was written, or try again what failed."""
        if self._running is not None:
            return
        if not self.failed:
            if self._written or self._names_changed:
                self._begin()
        elif time.monotonic() >= self._retry_at:
            self._attempt()

    def close(self) -> bool:
        """Sync all, answer all, end the thread; whether everything is on the disk."""
        self._pool.shutdown()
        running, self._running, self._loop = self._running, None, None
        if self._file is not None and not self.failed:
            try:
                if running is not None:
                    running.result()
                _sync(self._retired, self._file, self._folder)
            except OSError as error:
                self._fail(_why(error))
        self._answer(len(self._waiting))
        return not self.failed

    def _begin(self) -> None:
        self._due = False
        if self._running is not None or self._file is None or self._loop is None or self.failed:
            return
        covered, self._written = self._written, []
        files, self._retired = self._retired, []
        folder = self._folder if self._names_changed else None
        self._names_changed = False
        count = len(self._waiting)
        loop, size = self._loop, self.bytes
        running = self._running = self._pool.submit(_sync, files, self._file, folder)

        def tell(future: Future[float]) -> None:
            with suppress(RuntimeError):  # the loop is closed: the start has failed
                loop.call_soon_threadsafe(self._ended, future, covered, size, count)

        running.add_done_callback(tell)

    def _ended(self, future: Future[float], covered: Written, size: int, count: int) -> None:
        if self._running is not future:
            return  # closed meanwhile
        self._running = None
        error = future.exception()
        if error is not None:
            self._written = covered + self._written
            self._lost(error)
            return
        self.milliseconds = future.result()
        self.bytes -= size
        if self._again:
            self._again, self._pause = False, 1.0
            log.warning("the journal is synced again")
            self.failed = ""
        self._answer(count)
        if self._waiting and not self._due:
            self._begin()

    def _lost(self, error: BaseException) -> None:
        """Write again elsewhere what a failed sync was to cover, once at once, then every now and then."""
        self.failures += 1
        if not self._again:
            log.error("%s; writing what is not synced again, in a new segment", _why(error))
            self._attempt()
            return
        self._fail(_why(error))

    def _attempt(self) -> None:
        self._again = True
        self.failed = ""
        try:
            file = self._reopen(self._written)
        except OSError as error:
            self._fail(f"the journal cannot be written: {error.strerror or error}")
            return
        if self._file is not None:
            self._file.close()  # and never synced: that would say nothing
        for one in self._retired:
            one.close()
        self._file, self._retired, self._names_changed = file, [], True
        self._begin()

    def _fail(self, why: str) -> None:
        if self._pause == 1.0:
            log.error("%s; nothing is acknowledged until it can be", why)
        self.failed = why
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(RETRY_SECONDS_MAX, self._pause * 2)
        self._answer(len(self._waiting))

    def _answer(self, count: int) -> None:
        for _ in range(count):
            done, outcomes = self._waiting.popleft()
            if self.failed:
                refusal = ("unavailable", self.failed)
                self.lost([refusal for one in outcomes if _stored(one)])
                outcomes = [refusal if _stored(one) else one for one in outcomes]
            try:
                done(outcomes)
            except Exception:  # the others' answers do not depend on it
                log.exception("an answer failed")
        if count:
            self.after()


def _why(error: BaseException) -> str:
    return f"the journal cannot be synced to the disk: {getattr(error, 'strerror', None) or error}"


def _stored(outcome: Outcome) -> bool:
    """Return whether the outcome tells of a message that is kept: not of a refusal, nor of standard quality."""
    return outcome != 0 if isinstance(outcome, int) else isinstance(outcome[0], int)


def _sync(files: list[RecordFile], file: RecordFile, folder: Folder | None) -> float:
    """Sync the files, in the thread; return the ms that it took. Raise OSError."""
    begun = time.perf_counter()
    try:
        for one in files:
            sync_data(one.descriptor)
        sync_data(file.descriptor)
        if folder is not None:
            folder.sync()
    finally:
        for one in files:
            one.close()
    return (time.perf_counter() - begun) * 1000
