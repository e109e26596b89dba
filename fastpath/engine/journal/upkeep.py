"""Keeps a journal short: writes a base in slices when the log has grown, then removes what it stands for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .checkpoint import BaseWriter
from .files import Folder

SLICE_SECONDS = 0.002
"""Seconds of one turn of the loop in which a base is written."""

SLICES_EVERY_SECONDS = 0.02
"""A turn for the base so often: it takes a tenth of the time at most."""

RETRY_SECONDS = 60.0
"""Seconds to wait after a base that could not be written."""

log = logging.getLogger("fastpath.journal")


class Upkeep:
    """Knows which files there are, and which of them are needed.

    ``begin_base`` begins a new segment and a base with its number; it raises OSError.
    """

    def __init__(
        self, folder: Folder, begin_base: Callable[[], BaseWriter], *, keep_seconds: float, base_after_bytes: int
    ) -> None:
        self._folder = folder
        self._begin_base = begin_base
        self._keep_seconds = keep_seconds
        self._base_after_bytes = base_after_bytes
        self._sealed: deque[tuple[int, int, float]] = deque()  # number, bytes, since when
        self._sealed_bytes = 0
        self._base = 0
        self._base_bytes = 0
        self._log_bytes = 0  # sealed since the base
        self._writer: BaseWriter | None = None
        self._finishing = False
        self._timer: asyncio.TimerHandle | None = None
        self._wanted = False
        self._retry_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = ThreadPoolExecutor(1, "journal-files")

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make bases possible from now on."""
        self._loop = loop

    def keep(self, seconds: float) -> None:
        """Keep segments so long from now on."""
        self._keep_seconds = seconds

    @property
    def bytes(self) -> int:
        """The size of all files but the newest segment, in bytes."""
        return self._sealed_bytes + self._base_bytes

    @property
    def segments(self) -> int:
        """The number of segments besides the newest."""
        return len(self._sealed)

    @property
    def writing(self) -> bool:
        """True while a base is being written."""
        return self._writer is not None

    def find(self) -> None:
        """Look which files an earlier process has left; all their segments are sealed."""
        bases = self._folder.bases()
        self._base = bases[-1] if bases else 0
        self._base_bytes = self._folder.base(self._base).stat().st_size if bases else 0
        for number in self._folder.segments():
            self.seal(number, self._folder.segment(number).stat().st_size)
        self._log_bytes = sum(size for number, size, _ in self._sealed if number >= self._base)

    def seal(self, number: int, size: int) -> None:
        """Note that nothing more is written to this segment."""
        self._sealed.append((number, size, time.monotonic()))
        self._sealed_bytes += size
        self._log_bytes += size

    def want_base(self) -> None:
        """Write a base as soon as possible: the log behind it is not to be relied on."""
        self._wanted = True

    def on_second(self, segment_bytes: int) -> None:
        """Begin a base if it is time, and remove what is not needed; ``segment_bytes`` is in the newest segment."""
        due = self._wanted or self._log_bytes + segment_bytes > max(self._base_after_bytes, self._base_bytes)
        if due and self._writer is None and self._loop is not None and time.monotonic() >= self._retry_at:
            try:
                self._writer = self._begin_base()
            except OSError as error:
                self._give_up(error)
            else:
                self._wanted = False
                self._log_bytes = 0
                self._step()
        self._remove()

    def close(self) -> None:
        """End; leave a base that is not finished, and wait for what goes on in the thread."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None
        self._pool.shutdown()
        if self._writer is not None and not self._finishing:
            self._writer.abandon()

    def _step(self) -> None:
        writer, loop = self._writer, self._loop
        assert writer is not None and loop is not None
        try:
            unfinished = writer.slice(SLICE_SECONDS)
        except OSError as error:
            self._give_up(error)
            return
        if unfinished:
            self._timer = loop.call_later(SLICES_EVERY_SECONDS, self._step)
        else:
            self._timer = None
            self._finishing = True
            loop.run_in_executor(self._pool, writer.finish).add_done_callback(self._finished)

    def _finished(self, future: asyncio.Future[None]) -> None:
        self._finishing = False
        writer, error = self._writer, future.exception()
        if writer is None or self._loop is None:
            return  # closed meanwhile
        if error is not None:
            self._give_up(error)
            return
        self._writer = None
        self._base, self._base_bytes = writer.number, writer.size
        log.debug("base %d is written, %d bytes", writer.number, writer.size)
        for number in self._folder.bases():
            if number < self._base:
                self._unlink(self._folder.base(number))
        self._remove()

    def _give_up(self, error: BaseException) -> None:
        log.warning("the journal cannot be shortened: %s", getattr(error, "strerror", None) or error)
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self._wanted = True
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    def _remove(self) -> None:
        """Remove segments before the base whose messages have left the cache."""
        until = time.monotonic() - self._keep_seconds
        while self._sealed and self._sealed[0][0] < self._base and self._sealed[0][2] <= until:
            number, size, _ = self._sealed.popleft()
            self._sealed_bytes -= size
            self._unlink(self._folder.segment(number))

    def _unlink(self, path: Path) -> None:
        """Remove a file in the thread: a large one takes its time."""
        self._pool.submit(_remove, path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("cannot remove %s: %s", path.name, error.strerror)
