"""Cuts the rows of a record batch into frames for staging, those of one subject together (protocol.md 6.5)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from fastpath.core.protocol.columns import ColumnBatch, part
from fastpath.core.protocol.limits import FIELDS_MAX
from spark.sink.rows import Table
from spark.sink.values import Value

FRAME_BYTES_MAX = 512 << 10
"""Bytes of the runs in one frame before compression; more only for a single row."""

MAP_ROWS_MAX = 256
"""Rows of a run whose fields are maps: were all their names different, its values would be the square of this."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ColumnBatch]).decode

Columns = dict[str, list[Value | None]]


class Frame(NamedTuple):
    """Some runs, encoded; ``places`` are those of their rows in the record batch."""

    rows: int
    runs: bytes
    places: Sequence[int]


def frames(table: Table, rows_max: int) -> Iterator[Frame]:
    """Yield the rows that are not refused, in frames of at most ``rows_max`` rows and FRAME_BYTES_MAX bytes."""
    runs: list[ColumnBatch] = []
    places: list[int] = []
    for of_subject in _by_subject(table):
        start = 0
        while start < len(of_subject):
            some = of_subject[start : start + rows_max - len(places)]
            start += len(some)
            runs += _runs(table, some)
            places += some
            if len(places) == rows_max:
                yield from _encoded(runs, places)
                runs, places = [], []
    if runs:
        yield from _encoded(runs, places)


def compressed(runs: bytes) -> bytes:
    """Return the runs of a frame as a MessagePack binary that holds them compressed."""
    return _encode(zlib.compress(runs, 1))


def row_at(runs: bytes, index: int) -> tuple[str, Value, dict[str, Value] | None]:
    """Return the row of a frame, counted over all runs: its subject, content and fields."""
    for run in _decode(runs):
        if index < len(run):
            fields = {name: column[index] for name, column in (run.fields or {}).items()}
            return run.subject, run.contents[index], {k: v for k, v in fields.items() if v is not None} or None
        index -= len(run)
    raise IndexError(index)


def _by_subject(table: Table) -> list[list[int]]:
    """Return the places of the rows of each subject."""
    places: dict[str | None, list[int]] = {}
    for place, subject in enumerate(table.subjects):
        found = places.get(subject)
        if found is None:
            places[subject] = [place]
        else:
            found.append(place)
    places.pop(None, None)
    return list(places.values())


def _runs(table: Table, places: list[int]) -> Iterator[ColumnBatch]:
    """Yield runs of rows of one subject: a new one where the meta changes, or the names of the fields would be too
    many."""
    subject = table.subjects[places[0]]
    assert subject is not None
    if table.meta is None:
        groups: list[tuple[Any, list[int]]] = [(None, places)]
    else:
        groups = [(meta, list(group)) for meta, group in groupby(places, table.meta.__getitem__)]
    for meta, group in groups:
        if table.maps is None:
            pick = _picker(group)
            yield ColumnBatch(subject, pick(table.contents), _columns(table.columns, pick), meta)
        else:
            for some, names in _with_like_fields(table.maps, group):
                fields: Columns = {name: [table.maps[place].get(name) for place in some] for name in names}
                yield ColumnBatch(subject, _picker(some)(table.contents), fields or None, meta)


def _picker(places: list[int]) -> Callable[[list[Any]], list[Any]]:
    """Return a function that takes what stands at these places of a column."""
    if len(places) == 1:
        (place,) = places
        return lambda values: [values[place]]
    take = itemgetter(*places)
    return lambda values: list(take(values))


def _columns(columns: Columns, pick: Callable[[list[Any]], list[Any]]) -> Columns | None:
    """Return the values of each field that one of the rows has."""
    found = {name: pick(values) for name, values in columns.items()}
    return {name: values for name, values in found.items() if values.count(None) < len(values)} or None


def _with_like_fields(maps: list[dict[str, Value]], places: list[int]) -> Iterator[tuple[list[int], dict[str, None]]]:
    """Yield the rows in parts that make runs, each with the names of its fields."""
    some: list[int] = []
    names: dict[str, None] = {}
    for place in places:
        own = dict.fromkeys(maps[place])
        both = names if own.keys() <= names.keys() else names | own
        if some and (len(some) == MAP_ROWS_MAX or len(both) > FIELDS_MAX):
            yield some, names
            some, both = [], own
        some.append(place)
        names = both
    yield some, names


def _encoded(runs: list[ColumnBatch], places: Sequence[int]) -> Iterator[Frame]:
    """Yield one frame, or more where it has too many bytes."""
    data = _encode(runs)
    if len(data) <= FRAME_BYTES_MAX or len(places) == 1:
        yield Frame(len(places), data, places)
        return
    half = len(places) // 2
    before, after = _split(runs, half)
    yield from _encoded(before, places[:half])
    yield from _encoded(after, places[half:])


def _split(runs: list[ColumnBatch], rows: int) -> tuple[list[ColumnBatch], list[ColumnBatch]]:
    """Return the first rows, and the others."""
    for index, run in enumerate(runs):
        if rows <= len(run):
            return [*runs[:index], part(run, 0, rows)], [
                *([part(run, rows)] if rows < len(run) else []),
                *runs[index + 1 :],
            ]
        rows -= len(run)
    raise IndexError(rows)
