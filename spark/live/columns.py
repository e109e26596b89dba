"""The columns that the Java writer reads, made of those of a DataFrame as the sink takes them."""

from __future__ import annotations

from string import Formatter
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark.options import SinkOptions, template_columns
from spark.sink.rows import META, RowBuilder

PLACE = ("topic", "partition", "offset")
"""The columns of Kafka's source that say which record a row is of."""

_PLACE_TYPES = ("string", "int", "bigint")

ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx"


class Prepared(NamedTuple):
    """A frame as LiveWriter.java takes it, and what of the options it has to know beside that."""

    frame: DataFrame
    settings: dict[str, Any]


def prepared(frame: DataFrame, options: SinkOptions, *, once: bool) -> Prepared:
    """Return the columns in LiveWriter.java's order; raise spark.sink.rows.InvalidColumns where they make no message.

    With ``once`` the frame has the columns of PLACE, else those are null there. They are no fields either way.
    """
    case = str(frame.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    schema = without_place(frame.schema, options, case_sensitive=case)
    chosen = RowBuilder(schema, options, case_sensitive=case).chosen
    types = {field.name: field.dataType for field in schema.fields}

    def text(name: str) -> Column:
        return _text(_named(name), types[name])

    place = [_named(name) if once else F.lit(None) for name in PLACE]
    meta = [_named(chosen.meta[name]) if name in chosen.meta else F.lit(None) for name in META_ORDER]
    columns = [column.cast(kind) for column, kind in zip(place, _PLACE_TYPES, strict=True)]
    columns += [text(chosen.content)]
    columns += [column.cast(META[name].typeName()) for column, name in zip(meta, META_ORDER, strict=True)]
    columns += [_as_of(chosen.as_of.get("time"), types), _version(chosen.as_of.get("version"))]
    columns += [text(name) for name in chosen.parts]
    names: list[str] | None = list(chosen.rest)
    kind = types.get(chosen.fields)
    if isinstance(kind, t.StructType):
        names = kind.fieldNames()
        columns += [_text(_named(chosen.fields).getField(one.name), one.dataType) for one in kind.fields]
    elif isinstance(kind, t.MapType):
        names = None
        columns.append(_text_values(_named(chosen.fields), kind.valueType))
    else:
        columns += [text(name) for name in chosen.rest]
    settings = {
        "template": [before for before, *_ in _literals(chosen.template)] if chosen.template else None,
        "subject": chosen.template,
        "parts": list(chosen.parts),
        "fields": names,
        "as_of": str(bool(chosen.as_of)).lower(),
        "job": options.job,
    }
    return Prepared(frame.select(*(column.alias(f"c{at}") for at, column in enumerate(columns))), settings)


META_ORDER = ("retained", "removed", "qos", "closure", "reply_to")


def without_place(schema: t.StructType, options: SinkOptions, *, case_sensitive: bool) -> t.StructType:
    """Return the columns that may be parts of messages: not those of PLACE, unless an option names one."""
    named = {*template_columns(options.subject), options.content, options.fields, options.as_of, options.version}
    named |= {getattr(options, name) for name in META}
    if not case_sensitive:
        named = {name.lower() for name in named}

    def plain(name: str) -> str:
        return name if case_sensitive else name.lower()

    return t.StructType([one for one in schema.fields if plain(one.name) not in PLACE or plain(one.name) in named])


def _named(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _text(column: Column, kind: t.DataType) -> Column:
    """Return as text what Java would read in one way or another, by settings of the session."""
    if isinstance(kind, t.TimestampType):
        return F.replace(F.date_format(column, ISO), F.lit(".000000"), F.lit(""))
    if isinstance(kind, (t.DateType, t.NullType)):
        return column.cast("string")
    return column


def _text_values(column: Column, kind: t.DataType) -> Column:
    if isinstance(kind, (t.TimestampType, t.DateType, t.NullType)):
        return F.transform_values(column, lambda _, value: _text(value, kind))
    return column


def _as_of(name: str | None, types: dict[str, t.DataType]) -> Column:
    if name is None:
        return F.lit(None).cast("string")
    return F.unix_millis(_named(name)) if isinstance(types[name], t.TimestampType) else _named(name)


def _version(name: str | None) -> Column:
    return (F.lit(None) if name is None else _named(name)).cast("bigint")


def _literals(template: str) -> list[tuple[str, str | None]]:
    """Return what stands before each column of the template, and behind the last one."""
    parts = [(literal, name) for literal, name, _, _ in Formatter().parse(template)]
    found: list[tuple[str, str | None]] = []
    before = ""
    for literal, name in parts:
        before += literal
        if name is not None:
            found.append((before, name))
            before = ""
    return [*found, (before, None)]
