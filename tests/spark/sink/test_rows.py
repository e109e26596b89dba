"""Options and columns: what they become on the wire, and what is refused before anything is sent."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from spark.options import OPTIONS, InvalidOption, SinkOptions
from spark.sink.rows import RowBuilder, Table, planned
from spark.sink.values import InvalidColumns, values

# Reading a schema from text is what needs the session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("session")]
ROOT = Path(__file__).parents[3]
URL = {"url": "127.0.0.1:8801"}


def table(schema: str, *values: tuple[Any, ...], number: int | None = None, **options: str) -> Table:
    columns = StructType.fromDDL(schema)
    arrow = to_arrow_schema(columns, timezone="UTC")
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), arrow, strict=True)],
        schema=arrow,
    )
    return RowBuilder(columns, SinkOptions.parse(URL | options)).table(batch, number)


def rows(schema: str, *values: tuple[Any, ...], **options: Any) -> list[Any]:
    found = table(schema, *values, **options)
    assert not found.refused
    return [row for _, row in found.rows()]


def refused(schema: str, *values: tuple[Any, ...], **options: str) -> dict[int, str]:
    """Why rows are refused, by their places; none of them becomes a message."""
    found = table(schema, *values, **options)
    assert not {place for place, _ in found.rows()} & set(found.refused)
    return found.refused


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


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("double", 100.0, "100.0"),
        ("double", 80418022419.25, "80418022419.25"),
        ("double", 1e16, "1e+16"),
        ("float", 0.1, "0.1"),
        ("float", 1e10, "10000000000.0"),
        ("decimal(12,10)", Decimal("0.0000000001"), "0.0000000001"),
        ("bigint", -(2**63), "-9223372036854775808"),
        ("timestamp", datetime(2022, 7, 2, 3, 4, 5, 600, tzinfo=UTC), "2022-07-02T03:04:05.000600+00:00"),
        ("timestamp_ntz", datetime(2022, 7, 2, 3, 4, 5), "2022-07-02T03:04:05"),  # noqa: DTZ001 - it has none
        ("boolean", False, "false"),
    ],
)
def test_values_as_text(kind: str, value: Any, text: str) -> None:
    assert rows(f"subject string, content {kind}", ("/a/b", value))[0][1] == text
    for container, entry in (("struct<x: {}>", {"x": value}), ("map<string,{}>", [("x", value), ("y", None)])):
        schema = f"subject string, content string, fields {container.format(kind)}"
        for row in rows(schema, ("/a/b", "", None), ("/a/b", "", entry), ("/a/b", "", None))[1:2]:
            assert row[2] == {"x": text}


def test_times_of_another_zone_keep_their_offset() -> None:
    column = pa.array([datetime(2022, 7, 2, 3, tzinfo=UTC), None], pa.timestamp("us", tz="Europe/Vienna"))
    assert values(column, TimestampType()) == ["2022-07-02T05:00:00+02:00", None]


def test_a_column_fields_is_the_fields() -> None:
    schema = "subject string, content string, fields map<string,string>"
    assert rows(schema, ("/a/b", "1", [("bid", "2"), ("ask", None)]), ("/a/b", "1", None)) == [
        ("/a/b", "1", {"bid": "2"}, None),
        ("/a/b", "1", None, None),
    ]


def test_retained_quality_and_closure() -> None:
    schema = "subject string, content string, retained boolean, qos string, closure string"
    assert rows(schema, ("/a/b", "1", False, "standard", "c1"), ("/a/b", "1", None, None, None)) == [
        ("/a/b", "1", None, {"retained": False, "qos": "standard", "closure": "c1"}),
        ("/a/b", "1", None, None),
    ]
    assert refused(schema, ("/a/b", "1", None, "best", None)) == {
        0: "its qos is 'best', not one of guaranteed, standard"
    }
    # True is the default and need not be told, so that rows that differ in it alone can travel together.
    assert rows(schema, ("/a/b", "1", True, None, None)) == [("/a/b", "1", None, None)]


def test_rows_that_remove_their_subject() -> None:
    """By a column that an option names; nothing else of them is sent. A column that is only called so is a field."""
    schema = "subject string, content string, bid int, gone boolean, retained boolean, closure string"
    some = [("/a/b", "1", 2, True, False, "c"), ("/a/b", "1", 2, False, None, None), ("/a/b", "1", 2, None, None, None)]
    assert rows(schema, *some, removed="gone") == [
        ("/a/b", "", None, {"removed": True, "closure": "c"}),
        ("/a/b", "1", {"bid": "2"}, None),
        ("/a/b", "1", {"bid": "2"}, None),
    ]
    assert rows(schema, some[0])[0][2:] == ({"bid": "2", "gone": "true"}, {"retained": False, "closure": "c"})
    schema = "subject string, content string, fields map<string,string>, removed boolean"
    assert rows(schema, ("/a/b", "1", [("bid", "2")], True), removed="removed") == [
        ("/a/b", "", None, {"removed": True})
    ]
    with pytest.raises(InvalidColumns, match="must be a boolean, not int"):
        build("subject string, content string, gone int", removed="gone")
    schema = "subject string, content string, removed boolean"
    assert rows(schema, ("/a/b", "1", True)) == [("/a/b", "1", {"removed": "true"}, None)]


def test_rows_that_ask_for_replies() -> None:
    """By a column that an option names; a row that removes its subject asks for nothing."""
    schema = "subject string, content string, answers string, gone boolean"
    some = [
        ("/a/b", "1", "/to/me", None),
        ("/a/b", "1", "", None),
        ("/a/b", "1", None, None),
        ("/a/b", "1", "/to", True),
    ]
    assert rows(schema, *some, reply_to="answers", removed="gone") == [
        ("/a/b", "1", None, {"reply_to": "/to/me"}),
        ("/a/b", "1", None, None),
        ("/a/b", "1", None, None),
        ("/a/b", "", None, {"removed": True}),
    ]
    with pytest.raises(InvalidColumns, match="must be a string, not int"):
        build("subject string, content string, answers int", reply_to="answers")
    schema = "subject string, content string, reply_to string"
    assert rows(schema, ("/a/b", "1", "/to/me")) == [("/a/b", "1", {"reply_to": "/to/me"}, None)]


def test_columns_by_other_names() -> None:
    schema = "topic string, price double, more map<string,string>, keep boolean, how string, note string"
    names = {"content": "price", "fields": "more", "retained": "keep", "qos": "how", "closure": "note"}
    written = rows(schema, ("/a/b", 1.5, [("x", "y")], False, "standard", "c"), subject="{topic}", **names)
    assert written == [("/a/b", "1.5", {"x": "y"}, {"retained": False, "qos": "standard", "closure": "c"})]


@pytest.mark.parametrize("sensitive", [False, True])
def test_columns_in_another_case(sensitive: bool) -> None:
    """Template, options and columns that no option names; fields keep the names that they have."""
    schema = StructType.fromDDL("Symbol string, Content string, QOS string, Version long, Bid string")
    options = SinkOptions.parse({"url": "h:1", "subject": "/a/{SYMBOL}", "version": "version"})
    if sensitive:
        with pytest.raises(InvalidColumns, match="no column `SYMBOL`"):
            RowBuilder(schema, options, case_sensitive=True)
        return
    batch = pa.RecordBatch.from_pylist(
        [{"Symbol": "IBM", "Content": "x", "QOS": "standard", "Version": 3, "Bid": "1"}], schema=to_arrow_schema(schema)
    )
    [(_, row)] = RowBuilder(schema, options).table(batch).rows()
    assert row == ("/a/IBM", "x", {"Bid": "1"}, {"qos": "standard", "as_of": {"version": 3}})


def test_a_name_that_may_be_two_columns_is_refused_as_spark_refuses_it() -> None:
    """Where a write is planned either may be meant."""
    schema = StructType.fromDDL("subject string, Subject string, content string")
    options = SinkOptions.parse({"url": "h:1"})
    with pytest.raises(InvalidColumns, match=r"column `subject` is ambiguous.*subject, Subject"):
        RowBuilder(schema, options)
    assert planned(schema, options).table(pa.RecordBatch.from_pylist([], schema=to_arrow_schema(schema))).rows() == []


def test_as_of_says_the_time_the_batch_the_job_and_the_version() -> None:
    moment = datetime(2022, 12, 28, 21, 0, tzinfo=UTC)
    schema = "subject string, content string, at timestamp, v int"
    options = {"as_of": "at", "version": "v", "queryName": "bars"}
    written = rows(schema, ("/a/b", "1", moment, 3), ("/a/b", "2", None, None), number=7, **options)
    assert [row[3] for row in written] == [
        {"as_of": {"time": 1672261200000, "version": 3, "batch": 7, "job": "bars"}},
        {"as_of": {"batch": 7, "job": "bars"}},
    ]
    assert all(row[2] is None for row in written)
    assert rows(schema, ("/a/b", "1", moment, 3), version="v", job="j")[0][3] == {"as_of": {"version": 3, "job": "j"}}
    for kind, value, time in (("bigint", 5, 5), ("string", "10:12", "10:12")):
        found = rows(f"subject string, content string, at {kind}", ("/a/b", "1", value), as_of="at")
        assert found[0][3] == {"as_of": {"time": time}}


def test_subject_by_template_uses_its_columns_up() -> None:
    written = rows(
        "symbol string, year int, close double", ("IBM", 2022, 1.5), subject="/s/{symbol}/{year}", content="close"
    )
    assert written == [("/s/IBM/2022", "1.5", None, None)]


@pytest.mark.parametrize("value", ["BRK/B", "", None])
def test_a_value_that_would_change_the_subject_is_refused(value: str | None) -> None:
    reasons = refused("symbol string, content string", ("IBM", "1"), (value, "1"), subject="/s/{symbol}")
    assert list(reasons) == [1]
    assert reasons[1].startswith(f"its column `symbol` is {value!r}, which cannot stand in the subject")


def test_a_null_subject_is_refused() -> None:
    assert refused("subject string, content string", ("/a/b", "1"), (None, "1")) == {1: "the subject is null"}


def test_more_fields_than_a_message_has_are_refused() -> None:
    many = {f"f{number}": "1" for number in range(257)}
    schema = "subject string, content string, fields map<string,string>"
    assert refused(schema, ("/a/b", "1", list(many.items())), ("/a/b", "1", [])) == {
        0: "it has 257 fields, a message has at most 256"
    }


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
        ("subject string, content string", {"qos": "q"}, "no column `q`: the qos is taken from a column `q`"),
        ("subject string, content string, q string", {"fields": "q"}, "column `q` must be a map with string keys"),
        ("subject string, content string, at date", {"as_of": "at"}, "`at` must be a timestamp, bigint or string"),
        ("subject string, content string, v string", {"version": "v"}, "`v` must be a whole number, not string"),
        ("n int, content string", {"subject": "{n}"}, "column `n` must be a string, not int"),
        (f"subject string, content string, {', '.join(f'f{n} int' for n in range(257))}", {}, "257 columns would be"),
    ],
)
def test_columns_that_make_no_message(schema: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidColumns, match=text):
        build(schema, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"colour": "red", "Size": "1"}, "unknown option 'Size', 'colour' .*there are: url, token"),
        ({"url": ""}, "needs the option url"),
        ({"url": "h:1,127.0.0.1"}, "option 'url': '127.0.0.1' is no address of a publisher port: write host:port"),
        ({"url": "http://h:1"}, "option 'url': 'http://h:1' is no address of a publisher port"),
        ({"url": ","}, "option 'url': ',' is no address"),
        ({"batch_rows": "0"}, "'batch_rows' must be a whole number from 1 to 2000, not '0'"),
        ({"retry_seconds": "soon"}, "'retry_seconds' must be a number from 0 to 86400, not 'soon'"),
        ({"window": "17"}, "'window' must be a whole number from 1 to 16, not '17'"),
        ({"compression": "gzip"}, "'compression' must be one of none, zlib, not 'gzip'"),
        ({"delivery": "maybe"}, "'delivery' must be one of exactly_once, at_least_once, not 'maybe'"),
        ({"delivery": "at_least_once", "dead_letter": "x"}, "'dead_letter' needs delivery exactly_once"),
        ({"delivery": "at_least_once", "transaction": "x"}, "'transaction' needs delivery exactly_once"),
        ({"transaction": "a/b"}, "'transaction' has up to 100 letters"),
        ({"subject": "/s/{symbol"}, "expected '}'"),
        ({"subject": "/s/{}"}, "between braces goes the name of a column"),
        ({"subject": "/s/{a:>9}"}, "between braces goes the name of a column"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        build("subject string, content string, symbol string", **(URL | options))


def test_addresses_are_taken_with_blanks_and_a_comma_too_many() -> None:
    assert SinkOptions.parse({"url": "h:1, tls://g:2,"}).url == "h:1,tls://g:2"


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for name in ("none.pem", "empty.pem"):
        with pytest.raises(InvalidOption, match=rf"option 'ca_file' '.*{name}': "):
            SinkOptions.parse({"url": "h:1", "ca_file": str(tmp_path / name)}).tls()


def test_options_are_taken_in_any_case_and_documented() -> None:
    assert SinkOptions.parse({"URL": "h:1", "Batch_Rows": "5", "checkpointLocation": "x"}).batch_rows == 5
    page = (ROOT / "docs" / "develop" / "spark.md").read_text()
    assert all(option.meaning and f"`{name}`" in page for name, option in OPTIONS.items())
