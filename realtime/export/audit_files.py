"""Reads the audit's files as one sequence of events, in the order of their time (docs/operate/audit.md)."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fastpath.core.matching.pattern_set import PatternSet

NAME = re.compile(r"audit-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)-(\d+)\.jsonl")

_BLOCK_BYTES = 64 << 10
_decode = msgspec.json.Decoder(dict[str, Any]).decode

Event = dict[str, Any]


@dataclass
class Wanted:
    """The events that are asked for; each condition that is empty holds for all. Times are texts as in the files.

    An event that tells that others were dropped is wanted whatever else is: it says that there may be more.
    """

    kind: str = ""
    event: str = ""
    user: str | None = None
    """Empty is anonymous, None everybody."""
    subject: str = ""
    """A pattern, such as ``/stocks/**``."""
    address: str = ""
    connection: str = ""
    since: str = ""
    until: str = ""
    _cover: PatternSet | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.subject:
            self._cover = PatternSet((self.subject,))

    def __call__(self, event: Event) -> bool:
        """Return True if the event is wanted."""
        time = str(event.get("time", ""))
        if (self.since and time < self.since) or (self.until and time >= self.until):
            return False
        if event.get("kind") == "audit":
            return True
        if self.user is not None and event.get("user") != self.user:
            return False
        for key in ("kind", "event", "address", "connection"):
            if getattr(self, key) and event.get(key) != getattr(self, key):
                return False
        return self._cover is None or self._cover.covers(str(event.get("subject", "")))


class Trail:
    """The files of a folder; ``bad`` counts the lines that were no events."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self.bad = 0
        self._ends: dict[Path, int] = {}  # where the last whole line ended when it was looked for

    def search(self, wanted: Wanted) -> Iterator[Event]:
        """Return all events that are wanted, oldest first; raise OSError when the folder cannot be read."""
        chains = [self._forwards(paths, wanted) for paths in self._files().values()]
        return heapq.merge(*chains, key=_time)

    def newest(self, count: int, wanted: Wanted) -> list[Event]:
        """Return the newest events that are wanted, oldest first; raise OSError when the folder cannot be read."""
        files = self._files().values()
        self._ends = {path: _end(path) for paths in files for path in paths}
        chains = [self._backwards(paths, wanted) for paths in files]
        merged = heapq.merge(*chains, key=_time, reverse=True)
        found = [event for event, _ in zip(merged, range(count), strict=False)]
        return found[::-1]

    def follow(self, wanted: Wanted, wait: Callable[[], bool]) -> Iterator[Event]:
        """Yield what has been written since ``newest`` looked, also to new files, while ``wait`` answers true: it is
        called when there is nothing. Each look's events are in the order of their time; raises OSError when the folder
        cannot be read."""
        while wait():
            found: list[Event] = []
            for paths in self._files().values():
                for path in paths:
                    lines, self._ends[path] = _lines_from(path, self._ends.get(path, 0))
                    found += filter(wanted, self._events(lines))
            yield from sorted(found, key=_time)

    def _files(self) -> dict[str, list[Path]]:
        """Return the files of each worker, oldest first."""
        found: dict[str, list[Path]] = {}
        for name in sorted(os.listdir(self._folder)):
            match = NAME.fullmatch(name)
            if match:
                found.setdefault(match[7], []).append(self._folder / name)
        return found

    def _forwards(self, paths: list[Path], wanted: Wanted) -> Iterator[Event]:
        for path, after in zip(paths, [*paths[1:], None], strict=True):
            if after is not None and wanted.since and _begun(after) <= wanted.since:
                continue  # all of it is older
            try:
                with path.open("rb") as file:
                    for number, event in enumerate(self._events(file)):
                        if not number and wanted.until and _time(event) >= wanted.until:
                            return  # so are all that follow
                        if wanted(event):
                            yield event
            except FileNotFoundError:
                continue  # deleted meanwhile, for its age

    def _backwards(self, paths: list[Path], wanted: Wanted) -> Iterator[Event]:
        for path in reversed(paths):
            try:
                with path.open("rb") as file:
                    yield from filter(wanted, self._events(_lines_backwards(file, self._ends[path])))
            except FileNotFoundError:
                return
            if wanted.since and _begun(path) <= wanted.since:
                return

    def _events(self, lines: Iterator[bytes] | BinaryIO | list[bytes]) -> Iterator[Event]:
        for line in lines:
            if not line.strip():
                continue
            try:
                event = _decode(line)
                if isinstance(event.get("time"), str):
                    yield event
                    continue
            except msgspec.DecodeError:
                pass
            self.bad += 1


def describe(event: Event) -> str:
    """Return an event as a line for people: when, what, who, then all else."""
    rest = dict(event)
    first = [rest.pop(key, "") for key in ("time", "kind", "event")]
    user, address = rest.pop("user", None), rest.pop("address", "")
    if user is not None:
        first.append(f"{user or '(anonymous)'}{'@' if address else ''}{address}")
    where = f"{rest.pop('node', '')}/{rest.pop('worker', '')}/{rest.pop('connection', '')}".rstrip("/")
    shown = [f"{_plain(key)}={_shown(value)}" for key, value in rest.items()]
    return " ".join([*map(_plain, first), *shown, _plain(where)])


def _shown(value: Any) -> str:
    if isinstance(value, str) and value and _plain(value) == value and not set(value) & set(' "='):
        return value
    text = msgspec.json.encode(value).decode()
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """Return a character as JSON may write it (RFC 8259, 7), which leaves controls from 7F on and turns of a line as
    they are."""
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _plain(text: Any) -> str:
    """Return a text without what a terminal would take for an order: a client chose some of it."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text))


def _time(event: Event) -> str:
    return str(event["time"])


def _begun(path: Path) -> str:
    """Return when the file was begun, as a time of the files."""
    match = NAME.fullmatch(path.name)
    assert match is not None
    year, month, day, hour, minute, second, _ = match.groups()
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}"


def _lines_from(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Return the whole lines behind the offset, and the offset behind these lines."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(1 << 24)
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(), offset + end


def _end(path: Path) -> int:
    """Return where the last whole line ends; 0 also for a file that is gone."""
    try:
        with path.open("rb") as file:
            at = file.seek(0, os.SEEK_END)
            while at:
                size = min(_BLOCK_BYTES, at)
                at -= size
                file.seek(at)
                found = file.read(size).rfind(b"\n") + 1
                if found:
                    return at + found
    except FileNotFoundError:
        pass
    return 0


def _lines_backwards(file: BinaryIO, at: int) -> Iterator[bytes]:
    """Yield the lines of a file up to there, the last one first."""
    rest = b""
    while at:
        size = min(_BLOCK_BYTES, at)
        at -= size
        file.seek(at)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        yield from reversed(lines)
    yield rest
