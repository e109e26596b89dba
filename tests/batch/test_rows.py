"""Options and columns: what they become on the wire, and what is refused before anything is sent."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from spark.options import OPTIONS, InvalidOption, SinkOptions
from spark.rows import InvalidColumns, InvalidRow, RowBuilder

# Reading a schema from text is what needs the session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("session")]
URL = {"url": "127.0.0.1:8801"}


def rows(schema: str, *values: tuple[Any, ...], **options: str) -> list[Any]:
    columns = StructType.fromDDL(schema)
    batch = pa.RecordBatch.from_arrays(
        [_array(list(column)) for column in zip(*values, strict=True)], names=columns.fieldNames()
    )
    return RowBuilder(columns, SinkOptions.parse(URL | options)).rows(batch)


def _array(values: list[Any]) -> pa.Array:
    if any(isinstance(value, dict) for value in values):
        return pa.array([value and list(value.items()) for value in values], pa.map_(pa.string(), pa.string()))
    return pa.array(values)


def build(schema: str, **options: str) -> RowBuilder:
    return RowBuilder(StructType.fromDDL(schema), SinkOptions.parse(URL | options))


def test_subject_and_content_alone() -> None:
    assert rows("subject string, content string", ("/a/b", "1"), ("/a/c", None)) == [
        ("/a/b", "1", None, None),
        ("/a/c", "", None, None),
    ]


def test_the_remaining_columns_are_fields_as_text_and_nulls_are_left_out() -> None:
    moment = datetime(2022, 12, 28, 21, 0, tzinfo=UTC)
    schema = "subject string, content binary, n int, price decimal(8,2), ok boolean, day date, at timestamp, raw binary"
    values = ("/a/b", b"\x00\xff", 7, Decimal("182.30"), True, date(2022, 12, 28), moment, b"\x01")
    written = rows(schema, values, ("/a/b", b"", None, None, None, None, None, None))
    assert written[0][1] == b"\x00\xff"
    assert written[0][2] == {
        "n": "7",
        "price": "182.30",
        "ok": "true",
        "day": "2022-12-28",
        "at": "2022-12-28T21:00:00+00:00",
        "raw": b"\x01",
    }
    assert written[1] == ("/a/b", b"", None, None)


def test_a_column_fields_is_the_fields() -> None:
    schema = "subject string, content string, fields map<string,string>"
    assert rows(schema, ("/a/b", "1", {"bid": "2", "ask": None}), ("/a/b", "1", None)) == [
        ("/a/b", "1", {"bid": "2"}, None),
        ("/a/b", "1", None, None),
    ]


def test_retained_quality_and_closure() -> None:
    schema = "subject string, content string, retained boolean, qos string, closure string"
    assert rows(schema, ("/a/b", "1", False, "standard", "c1"), ("/a/b", "1", None, None, None)) == [
        ("/a/b", "1", None, {"retained": False, "qos": "standard", "closure": "c1"}),
        ("/a/b", "1", None, None),
    ]
    with pytest.raises(InvalidRow, match="row 1: its qos is 'best', not one of guaranteed, standard"):
        rows(schema, ("/a/b", "1", None, "best", None))


def test_subject_by_template_uses_its_columns_up() -> None:
    written = rows(
        "symbol string, year int, close double", ("IBM", 2022, 1.5), subject="/s/{symbol}/{year}", content="close"
    )
    assert written == [("/s/IBM/2022", "1.5", None, None)]


@pytest.mark.parametrize("value", ["BRK/B", "", None])
def test_a_value_that_would_change_the_subject_is_refused(value: str | None) -> None:
    with pytest.raises(InvalidRow, match=r"row 2: its column `symbol` is .* must be text without a slash"):
        rows("symbol string, content string", ("IBM", "1"), (value, "1"), subject="/s/{symbol}")


def test_a_null_subject_names_its_row() -> None:
    with pytest.raises(InvalidRow, match="row 2: its subject is null"):
        rows("subject string, content string", ("/a/b", "1"), (None, "1"))


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        ("content string", {}, "no column `subject`: a message needs one"),
        ("subject string, price string", {}, "the content is taken from a column `content`.*There are: subject, price"),
        ("subject string, content string", {"subject": "/s/{symbol}"}, "a column `subject` as well as the option"),
        ("content string", {"subject": "/s/{symbol}"}, "no column `symbol`: the option 'subject'"),
        ("subject int, content string", {}, "column `subject` must be a string, not int"),
        ("subject string, content string, a array<int>", {}, "column `a` is array<int>, which is neither"),
        ("subject string, content array<int>", {}, "column `content` is array<int>"),
        ("subject string, content string, fields map<int,string>", {}, "must be a map with string keys or a struct"),
        ("subject string, content string, fields map<string,string>, x int", {}, "the columns x would be lost"),
        ("subject string, content string, retained int", {}, "column `retained` must be a boolean, not int"),
    ],
)
def test_columns_that_make_no_message(schema: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidColumns, match=text):
        build(schema, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"colour": "red", "Size": "1"}, "unknown option 'colour', 'size' .*there are: url, token"),
        ({"url": ""}, "needs the option url"),
        ({"batch_rows": "0"}, "'batch_rows' must be a whole number from 1 to 10000, not '0'"),
        ({"retry_seconds": "soon"}, "'retry_seconds' must be a number from 0 to 86400, not 'soon'"),
        ({"subject": "/s/{symbol"}, "expected '}'"),
        ({"subject": "/s/{}"}, "between braces goes the name of a column"),
        ({"subject": "/s/{a:>9}"}, "between braces goes the name of a column"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        build("subject string, content string, symbol string", **(URL | options))


def test_options_are_taken_in_any_case_and_documented() -> None:
    assert SinkOptions.parse({"URL": "h:1", "Batch_Rows": "5", "checkpointLocation": "x"}).batch_rows == 5
    assert all(option.meaning for option in OPTIONS.values())
