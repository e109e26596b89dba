"""Recordings that tests make themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastpath.recording.lines import VERSION, End, Header, Line, Recorded, encode
from fastpath.recording.reading import Reader

BEGAN_US = 1_800_000_000_000_000


def header(**given: Any) -> Header:
    """The first line."""
    return Header(**{"version": VERSION, "at_us": BEGAN_US, "subjects": ["/a/**"]} | given)


def message(ms: float = 0, subject: str = "/a/b", content: str = "x", **given: Any) -> Recorded:
    """A message so many ms after the beginning, by both clocks."""
    at_us = BEGAN_US + int(ms * 1000)
    return Recorded(**{"at_us": at_us, "time": at_us // 1000, "subject": subject, "content": content} | given)


def write(path: Path, lines: Iterable[Line], *, end: bool = True) -> Path:
    """A plain recording of these lines."""
    found = [header(), *lines]
    count = sum(isinstance(line, Recorded) for line in found)
    if end:
        found.append(End(at_us=BEGAN_US, messages=count, why="signal"))
    path.write_bytes(b"".join(map(encode, found)))
    return path


def read(path: Path | str) -> list[Line]:
    """All lines after the header."""
    return list(Reader(str(path)))


def messages(path: Path | str) -> list[Recorded]:
    """The messages."""
    return [line for line in read(path) if isinstance(line, Recorded)]


def said(line: Recorded, prefix: str = "") -> tuple[Any, ...]:
    """What a message says whenever and wherever it is published."""
    return (
        line.subject.removeprefix(prefix), line.content, line.fields, line.retained, line.qos, line.reply_to,
        line.closure, line.as_of,
    )  # fmt: skip
