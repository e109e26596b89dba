"""Turns Arrow record batches into the rows of the publisher port (protocol.md 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from spark.options import SinkOptions, template_columns

if TYPE_CHECKING:
    import pyarrow as pa

Value = str | bytes
Convert = Callable[[Any], Value]
Row = tuple[str, Value, dict[str, Value] | None, dict[str, Any] | None]

SCALARS = (
    t.StringType,
    t.BinaryType,
    t.BooleanType,
    t.IntegralType,
    t.FractionalType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.NullType,
)
META = {"retained": t.BooleanType, "qos": t.StringType, "closure": t.StringType}
QUALITIES = ("guaranteed", "standard")


class InvalidColumns(ValueError):
    """The columns of a DataFrame do not make messages; the text says which and what to do."""


class InvalidRow(ValueError):
    """A row does not make a message; the text names the row and what is wrong with it."""


class RowBuilder:
    """Made from the columns of a DataFrame; `rows(batch)` gives one row a message.

    Raises InvalidColumns (or spark.options.InvalidOption) when made: before anything is sent.
    """

    def __init__(self, schema: t.StructType, options: SinkOptions) -> None:
        self._names = schema.fieldNames()
        self._types = {field.name: field.dataType for field in schema.fields}
        self._template = options.subject
        self._parts = template_columns(options.subject)
        self._content = options.content
        self._check_subject()
        self._require(
            self._content,
            f"the content is taken from a column `{self._content}`; name another with the option 'content'",
        )
        self._meta = [name for name in META if name in self._types and name != self._content]
        for name in self._meta:
            if not isinstance(self._types[name], META[name]):
                raise InvalidColumns(
                    f"column `{name}` must be a {META[name].typeName()}, not {self._types[name].simpleString()}"
                )
        taken = {"subject", self._content, *self._parts, *self._meta}
        self._rest = [name for name in self._names if name not in taken]
        self._fields = self._take_fields()
        if self._fields is not None:
            self._rest = []
        self._convert = {
            name: _converter(name, self._types[name])
            for name in dict.fromkeys([self._content, *self._parts, *self._rest])
        }

    def rows(self, batch: pa.RecordBatch, first: int = 1) -> list[Row]:
        """The rows of a record batch; `first` is the number of its first row, for errors. Raises InvalidRow."""
        columns = dict(zip(self._names, (column.to_pylist() for column in batch.columns), strict=True))
        subjects = self._subjects(columns, batch.num_rows, first)
        convert = self._convert[self._content]
        contents = ["" if value is None else convert(value) for value in columns[self._content]]
        return list(
            zip(
                subjects,
                contents,
                self._all_fields(columns, batch.num_rows),
                self._all_meta(columns, batch.num_rows, first),
                strict=True,
            )
        )

    def _check_subject(self) -> None:
        if not self._template:
            self._require(
                "subject",
                "a message needs one: add the column, or give the option 'subject' with a "
                "template such as /stocks/us/{symbol}",
            )
            if not isinstance(self._types["subject"], t.StringType):
                raise InvalidColumns(f"column `subject` must be a string, not {self._types['subject'].simpleString()}")
        elif "subject" in self._types and "subject" not in self._parts:
            raise InvalidColumns("there is a column `subject` as well as the option 'subject': drop one of them")
        for name in self._parts:
            self._require(name, f"the option 'subject' {self._template!r} names it")

    def _require(self, name: str, why: str) -> None:
        if name not in self._types:
            raise InvalidColumns(f"no column `{name}`: {why}. There are: {', '.join(self._names)}")

    def _take_fields(self) -> Convert | None:
        """How to convert the values of the column `fields`; None where the remaining columns are the fields."""
        if "fields" not in self._rest or isinstance(self._types["fields"], SCALARS):
            return None
        others = [name for name in self._rest if name != "fields"]
        if others:
            raise InvalidColumns(
                f"with a column `fields` the columns {', '.join(others)} would be lost: drop them or "
                "put them into `fields`"
            )
        kind = self._types["fields"]
        if isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
            return _converter("fields", kind.valueType)
        if isinstance(kind, t.StructType):
            for field in kind.fields:
                _converter(f"fields.{field.name}", field.dataType)
            return _any_text
        raise InvalidColumns(f"column `fields` must be a map with string keys or a struct, not {kind.simpleString()}")

    def _subjects(self, columns: dict[str, list[Any]], count: int, first: int) -> list[str]:
        if not self._template:
            subjects = columns["subject"]
            if None in subjects:
                raise InvalidRow(f"row {first + subjects.index(None)}: its subject is null")
            return subjects
        values = [
            [self._part(name, value, first + place) for place, value in enumerate(columns[name])]
            for name in self._parts
        ]
        rows: Iterator[tuple[str, ...]] = zip(*values, strict=True) if values else iter([()] * count)
        return [self._template.format_map(dict(zip(self._parts, row, strict=True))) for row in rows]

    def _part(self, name: str, value: Any, number: int) -> str:
        """One segment or a part of one: a slash in it would publish to quite another subject."""
        text = None if value is None else self._convert[name](value)
        if not isinstance(text, str) or not text or "/" in text:
            raise InvalidRow(
                f"row {number}: its column `{name}` is {value!r}, which cannot stand in the subject "
                f"{self._template!r}: it must be text without a slash"
            )
        return text

    def _all_fields(self, columns: dict[str, list[Any]], count: int) -> list[dict[str, Value] | None]:
        if self._fields is not None:
            convert = self._fields
            pairs = (value.items() if isinstance(value, dict) else value or () for value in columns["fields"])
            return [{name: convert(value) for name, value in row if value is not None} or None for row in pairs]
        result: list[dict[str, Value]] = [{} for _ in range(count)]
        for name in self._rest:
            convert = self._convert[name]
            for fields, value in zip(result, columns[name], strict=True):
                if value is not None:
                    fields[name] = convert(value)
        return [fields or None for fields in result]

    def _all_meta(self, columns: dict[str, list[Any]], count: int, first: int) -> list[dict[str, Any] | None]:
        if not self._meta:
            return [None] * count
        result: list[dict[str, Any] | None] = []
        for place, values in enumerate(zip(*(columns[name] for name in self._meta), strict=True)):
            meta = {name: value for name, value in zip(self._meta, values, strict=True) if value is not None}
            if meta.get("qos", QUALITIES[0]) not in QUALITIES:
                raise InvalidRow(f"row {first + place}: its qos is {meta['qos']!r}, not one of {', '.join(QUALITIES)}")
            result.append(meta or None)
        return result


def _converter(name: str, kind: t.DataType) -> Convert:
    """Content and fields are text or binary (protocol.md 3.4); other scalars are written as text."""
    if not isinstance(kind, SCALARS):
        raise InvalidColumns(
            f"column `{name}` is {kind.simpleString()}, which is neither text nor binary: drop it or "
            "make text of it, for example with to_json"
        )
    if isinstance(kind, (t.StringType, t.BinaryType)):
        return _same
    return _any_text


def _same(value: Any) -> Value:
    return value  # type: ignore[no-any-return]


def _any_text(value: Any) -> Value:
    """As Spark's cast to string writes it, but times as ISO 8601 with their offset."""
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)
