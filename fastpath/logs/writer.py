"""Writes the lines of the log in a thread: no disk and no reader of a pipe can hold up who has something to say.

Where lines go is a ``Sink``: the standard error, or a file that is rotated and that several processes write at once.
"""

from __future__ import annotations

import fcntl
import os
import queue
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

LINES_MAX = 10_000
"""Lines that may wait for who takes them; what comes beyond is dropped and counted."""

WAITING_BYTES_MAX = 8 << 20
"""The same in bytes."""

CHUNK_BYTES = 64 << 10
"""Lines that are written together at most."""

IDLE_SECONDS = 1.0
"""How often the thread looks for what is due while it has nothing to write."""

RETRY_SECONDS = 1.0
"""After a failure nothing is tried for so long."""

CLOSE_SECONDS = 2.0
"""How long the end waits for who takes the lines."""

Says = Callable[[str], bytes]
"""Makes a line of the log of a sentence about the log itself."""


class Sink(Protocol):
    """What takes lines; called by the writer's thread alone."""

    def write(self, data: bytes) -> None:
        """Write whole lines, however long it takes; raises OSError."""

    def reopen(self) -> None:
        """Begin anew at the same name."""


class StandardError:
    """The standard error, which other processes may write as well."""

    def write(self, data: bytes) -> None:
        """Sink; in pieces that a pipe takes as a whole, so that lines of several processes do not mix (POSIX)."""
        at = 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + select.PIPE_BUF) + 1 or data.find(b"\n", at) + 1 or len(data)
            _write_all(2, data[at:end])
            at = end

    def reopen(self) -> None:
        """Sink."""


class LogFile:
    """A file that grows to ``bytes_max`` and is then renamed to ``.1``, what was that to ``.2``, up to ``files_max``.

    Several processes may write it: each appends whole lines, and who finds it full takes a lock on it for the renaming.
    0 as ``bytes_max`` leaves that to others (logrotate); a file that is renamed or removed is noticed and made anew.
    """

    def __init__(self, path: str, bytes_max: int, files_max: int) -> None:
        self._path = Path(path)
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._fd = -1
        self._torn = False

    def write(self, data: bytes) -> None:
        """Sink."""
        size = self._open()
        if self._bytes_max and size and size + len(data) > self._bytes_max:
            self._rotate()
        try:
            _write_all(self._fd, b"\n" + data if self._torn else data)
        except OSError:
            self._torn = self._ends_within_a_line()  # what follows is not to become a part of it
            raise
        self._torn = False

    def reopen(self) -> None:
        """Sink."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        """See to it that the open file is the one of that name; its size. Raises OSError."""
        if self._fd >= 0 and not self._is_current():
            self.reopen()
        if self._fd < 0:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o640)
        return os.fstat(self._fd).st_size

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _ends_within_a_line(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def _rotate(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        if self._is_current():  # else another process was faster
            for number in range(self._files_max - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.rename(self._numbered(number), self._numbered(number + 1))
            if self._files_max:
                os.rename(self._path, self._numbered(1))
            else:
                os.unlink(self._path)
        self.reopen()  # which lets go of the lock
        self._open()

    def _numbered(self, number: int) -> str:
        return f"{self._path}.{number}"


class LogWriter:
    """Takes lines from any thread, never waits, and writes them to ``sink``.

    ``due`` is called about once a second in the writer's thread; ``says`` makes the lines that tell of lost ones.
    """

    def __init__(self, sink: Sink, says: Says, due: Callable[[], None]) -> None:
        self._sink = sink
        self._says = says
        self._due = due
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        # What was handed in, under the lock of who hands in, and what was taken of it, by the thread.
        self._in_lines = self._in_bytes = self._out_lines = self._out_bytes = 0
        self._refused = self._failed = self._told = 0
        self._failing = ""
        self._failed_at = 0.0
        self._reopen = False
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Lines that were lost since the start."""
        return self._refused + self._failed

    def start(self) -> None:
        """Begin to write what has been handed in, and what will be, after a thread that has been told to end."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, args=(self._thread,), name="log", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what waits, for so long at most, and end the thread; ``start`` goes on."""
        if self._thread is not None and self._thread.is_alive():  # in a process that was forked there is none
            self._closing = True
            self._lines.put(None)
            self._thread.join(seconds)

    def release(self) -> None:
        """Let go of what it writes to: another takes its place, in this process or in one that was forked."""
        self.stop()
        self._sink.reopen()

    def put(self, line: bytes) -> None:
        """Hand in a line with its end, or drop it when too much waits already. Not by two threads at once."""
        waiting = self._in_lines - self._out_lines
        if waiting >= LINES_MAX or self._in_bytes - self._out_bytes + len(line) > WAITING_BYTES_MAX:
            self._refused += 1
            return
        self._in_lines += 1
        self._in_bytes += len(line)
        self._lines.put(line)

    def reopen(self) -> None:
        """Begin anew at the same name, now. As ``put``: not by two threads at once."""
        self._reopen = True
        self.put(b"")

    def _run(self, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        looked_at = time.monotonic()
        while True:
            lines, ended = self._take()
            if lines:
                self._write(lines)
            if ended:
                return
            if time.monotonic() >= looked_at + IDLE_SECONDS:
                looked_at = time.monotonic()
                self._due()

    def _take(self) -> tuple[list[bytes], bool]:
        """What waits, as much as is written together, and whether the end has come."""
        lines: list[bytes] = []
        size = 0
        with suppress(queue.Empty):
            line = self._lines.get(timeout=IDLE_SECONDS)
            while line is not None:
                lines.append(line)
                size += len(line)
                if size >= CHUNK_BYTES:
                    return lines, False
                line = self._lines.get_nowait()
            return lines, True
        return lines, False

    def _write(self, lines: list[bytes]) -> None:
        self._out_lines += len(lines)
        self._out_bytes += sum(map(len, lines))
        if self._failing and not self._closing and time.monotonic() < self._failed_at + RETRY_SECONDS:
            self._failed += len(lines)
            return
        if self._reopen:
            self._reopen = False
            self._sink.reopen()
        lost = self.dropped - self._told
        if lost:
            lines = [self._says(f"{lost:,} lines of the log are lost: {self._failing or 'they came too fast'}"), *lines]
        try:
            self._sink.write(b"".join(lines))
        except OSError as error:
            self._fail(error.strerror or str(error), len(lines) - bool(lost))
        else:
            self._told += lost
            self._failing = ""

    def _fail(self, why: str, count: int) -> None:
        """What could not be written is dropped and counted; said once, where somebody may see it."""
        self._failed += count
        self._failed_at = time.monotonic()
        if not self._failing and not isinstance(self._sink, StandardError):
            with suppress(OSError):
                StandardError().write(self._says(f"the log cannot be written: {why}; lines are dropped until it can"))
        self._failing = why


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
