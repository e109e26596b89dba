"""Writes a recording to one file, or one after another, so that all of it but the last moment outlives a crash."""

from __future__ import annotations

import errno
import os
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

from .lines import End, Happened, Header, Recorded, RecordingError, encode

BUFFER_BYTES = 1 << 16
_GZIP = 31
_LEVEL = 3
"""Prices and the like get hardly smaller above it, and cost twice the time."""


class ReaderGone(Exception):
    """The reader of the standard output has gone away."""


class File:
    """A recording's file being written; ``-`` is the standard output. ``size`` is in bytes on the disk."""

    def __init__(self, path: str, replace: bool = False) -> None:
        self.path = path
        self.size = 0
        self._buffer = bytearray()
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP) if path.endswith(".gz") else None
        self._packed = False
        self._fd = self._open(replace)

    def write(self, data: bytes) -> None:
        """Take bytes, which go to the disk with ``flush()`` or when there are enough; raises RecordingError."""
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            self._drain()

    def flush(self) -> None:
        """Hand all to the operating system, so that it outlives this process, and can be unpacked to here."""
        self._drain()
        if self._packer is not None and self._packed:
            self._out(self._packer.flush(zlib.Z_SYNC_FLUSH))
            self._packed = False

    def close(self) -> None:
        """Write the rest to the disk and close."""
        try:
            self._drain()
            if self._packer is not None:
                self._out(self._packer.flush(zlib.Z_FINISH))
            if stat.S_ISREG(os.fstat(self._fd).st_mode):
                os.fsync(self._fd)
        except OSError as error:
            raise self._error(error) from None
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without writing any more."""
        fd, self._fd = self._fd, -1
        if fd >= 0 and self.path != "-":
            os.close(fd)

    def _open(self, replace: bool) -> int:
        if self.path == "-":
            sys.stdout.flush()
            return sys.stdout.fileno()
        # A device or a named pipe is written to; a file that is there already is somebody's recording.
        there = Path(self.path).exists() and not Path(self.path).is_file()
        how = 0 if there else os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
        try:
            return os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | how, 0o600)
        except FileExistsError:
            raise RecordingError(f"{self.path} is there already: choose another name, or say --replace") from None
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror}") from None

    def _drain(self) -> None:
        if not self._buffer:
            return
        data, self._buffer = bytes(self._buffer), bytearray()
        if self._packer is not None:
            data = self._packer.compress(data)
            self._packed = True
        self._out(data)

    def _out(self, data: bytes) -> None:
        try:
            while data:
                count = os.write(self._fd, data)
                self.size += count
                data = data[count:]
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: OSError) -> Exception:
        if self.path == "-" and error.errno == errno.EPIPE:
            return ReaderGone()
        return RecordingError(f"{self.path}: {error.strerror}; what was written before can be read")


class RecordingParts:
    """A recording in one file or, with a bound, in several: ``day.jsonl.gz`` becomes ``day-0001.jsonl.gz`` and so on.

    ``header`` makes the header of a part by its number. ``bytes_max`` and ``seconds_max`` end a part; 0: they do not.
    ``files_max`` parts are kept, the oldest go; 0: all. Numbers go on after those of parts that are there.
    """

    def __init__(
        self,
        path: str,
        header: Callable[[int, int], Header],
        at_us: int,
        *,
        bytes_max: int = 0,
        seconds_max: float = 0,
        files_max: int = 0,
        replace: bool = False,
    ) -> None:
        self.messages = 0
        """Over all parts."""
        self._path = path
        self._header = header
        self._bytes_max = bytes_max
        self._us_max = int(seconds_max * 1e6)
        self._files_max = files_max
        self._replace = replace
        self._several = bool(bytes_max or seconds_max)
        if self._several and path == "-":
            raise RecordingError("the standard output cannot be divided into parts")
        self._number = _last_number(path) + 1 if self._several else 1
        self._messages = 0
        self._began_us = 0
        self._file = self._begin(at_us)

    @property
    def path(self) -> str:
        """The file that is written at present."""
        return self._file.path

    def message(self, line: Recorded) -> None:
        """Write a message; raises RecordingError."""
        self.turn(line.at_us)
        self._file.write(encode(line))
        self._messages += 1
        self.messages += 1

    def status(self, line: Happened) -> None:
        """Write what happened; raises RecordingError."""
        self._file.write(encode(line))

    def flush(self) -> None:
        """Hand what was written to the system, so that it outlives this process; raises RecordingError."""
        self._file.flush()

    def turn(self, at_us: int) -> None:
        """Begin another part if this one is over; one without messages goes on."""
        if not self._several or not self._messages:
            return
        if self._bytes_max and self._file.size >= self._bytes_max:
            self._next(at_us, "bytes")
        elif self._us_max and at_us - self._began_us >= self._us_max:
            self._next(at_us, "seconds")

    def close(self, at_us: int, why: str) -> None:
        """End the recording in order; raises RecordingError."""
        self._file.write(encode(End(at_us=at_us, messages=self._messages, why=why)))
        self._file.close()

    def abandon(self) -> None:
        """End the part as it is."""
        self._file.abandon()

    def _next(self, at_us: int, why: str) -> None:
        self.close(at_us, why)
        self._number += 1
        self._file = self._begin(at_us)

    def _begin(self, at_us: int) -> File:
        path = part_path(self._path, self._number) if self._several else self._path
        file = File(path, self._replace)
        self._messages, self._began_us = 0, at_us
        if self._files_max and self._several:
            for number, old in _parts(self._path):
                if number <= self._number - self._files_max:
                    old.unlink(missing_ok=True)
        file.write(encode(self._header(self._number, at_us)))
        file.flush()
        return file


def part_path(path: str, number: int) -> str:
    """Return the file of a part: its number stands before the endings ``.jsonl``, ``.jsonl.gz`` and the like."""
    whole = Path(path)
    stem, dot, endings = whole.name.partition(".")
    return str(whole.with_name(f"{stem}-{number:04d}{dot}{endings}"))


def _parts(path: str) -> list[tuple[int, Path]]:
    """Return the parts of a recording that are there, with their numbers."""
    whole = Path(path)
    stem, dot, endings = whole.name.partition(".")
    found = []
    for other in whole.parent.iterdir() if whole.parent.is_dir() else ():
        digits = other.name.removeprefix(f"{stem}-").removesuffix(f"{dot}{endings}")
        if digits.isdecimal() and other.name == Path(part_path(path, int(digits))).name:
            found.append((int(digits), other))
    return sorted(found)


def _last_number(path: str) -> int:
    return max((number for number, _ in _parts(path)), default=0)
