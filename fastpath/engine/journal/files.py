"""The folder of a journal: its lock, its segments and bases by number, and the segment that is written."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .format import HEADER, LAYOUT, MAGIC, MARK_BYTES, JournalHeader, Packer

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

SEGMENT = ".log"
BASE = ".base"
PARTIAL = ".partial"
LOCK = "lock"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of errors after which there may be room again."""

LOCK_SECONDS = 3.0
"""Seconds to wait for the folder: workers whose parent was killed let go of it in a moment."""

sync_data = getattr(os, "fdatasync", os.fsync)
"""Bring a file's data to the disk; where only fsync exists, that."""


BINARY = getattr(os, "O_BINARY", 0)
"""Flag without which Windows writes two bytes where a line ends."""


class JournalError(Exception):
    """The folder or its files cannot be used; the text says why."""


def boot_id() -> str:
    """Return the name of this start of the machine; empty where it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def check_folder(path: str) -> None:
    """Raise JournalError when files cannot be written there; change nothing."""
    folder = Path(path).absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent  # it would be made here
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(MAGIC)
    except OSError as error:
        raise JournalError(f"cannot write to {path}: {error.strerror or error}") from None


class Folder:
    """A journal's folder, held by this process alone until ``close``. Raises JournalError."""

    def __init__(self, path: str, patience_seconds: float | None = None) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise JournalError(f"cannot write to {path}: {error.strerror or error}") from None
        deadline = time.monotonic() + (LOCK_SECONDS if patience_seconds is None else patience_seconds)
        while not self._locked():
            if time.monotonic() >= deadline:
                os.close(self._lock)
                raise JournalError(f"{path} belongs to a sidecar that is running; each needs a folder of its own")
            time.sleep(LOCK_SECONDS / 100)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._lock)

    def _locked(self) -> bool:
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise JournalError(f"{self.path} cannot be locked: {error.strerror or error}") from None
        return True

    def segments(self) -> list[int]:
        """Return the numbers of the segments, oldest first."""
        return self._numbers(SEGMENT)

    def bases(self) -> list[int]:
        """Return the numbers of the bases, oldest first."""
        return self._numbers(BASE)

    def segment(self, number: int) -> Path:
        """Return the file of a segment."""
        return self.path / f"{number:012}{SEGMENT}"

    def base(self, number: int) -> Path:
        """Return the file of the base that holds all that is in segments before this number."""
        return self.path / f"{number:012}{BASE}"

    def remove_partial(self) -> None:
        """Remove bases that were never finished."""
        for path in self.path.glob("*" + PARTIAL):
            path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Bring the names of the files to the disk; raises OSError."""
        if os.name == "nt":
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _numbers(self, suffix: str) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*" + suffix) if path.stem.isdecimal())


class RecordFile:
    """A new file of records, written from its beginning on; raises OSError, and then leaves no file behind."""

    def __init__(self, path: Path, number: int, epoch: int, boot: str, now: int) -> None:
        self.path = path
        self.number = number
        self.size = 0
        self.broken = False
        """The end of the file could not be repaired after a write that failed: nothing more may be written."""
        mark = secrets.token_bytes(MARK_BYTES)
        self._packer = Packer(mark)
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | BINARY, 0o600)
        try:
            inode = os.fstat(self.descriptor).st_ino
            self._write(MAGIC + mark)
            self.write(HEADER, JournalHeader(number, epoch, boot, inode, now, LAYOUT))
        except BaseException:
            self.remove()
            raise

    def write(self, kind: int, body: Any) -> None:
        """Write a record, whole or not at all; raises OSError."""
        if self.broken:
            raise OSError(errno.EIO, "the end of the file is not in order")
        try:
            data = self._packer.pack(kind, body)
        except (OverflowError, TypeError, ValueError) as error:  # too large, or half a character
            raise OSError(errno.EINVAL, str(error)) from None
        self._write(data)

    def finish(self, kind: int) -> None:
        """Write a last, empty record, and bring everything to the disk; raises OSError."""
        self.write(kind, None)
        sync_data(self.descriptor)

    def remove(self) -> None:
        """Remove the file, which is not needed."""
        self.close()
        with suppress(OSError):
            self.path.unlink()

    def close(self) -> None:
        """Close the file; what it holds may not be on the disk yet."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            with suppress(OSError):
                os.close(descriptor)

    def _write(self, data: bytes | bytearray) -> None:
        length = len(data)
        try:
            done = os.write(self.descriptor, data)
            while done < length:  # an almost full disk takes a part; the next attempt says why
                with memoryview(data) as view:
                    done += os.write(self.descriptor, view[done:])
        except OSError:
            try:
                os.ftruncate(self.descriptor, self.size)
            except OSError:
                self.broken = True
            raise
        self.size += length
