"""Arrow columns of messages that were read: those that every message has, and fields as a map or as typed columns."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from fastpath.client.publisher.reading import Range, Run
from fastpath.core.protocol.messages import Value
from spark.options import InvalidOption
from spark.source.casts import SPARKS, Rules, cast

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = {
    "subject": StringType(),
    "content": BinaryType(),
    "fields": MapType(StringType(), BinaryType()),
    "epoch": LongType(),
    "seq": LongType(),
    "time": TimestampType(),
    "closure": StringType(),
    "as_of": StringType(),
}
"""Columns that can be read of every message; any other column is the field of its name."""


_READABLE: tuple[type[DataType], ...] = (
    StringType, CharType, VarcharType, BinaryType, BooleanType, NumericType, DateType, TimestampType, TimestampNTZType,
)  # fmt: skip
"""Types in which a text can be read."""

REPR_CHARS = 40
"""Characters that the log shows of a value that could not be read."""


class Unread:
    """The values of fields that are null as they could not be read: how many, and the first one."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self._first: dict[tuple[str, str], Value] = {}

    def note(self, name: str, kind: str, given: Sequence[Value | None], read: pa.Array) -> None:
        """Count what was given and was not read as this type."""
        lost = read.null_count - sum(value is None for value in given)
        if lost:
            self.counts[name, kind] = self.counts.get((name, kind), 0) + lost
            first = next(
                value for value, one in zip(given, read, strict=True) if value is not None and not one.is_valid
            )
            self._first.setdefault((name, kind), first)

    def __str__(self) -> str:
        return "; ".join(
            f"{count} of the field {name!r} as {kind}, the first {self._first[name, kind]!r:.{REPR_CHARS}}"
            for (name, kind), count in self.counts.items()
        )


def ddl(fields: str) -> str:
    """Return the schema of a read; with columns for some ``fields`` (DDL) these stand in place of the map."""
    columns = {name: kind.simpleString() for name, kind in COLUMNS.items()}
    return ", ".join(fields if fields and name == "fields" else f"{name} {kind}" for name, kind in columns.items())


class ColumnBuilder:
    """Makes the record batches of one schema; it travels to the executors."""

    def __init__(self, schema: StructType) -> None:
        """Take the columns; raise InvalidOption for those that cannot be read."""
        names = [column.name for column in schema]
        for column in schema:
            wanted = COLUMNS.get(column.name)
            if names.count(column.name) > 1:
                raise InvalidOption(f"two columns are named {column.name!r}: of a field so named read the map `fields`")
            if wanted is not None and column.dataType.simpleString() != wanted.simpleString():
                raise InvalidOption(f"column {column.name!r} is {wanted.simpleString()}")
            if wanted is None and not isinstance(column.dataType, _READABLE):
                raise InvalidOption(f"field {column.name!r} cannot be {column.dataType.simpleString()}: read its text")
        self.schema = schema

    def batch(
        self, ranges: Sequence[Range], runs: Sequence[Run], rules: Rules = SPARKS, unread: Unread | None = None
    ) -> pa.RecordBatch:
        """Return the messages of some runs, in their order; ``unread`` counts values that are null as they cannot be
        read."""
        import pyarrow as pa  # noqa: PLC0415 - it takes a third of a second: not where only options are checked

        arrow = to_arrow_schema(self.schema, timezone="UTC")
        columns = [
            _column(field.name, field.type, ranges, runs)
            if field.name in COLUMNS
            else self._field(field.name, field.type, runs, rules, unread)
            for field in arrow
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    def _field(
        self, name: str, kind: pa.DataType, runs: Sequence[Run], rules: Rules, unread: Unread | None
    ) -> pa.Array:
        import pyarrow as pa  # noqa: PLC0415 - as above

        if not any(run.fields and name in run.fields for run in runs):
            return pa.nulls(_count(runs), kind)
        given = _joined(runs, lambda run: (run.fields or {}).get(name) or [None] * len(run.times))
        read = typed(given, kind, rules)
        if unread is not None and read.null_count:
            unread.note(name, self.schema[name].dataType.simpleString(), given, read)
        return read


def _column(name: str, kind: pa.DataType, ranges: Sequence[Range], runs: Sequence[Run]) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 - as above

    match name:
        case "subject":
            return _texts([(ranges[run.at].subject, len(run.times)) for run in runs])
        case "content":
            return pa.array(_joined(runs, lambda run: run.contents), kind)
        case "fields":
            return _maps(kind, runs)
        case "epoch":
            return _longs(_joined(runs, lambda run: _each(run.epochs, len(run.times))))
        case "seq":
            return _longs(_joined(runs, lambda run: range(run.seq, run.seq + len(run.times))))
        case "time":
            return _longs(_joined(runs, lambda run: run.times)).cast(pa.timestamp("ms", "UTC")).cast(kind)
        case _:  # closure, as_of
            if not any(run.metas for run in runs):
                return pa.nulls(_count(runs), kind)
            return pa.array(_joined(runs, lambda run: _meta(run, name)), kind)


def _count(runs: Sequence[Run]) -> int:
    return sum(len(run.times) for run in runs)


def _joined(runs: Sequence[Run], of: Callable[[Run], Sequence[Any]]) -> Sequence[Any]:
    return of(runs[0]) if len(runs) == 1 else [value for run in runs for value in of(run)]


def _texts(counted: Sequence[tuple[str, int]]) -> pa.Array:
    """Return each text so many times."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    if len(counted) == 1:
        return pa.repeat(pa.scalar(counted[0][0], pa.string()), counted[0][1])
    return pa.array([one for text, count in counted for one in [text] * count], pa.string())


def _each(epochs: int | list[int], count: int) -> Sequence[int]:
    return epochs if isinstance(epochs, list) else array("q", (epochs,)) * count


def _longs(values: Sequence[int]) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 - as above

    buffer = values if isinstance(values, array) else array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(buffer)])


def _meta(run: Run, name: str) -> list[str | None]:
    values: list[str | None] = [None] * len(run.times)
    for at, meta in (run.metas or {}).items():
        value = meta.get(name)
        if value is not None:
            values[at] = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return values


def _maps(kind: pa.MapType, runs: Sequence[Run]) -> pa.Array:
    """Return the fields of each message in the order of their names; null for a message without any."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    if not any(run.fields for run in runs):
        return pa.nulls(_count(runs), kind)
    keys: list[str] = []
    values: list[Value] = []
    counts: list[int] = []
    for run in runs:
        if not run.fields:
            counts += [0] * len(run.times)
            continue
        names = list(run.fields)
        table = list(zip(*run.fields.values(), strict=True))
        flat = [value for row in table for value in row]
        if None not in flat:
            keys += names * len(table)
            values += flat
            counts += [len(names)] * len(table)
            continue
        for row in table:
            there = [(name, value) for name, value in zip(names, row, strict=True) if value is not None]
            keys += [name for name, _ in there]
            values += [value for _, value in there]
            counts.append(len(there))
    offsets: list[int | None] = list(accumulate(counts, initial=0))
    for at, count in enumerate(counts):
        if not count:
            offsets[at] = None  # no map at all
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.binary())
    ).cast(kind)


def typed(values: Sequence[Value | None], kind: pa.DataType, rules: Rules) -> pa.Array:
    """Return the values of one field in the column's type; null where there is none, or where the text is no such
    value."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    if pa.types.is_binary(kind):
        return pa.array(values, kind)
    return cast([_text(value) if isinstance(value, bytes) else value for value in values], kind, rules)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
