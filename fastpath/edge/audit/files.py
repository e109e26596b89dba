"""The audit's files: lines are written by a thread, to files that end at a size and at midnight.

docs/operate/audit.md explains it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ...logs.writer_thread import WriterThread

LINES_MAX = 50_000
"""Lines that may wait for the disk; what comes beyond is dropped and counted."""

WAITING_BYTES_MAX = 32 << 20
"""The same in bytes."""

NAME = re.compile(r"audit-(\d{8}T\d{6})-(\d+)\.jsonl")
_WITH_CARE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
"""Flags of POSIX, that follow no link and leave nothing to a child, and of Windows, that change no byte."""

_DAY_SECONDS = 86400

log = logging.getLogger("fastpath.audit")

Counts = Mapping[str, int]

Chunk = tuple[bytes, Counts, Counts]
"""Whole lines, how many of each kind, and how many were dropped before."""


class AuditFiles(WriterThread[Chunk]):
    """The files of one worker; the thread alone touches them.

    ``told`` makes the line that tells of dropped events, by kind. ``workers`` is how many there are: the first one
    deletes what is left of others that there were before.
    """

    def __init__(
        self, folder: str, worker: int, workers: int, bytes_max: int, files_max: int, told: Callable[[Counts], bytes]
    ) -> None:
        super().__init__("audit", LINES_MAX, WAITING_BYTES_MAX)
        self._folder = Path(folder)
        self._worker = worker
        self._workers = workers
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._told = told
        self._untold: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        """Lines by kind that the disk did not take; the thread's own."""
        self._fd = -1
        self._size = 0
        self._day = 0
        self._newest = ""
        self.start()

    def write(self, data: bytes, counts: Counts, lost: Counts) -> bool:
        """Take whole lines, so many of each kind, and the number of those that were dropped before; whether there
        was room. Never waits."""
        lines = sum(counts.values())
        if not self.has_room(lines, 0):  # one chunk may be larger than all that may wait
            return False
        self.hand_in((data, counts, lost), lines, len(data))
        return True

    def close(self, lost: Counts) -> None:
        """Write what waits, and how much is missing, for a while; ``lost`` as in ``write``."""
        if self.stop(last=(b"", {}, lost)):
            self._end_file()
        else:
            log.error("the audit's disk does not answer: what waits for it is lost")

    def _write(self, items: Sequence[Chunk]) -> None:
        for data, _, lost in items:
            untold = dict(self._untold)
            _add(untold, lost)
            self._put(data + self._told(untold) if untold else data)
            self._untold = {}

    def _lose(self, items: Sequence[Chunk]) -> None:
        for _, counts, lost in items:
            _add(self._untold, lost)
            _add(self._untold, counts)
            _add(self.failed, counts)

    def _fails(self, why: OSError) -> None:
        log.error("the audit cannot be written: %s; events are dropped and counted until it can", why)

    def _recovers(self) -> None:
        log.info("the audit is written again")

    def _put(self, data: bytes) -> None:
        """Write whole lines, in as many files as they need; raises OSError."""
        at = 0
        while at < len(data):
            self._begin_file()
            room = self._bytes_max - self._size
            end = len(data) if len(data) - at <= room else data.rfind(b"\n", at, at + max(room, 0)) + 1
            if end <= at:  # not one line fits
                if self._size:
                    self._end_file()
                    self._create()
                end = data.index(b"\n", at) + 1
            self._append(data[at:end])
            at = end

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            # No half line stays: the next one would be a part of it.
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                self._end_file()
            raise
        self._size += len(data)

    # Files

    def _begin_file(self) -> None:
        """See to it that today's file is open and still in its folder; raises OSError."""
        today = int(time.time()) // _DAY_SECONDS
        if self._fd >= 0 and (today != self._day or not os.fstat(self._fd).st_nlink):
            self._end_file()
        if self._fd < 0:
            self._day = today
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._go_on():
                self._create()

    def _end_file(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1

    def _go_on(self) -> bool:
        """Go on with the newest file if it is of today: a server that is started often does not make many."""
        own = self._files().get(self._worker)
        if not own or _second(own[-1]) // _DAY_SECONDS != self._day:
            return False
        try:
            fd = os.open(self._folder / own[-1], os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | _WITH_CARE)
        except OSError:  # another user's, or a link
            return False
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
            os.close(fd)
            return False
        if hasattr(os, "fchmod"):
            os.fchmod(fd, 0o600)
        self._fd, self._size, self._newest = fd, status.st_size, own[-1]
        if self._size and os.lseek(fd, self._size - 1, os.SEEK_SET) >= 0 and os.read(fd, 1) != b"\n":
            self._append(b"\n")  # the line that a crash has broken off stays by itself
        return True

    def _create(self) -> None:
        """Create a file, whose name is later than any before; raise OSError."""
        second = int(time.time())
        if self._newest:
            second = max(second, _second(self._newest) + 1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _WITH_CARE
        while True:
            name = f"audit-{datetime.fromtimestamp(second, UTC):%Y%m%dT%H%M%S}-{self._worker}.jsonl"
            try:
                self._fd = os.open(self._folder / name, flags, 0o600)
            except FileExistsError:
                second += 1
                continue
            break
        self._size, self._newest = 0, name
        self._prune()

    def _prune(self) -> None:
        """Delete the oldest files, those beyond ``files_max`` of this worker and of workers that are no more."""
        for worker, names in self._files().items():
            if worker == self._worker or (self._worker == 0 and worker >= self._workers):
                for name in names[: -self._files_max]:
                    with contextlib.suppress(OSError):
                        (self._folder / name).unlink()

    def _files(self) -> dict[int, list[str]]:
        """Return the names of each worker's files, oldest first."""
        found: dict[int, list[str]] = {}
        for name in sorted(os.listdir(self._folder)):
            match = NAME.fullmatch(name)
            if match:
                found.setdefault(int(match[2]), []).append(name)
        return found


def _second(name: str) -> int:
    """Return when a file was begun, in seconds since 1970."""
    return int(datetime.strptime(name[6:21] + "Z", "%Y%m%dT%H%M%S%z").timestamp())


def _add(total: dict[str, int], counts: Counts) -> None:
    for kind, count in counts.items():
        total[kind] = total.get(kind, 0) + count
