"""Messages as Arrow columns: what every message has, fields as a map, fields as typed columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from fastpath.client.publisher.reading import Range, Run
from spark.options import InvalidOption
from spark.source.casts import SPARKS
from spark.source.columns import COLUMNS, ColumnBuilder, Unread, ddl, typed

RANGES = [Range("/a/1"), Range("/a/2")]
VALUES = st.one_of(st.text(max_size=5), st.binary(max_size=5))


def schema(**columns: Any) -> StructType:
    """A schema of these columns."""
    found = StructType()
    for name, kind in columns.items():
        found = found.add(name, kind)
    return found


ALL = schema(**COLUMNS)


def test_all_columns() -> None:
    runs = [
        Run(0, 5, 7, [1000, 2000], ["one", b"\x00\xff"], {"x": ["1", None], "y": [None, None]}, None),
        Run(1, 1, [7, 8], [3000, 4001], ["", "two"], None, {1: {"closure": "c", "as_of": {"batch": 3}}}),
    ]
    batch = ColumnBuilder(ALL).batch(RANGES, runs)
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert batch.to_pylist() == [
        {"subject": "/a/1", "content": b"one", "fields": [("x", b"1")], "epoch": 7, "seq": 5, "time": moment}
        | {"closure": None, "as_of": None},
        {"subject": "/a/1", "content": b"\x00\xff", "fields": None, "epoch": 7, "seq": 6}
        | {"time": moment.replace(second=2), "closure": None, "as_of": None},
        {"subject": "/a/2", "content": b"", "fields": None, "epoch": 7, "seq": 1, "time": moment.replace(second=3)}
        | {"closure": None, "as_of": None},
        {"subject": "/a/2", "content": b"two", "fields": None, "epoch": 8, "seq": 2}
        | {"time": moment.replace(second=4, microsecond=1000), "closure": "c", "as_of": '{"batch":3}'},
    ]


@given(st.lists(st.one_of(st.none(), st.dictionaries(st.sampled_from("xyz"), VALUES, min_size=1)), min_size=1))
def test_maps_hold_what_each_message_has(rows: list[Any]) -> None:
    names = sorted({name for row in rows if row for name in row})
    fields = {name: [row.get(name) if row else None for row in rows] for name in names}
    run = Run(0, 1, 7, [0] * len(rows), [""] * len(rows), fields or None, None)
    # Alone, and among others.
    for runs in ([run], [run, run]):
        batch = ColumnBuilder(schema(fields=COLUMNS["fields"])).batch(RANGES, runs)
        got = [None if one is None else dict(one) for one in batch.column(0).to_pylist()]
        assert got == len(runs) * [
            None if not row else {name: v.encode() if isinstance(v, str) else v for name, v in row.items()}
            for row in rows
        ]


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (pa.float64(), ["1.5", "-2e3", None, "x", b"7", b"\xff"], [1.5, -2000.0, None, None, 7.0, None]),
        (pa.int64(), ["1", "9" * 30, "", None], [1, None, None, None]),
        (pa.bool_(), ["true", "0", "maybe"], [True, False, None]),
        (pa.string(), ["a", b"b", b"\xff", None], ["a", "b", None, None]),
        (pa.binary(), ["a", b"\xff", None], [b"a", b"\xff", None]),
        (pa.decimal128(9, 2), ["1.25", "x", None], [Decimal("1.25"), None, None]),
        (pa.date32(), ["2026-01-31", "31.1.", None], [date(2026, 1, 31), None, None]),
        (
            pa.timestamp("us", "UTC"),
            ["2026-01-31T09:30:00Z", "2026-01-31 10:30:00+01:00", "2026-01-31T09:30:00", "1769851800000", "?", None],
            [datetime(2026, 1, 31, 9, 30, tzinfo=UTC)] * 4 + [None, None],
        ),
    ],
)
def test_typed_values_and_null_for_what_is_none(kind: pa.DataType, values: list[Any], wanted: list[Any]) -> None:
    assert typed(values, kind, SPARKS).to_pylist() == wanted


def test_typed_columns_of_runs_with_and_without_the_field() -> None:
    runs = [
        Run(0, 1, 7, [0, 0], ["", ""], {"price": ["1.5", None]}, None),
        Run(1, 1, 7, [0], [""], None, None),
        Run(1, 2, 7, [0], [""], {"price": ["2"], "at": ["1000000"]}, None),
    ]
    columns = schema(price=DoubleType(), volume=LongType(), at=TimestampType(), seq=LongType())
    assert ColumnBuilder(columns).batch(RANGES, runs).to_pydict() == {
        "price": [1.5, None, None, 2.0],
        "volume": [None] * 4,
        "at": [None, None, None, datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)],
        "seq": [1, 2, 1, 2],
    }


def test_what_cannot_be_read_is_counted() -> None:
    """By field, with its type and the first of it; what a message does not have is not."""
    prices = ["1.5", None, "two", b"\xff", "3"]
    run = Run(0, 1, 7, [0] * 5, [""] * 5, {"price": prices, "day": ["?"] * 5, "all": ["1"] * 5}, None)
    unread, columns = Unread(), schema(price=DoubleType(), day=DateType(), all=LongType(), none=LongType())
    for _ in range(2):
        ColumnBuilder(columns).batch(RANGES, [run], SPARKS, unread)
    assert unread.counts == {("price", "double"): 4, ("day", "date"): 10}
    assert (
        str(unread) == "4 of the field 'price' as double, the first 'two'; 10 of the field 'day' as date, the first '?'"
    )


def test_columns_that_cannot_be_read() -> None:
    with pytest.raises(InvalidOption, match="column 'content' is binary"):
        ColumnBuilder(schema(content=StringType()))
    with pytest.raises(InvalidOption, match="two columns are named 'seq'"):
        ColumnBuilder(StructType().add("seq", LongType()).add("seq", LongType()))
    with pytest.raises(InvalidOption, match="field 'x' cannot be struct<y:bigint>"):
        ColumnBuilder(schema(x=schema(y=LongType())))
    with pytest.raises(InvalidOption, match="field 'x' cannot be interval day to second: read its text"):
        ColumnBuilder(schema(x=DayTimeIntervalType()))
    ColumnBuilder(schema(a=DecimalType(9, 2), b=DateType(), c=BinaryType()))


def test_the_schema_of_a_read() -> None:
    assert ddl("").startswith("subject string, content binary, fields map<string,binary>, epoch bigint, seq bigint, ")
    assert ddl("a double, b long") == (
        "subject string, content binary, a double, b long, epoch bigint, seq bigint, time timestamp, "
        "closure string, as_of string"
    )
