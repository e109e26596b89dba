"""Writes the lines of the log in a thread: no disk and no reader of a pipe can hold up who has something to say.

Where lines go is a ``Sink``: the standard error, or a file that is rotated and that several processes write at once.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from .writer_thread import WriterThread

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LINES_MAX = 10_000
"""Lines that may wait for who takes them; what comes beyond is dropped and counted."""

WAITING_BYTES_MAX = 8 << 20
"""The same in bytes."""

CHUNK_BYTES = 64 << 10
"""Lines that are written together at most."""

IDLE_SECONDS = 1.0
"""Seconds between two looks of the thread for what is due while it has nothing to write."""

PIPE_BYTES = getattr(select, "PIPE_BUF", 512)
"""Bytes that a pipe takes as a whole, by what POSIX promises at least where the system says nothing."""

Says = Callable[[str], bytes]
"""Makes a line of the log of a sentence about the log itself."""


class Sink(Protocol):
    """The taker of lines; called by the writer's thread alone."""

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
            end = data.rfind(b"\n", at, at + PIPE_BYTES) + 1 or data.find(b"\n", at) + 1 or len(data)
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
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # POSIX and Windows
            self._fd = os.open(self._path, flags, 0o640)
        return os.fstat(self._fd).st_size

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _ends_within_a_line(self) -> bool:
        size = os.fstat(self._fd).st_size
        if not size:
            return False
        os.lseek(self._fd, size - 1, os.SEEK_SET)  # what is written goes to the end all the same
        return os.read(self._fd, 1) != b"\n"

    def _rotate(self) -> None:
        if fcntl is not None:
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


class LogWriter(WriterThread[bytes]):
    """Takes lines from any thread, never waits, and writes them to ``sink``.

    ``due`` is called about once a second in the writer's thread; ``says`` makes the lines that tell of lost ones.
    """

    def __init__(self, sink: Sink, says: Says, due: Callable[[], None]) -> None:
        super().__init__("log", LINES_MAX, WAITING_BYTES_MAX, CHUNK_BYTES, IDLE_SECONDS)
        self._sink = sink
        self._says = says
        self._due = due
        self._refused = self._failed = self._told = 0
        self._reopen = False

    @property
    def dropped(self) -> int:
        """Lines that were lost since the start."""
        return self._refused + self._failed

    def release(self) -> None:
        """Let go of what it writes to: another takes its place, in this process or in one that was forked."""
        self.stop()
        self._sink.reopen()

    def put(self, line: bytes) -> None:
        """Hand in a line with its end, or drop it when too much waits already. Not by two threads at once."""
        if self.has_room(1, len(line)):
            self.hand_in(line, 1, len(line))
        else:
            self._refused += 1

    def reopen(self) -> None:
        """Begin anew at the same name, now. As ``put``: not by two threads at once."""
        self._reopen = True
        self.put(b"")

    def _write(self, items: Sequence[bytes]) -> None:
        if self._reopen:
            self._reopen = False
            self._sink.reopen()
        lost = self.dropped - self._told
        if lost:
            items = [self._says(f"{lost:,} lines of the log are lost: {self._failing or 'they came too fast'}"), *items]
        self._sink.write(b"".join(items))
        self._told += lost

    def _lose(self, items: Sequence[bytes]) -> None:
        self._failed += len(items)

    def _fails(self, why: OSError) -> None:
        """Said where somebody may see it."""
        if not isinstance(self._sink, StandardError):
            with suppress(OSError):
                text = f"the log cannot be written: {why.strerror or why}; lines are dropped until it can"
                StandardError().write(self._says(text))

    def _idle(self) -> None:
        self._due()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
