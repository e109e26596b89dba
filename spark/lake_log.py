"""The files of an archive of messages: a log of numbered entries, each taken whole or not at all.

    FOLDER/_log/00000000000000000012.json        what entry 12 adds and removes
    FOLDER/_log/00000000000000000012.state.json  what all up to 12 come to, so that older ones need not be read
    FOLDER/data/date=2026-11-22/group=3/….parquet

A file that no entry names is not part of the archive: it is what a crash left. So a batch is there with all its files
or with none, a batch that is written again adds nothing, and many files become one while others read. The folder is
on a disk that the driver and all executors see, with hard links.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import msgspec

from fastpath.core.protocol.subject import is_wildcard

STATE_ENTRIES = 50
"""Number of entries after which a state is written, and what is older than it deleted."""

GROUPS = 8
"""Groups of subjects: of a reader who names subjects only their groups' files are opened."""

_DIGITS = 20


class File(msgspec.Struct, frozen=True):
    """A file of messages: its path below the folder `data`, how many, and between which subjects they lie."""

    path: str
    rows: int
    bytes: int
    first: str
    last: str

    @property
    def partition(self) -> str:
        """The folder of the file: `date=…/group=…`."""
        return self.path.rpartition("/")[0]

    @property
    def date(self) -> str:
        """The date of the file's messages, UTC: `2026-11-22`."""
        return self.path[len("date=") :].partition("/")[0]

    @property
    def group(self) -> int:
        """The number of the group that the subjects of the file's messages are in."""
        return int(self.partition.rpartition("=")[2])


class Entry(msgspec.Struct):
    """A set of files added and removed at once; `query` and `batch` name what wrote it, if a query did."""

    add: list[File] = []
    remove: list[str] = []
    query: str = ""
    batch: int = -1


class ArchiveState(msgspec.Struct):
    """The archive after all entries up to `version`; `batches` is the last batch of each query."""

    version: int = 0
    files: dict[str, File] = {}
    batches: dict[str, int] = {}

    def take(self, entry: Entry) -> None:
        """Apply the next entry."""
        self.version += 1
        for path in entry.remove:
            del self.files[path]
        self.files |= {file.path: file for file in entry.add}
        if entry.query:
            self.batches[entry.query] = entry.batch

    def has(self, query: str, batch: int) -> bool:
        """True when the archive has the query's batch; the batches of a query come in their order."""
        return batch <= self.batches.get(query, -1)


_encode = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_state = msgspec.json.Decoder(ArchiveState).decode


class Log:
    """The log of the archive in `folder`; several processes may write to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._log = folder / "_log"

    def state(self) -> ArchiveState:
        """Return the archive's current state; empty where there is no archive yet."""
        while True:
            try:
                return self._read()
            except FileNotFoundError:
                continue  # deleted meanwhile, for a newer state

    def commit(self, entry: Entry) -> bool:
        """Append an entry; False when it cannot be any more: its batch is there, or a file that it removes is gone."""
        self._log.mkdir(parents=True, exist_ok=True)
        part = self._log / f".{secrets.token_hex(8)}"
        _write(part, _encode(entry))
        try:
            while True:
                state = self.state()
                if (entry.query and state.has(entry.query, entry.batch)) or not state.files.keys() >= {*entry.remove}:
                    return False
                try:
                    os.link(part, self._path(state.version + 1))
                except FileExistsError:
                    continue  # another process was faster; it may have changed what this one relies on
                _sync(self._log)
                state.take(entry)
                if state.version % STATE_ENTRIES == 0:
                    self._keep(state)
                return True
        finally:
            part.unlink()

    def _read(self) -> ArchiveState:
        states = sorted(self._log.glob("*.state.json"))
        state = _decode_state(states[-1].read_bytes()) if states else ArchiveState()
        while True:
            path = self._path(state.version + 1)
            try:
                text = path.read_bytes()
            except FileNotFoundError:
                newest = sorted(self._log.glob("*.state.json"))
                if newest != states and newest[-1].name > path.name:
                    raise  # this entry went into a state since
                return state
            state.take(_decode_entry(text))

    def _keep(self, state: ArchiveState) -> None:
        part = self._log / f".{secrets.token_hex(8)}"
        _write(part, _encode(state))
        kept = self._path(state.version, ".state.json")
        os.replace(part, kept)
        _sync(self._log)
        older = sorted(path for path in self._log.glob("*.json") if path.name < kept.name)
        for path in older:
            # Those that count on from the state before may be read at this moment.
            if path.name < self._path(state.version - STATE_ENTRIES).name:
                path.unlink(missing_ok=True)

    def _path(self, version: int, ending: str = ".json") -> Path:
        return self._log / f"{version:0{_DIGITS}}{ending}"


def by_partition(files: Iterable[File]) -> dict[str, list[File]]:
    """Return the files of each partition, which is a date and a group of subjects."""
    found: dict[str, list[File]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file)
    return found


def chosen_files(files: Iterable[File], subjects: Sequence[str], start: datetime | None) -> list[File]:
    """Return the files that may hold something of it: by date, group, and the subjects between which they lie."""
    date = "" if start is None else f"{start.astimezone(UTC):%Y-%m-%d}"
    groups = None
    if not any(map(is_wildcard, subjects)):
        groups = {crc32(one.encode()) % GROUPS for one in subjects}
    begins = [re.split(r"(?<=/)\*", one)[0] for one in subjects]
    return [
        file
        for file in files
        if file.date >= date
        and (groups is None or file.group in groups)
        and any(file.first[: len(begin)] <= begin <= file.last for begin in begins)
    ]


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
