"""What both kinds of files of staged rows need: their names, their good records, and that they are on the disk."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from ..format import JournalRecord as Found
from ..format import read_records

log = logging.getLogger("fastpath.staging")


def make_folder(folder: Path) -> None:
    """Make the folder, if it is missing, for this user alone; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def numbered(folder: Path, suffix: str) -> dict[int, Path]:
    """Return the files of one kind, by their numbers."""
    return {int(path.stem): path for path in folder.glob("*" + suffix) if path.stem.isdecimal()}


def good(path: Path) -> Iterator[Found]:
    """Yield the good records of a file, each to be decoded before the next is asked for."""
    with path.open("rb") as file:
        for record in read_records(file):
            if isinstance(record, Found):
                yield record
            elif not record.torn:
                log.error("%s: %d bytes are damaged", path, record.end - record.offset)


def sync_names(folder: Path) -> None:
    """Bring the names of its files to the disk; raises OSError."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file that is not needed; one that cannot be removed is told."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror or error)
