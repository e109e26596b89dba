"""The statistics as files of lines of JSON: for who keeps them longer than the windows reach, and back.

A line is a bucket: `{"size": 60, "start": 1795331520, "values": {"connections": [n, mean, m2, maximum], …}}`, `size`
and `start` in seconds; the four numbers are those that are kept (realtime/stats/windows.py), so that nothing is lost.
"""

from __future__ import annotations

import gzip
import os
import re
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import IO, Annotated, BinaryIO

import msgspec

from realtime.models import StatisticsState
from realtime.stats.database import to_read
from realtime.stats.store import Store, load, timeline_of
from realtime.stats.windows import NOTHING, SECOND, SIZES, History, Sums

NAME = re.compile(r"statistics-(\d{8}T\d{6})\.jsonl\.gz")

_FORM = "%Y%m%dT%H%M%S"
_EXPORTED = tuple(size for size in SIZES if size != SECOND)


class TransferError(ValueError):
    """A file that cannot be taken; the text says why."""


class CollectorAtWork(RuntimeError):
    """A collector is at work: it has the statistics in its memory, and would not know of what is imported."""


class Line(msgspec.Struct):
    """A bucket."""

    size: int
    start: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    values: dict[str, Sums]


_decode = msgspec.json.Decoder(Line).decode


def export(folder: Path) -> tuple[Path | None, int]:
    """Write what is complete and in no file of the folder yet to another one; which it is, and how many buckets.

    None where there is nothing new. Raises OSError, and django.db.Error when the database does not answer.
    """
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    with to_read() as database:
        state = StatisticsState.objects.using(database).first()
        since, until = _exported(folder), state.through + 1 if state is not None else 0
        if state is None or until <= since:
            return None, 0
        lines = list(_lines(load(database, state.names), since, until))
    if not lines:
        return None, 0
    path = folder / f"statistics-{datetime.fromtimestamp(until, UTC):{_FORM}}.jsonl.gz"
    part = folder / f".{path.name}"  # what a crash leaves of it is written over
    with part.open("wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb") as file:
            file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
        raw.flush()
        os.fsync(raw.fileno())
    os.replace(part, path)
    return path, len(lines)


def take(paths: Iterable[Path], store: Store | None = None) -> tuple[int, int]:
    """Put buckets of files where the database has none, or one of fewer samples; how many of how many.

    All or nothing. ``store`` is the one that has tried before: it tells by that whether a collector of another machine
    still lives. Raises CollectorAtWork, TransferError, OSError and django.db.Error.
    """
    lines = [line for path in paths for line in _read(path)]
    store = store or Store()
    saved = store.claim()
    if saved is None:
        raise CollectorAtWork("a collector is at work")
    try:
        changed = sum(_put(saved.history, line) for line in lines)
        store.save(saved.history, timeline_of(saved))
    finally:
        store.release()
    return changed, len(lines)


def _exported(folder: Path) -> int:
    """Return until when the newest file of a folder tells (s since 1970)."""
    ends = [match[1] for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    return int(datetime.strptime(max(ends), _FORM).replace(tzinfo=UTC).timestamp()) if ends else 0


def _lines(history: History, since: int, until: int) -> Iterator[Line]:
    """Yield the buckets that were completed in between."""
    for size in _EXPORTED:
        for number, bucket in history.buckets[size].items():
            end = (number + 1) * size
            if since < end <= until:
                sums = [tuple(bucket[at : at + 4]) for at in range(0, len(bucket), 4)]
                values = {name: one for name, one in zip(history.names, sums, strict=True) if one[0]}
                yield Line(size, number * size, values)  # type: ignore[arg-type]


def _put(history: History, line: Line) -> bool:
    """Put a line into the history; return True if some of it has seen more than what is there."""
    number, changed = line.start // line.size, False
    bucket = history.buckets[line.size].get(number)
    if bucket is None:
        bucket = array("d", NOTHING * len(history.names))
    for at, name in enumerate(history.names):
        sums = line.values.get(name)
        if sums is not None and sums[0] > bucket[4 * at]:
            bucket[4 * at : 4 * at + 4] = array("d", sums)
            changed = True
    if changed:
        history.buckets[line.size][number] = bucket
        history.changed.add((line.size, number))
    return changed


def _read(path: Path) -> Iterator[Line]:
    with path.open("rb") as raw, _unpacked(raw, path) as file:
        for number, text in enumerate(file, 1):
            try:
                line = _decode(text)
            except msgspec.MsgspecError as error:
                raise TransferError(f"{path}, line {number}: {error}") from None
            fault = _fault(line)
            if fault:
                raise TransferError(f"{path}, line {number}: {fault}")
            yield line


def _unpacked(raw: BinaryIO, path: Path) -> IO[bytes]:
    return gzip.open(raw) if path.suffix == ".gz" else raw


def _fault(line: Line) -> str:
    if line.size not in _EXPORTED:
        return f"no bucket has {line.size} seconds: {', '.join(map(str, _EXPORTED))}"
    if line.start % line.size:
        return f"no bucket of {line.size} seconds begins at {line.start}"
    for name, (count, mean, squares, maximum) in line.values.items():
        if not (all(map(isfinite, (count, mean, squares, maximum))) and count >= 1 and squares >= 0):
            return f"{name} is none of count, mean, sum of squared differences, maximum"
    return ""
