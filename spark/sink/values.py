"""Turns the columns of an Arrow record batch into what a message holds: text or binary (protocol.md 3.4)."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

Value = str | bytes
Fields = dict[str, Value]

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

DECIMAL_SCALE_MAX = 6
"""Digits behind the point up to which Arrow writes no exponent, as java.math.BigDecimal.toString."""


class InvalidColumns(ValueError):
    """The columns of a DataFrame do not make messages; the text says which and what to do."""


def check_scalar(name: str, kind: t.DataType) -> None:
    """Raise InvalidColumns for a column that is neither text nor binary nor can be written as text."""
    if not isinstance(kind, SCALARS):
        raise InvalidColumns(
            f"column `{name}` is {kind.simpleString()}, which is neither text nor binary: drop it or "
            "make text of it, for example with to_json"
        )


def values(column: pa.Array, kind: t.DataType) -> list[Value | None]:
    """Return the values of a column of scalars: text and binary as they are, all else as text; null is None.

    Texts are as Spark's cast to string writes them, but times in ISO 8601 with their offset and floats as Python writes
    them.
    """
    if isinstance(kind, (t.StringType, t.BinaryType, t.NullType)):
        return column.to_pylist()  # type: ignore[no-any-return]
    if isinstance(kind, (t.TimestampType, t.TimestampNTZType)) and column.type.tz in (None, "UTC"):
        return _times(column)
    if isinstance(kind, (t.BooleanType, t.IntegralType, t.DateType, t.FloatType)) or (
        isinstance(kind, t.DecimalType) and kind.scale <= DECIMAL_SCALE_MAX
    ):
        texts: list[str | None] = pc.cast(column, pa.string()).to_pylist()
        if isinstance(kind, t.FloatType):  # Arrow knows how many digits 32 bits have, Python writes all of them
            return [None if text is None else repr(float(text)) for text in texts]
        return texts  # type: ignore[return-value]
    return [None if value is None else _any_text(value) for value in column.to_pylist()]


def _times(column: pa.Array) -> list[Value | None]:
    """Return times as datetime.isoformat writes them, without a datetime for each: thirty times as fast."""
    offset = "" if column.type.tz is None else "+00:00"
    texts = pc.cast(column.cast(pa.timestamp("us")), pa.string()).to_pylist()
    return [None if text is None else f"{text[:10]}T{text[11:].removesuffix('.000000')}{offset}" for text in texts]


def struct_values(column: pa.StructArray, kind: t.StructType) -> dict[str, list[Value | None]]:
    """Return the values of each field of a struct; a struct that is null has none of them."""
    return {
        field.name: values(child, field.dataType) for field, child in zip(kind.fields, column.flatten(), strict=True)
    }


def map_values(column: pa.MapArray, kind: t.DataType) -> list[Fields]:
    """Return the entries of each map that are not null; ``kind`` is what its values are."""
    offsets = column.offsets.to_pylist()
    names, found = column.keys.to_pylist(), values(column.items, kind)
    valid = column.is_valid().to_pylist()
    result: list[Fields] = []
    for place, start in enumerate(offsets[:-1]):
        entries = range(start, offsets[place + 1] if valid[place] else start)
        result.append({names[entry]: value for entry in entries if (value := found[entry]) is not None})
    return result


def _any_text(value: Any) -> Value:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)
