"""Makes of the columns of a DataFrame what its rows say as messages: subject, content, fields and meta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fastpath.core.protocol.limits import FIELDS_MAX
from spark.options import SinkOptions, template_columns
from spark.sink.values import SCALARS, Fields, InvalidColumns, Value, check_scalar, map_values, struct_values, values

Row = tuple[str, Value, Fields | None, dict[str, Any] | None]

META = {
    "retained": t.BooleanType,
    "removed": t.BooleanType,
    "qos": t.StringType,
    "closure": t.StringType,
    "reply_to": t.StringType,
}
NAMED = {"removed", "reply_to"}
"""Names of META for which a column counts only where an option names it: a column that is just called so would empty
subjects unasked, or ask for answers."""
QUALITIES = ("guaranteed", "standard")
INVALID = "invalid"
"""The code of rows that are refused here already; those of the sidecar are in protocol.md 4.4."""


class RowRefused(RuntimeError):
    """A row was refused; the text names the row, its subject, the code (protocol.md 4.4) and the reason."""


@dataclass(slots=True)
class Table:
    """The rows of a record batch, column by column; those in ``refused`` (place: reason) have the subject None.

    Of the fields there is either ``columns``, name → values, or ``maps``, those of each row.
    """

    subjects: list[str | None]
    contents: list[Value]
    columns: dict[str, list[Value | None]]
    maps: list[Fields] | None
    meta: list[dict[str, Any] | None] | None
    refused: dict[int, str]

    def fields(self, place: int) -> Fields | None:
        """Return the fields of one row."""
        if self.maps is not None:
            return self.maps[place] or None
        found = {name: column[place] for name, column in self.columns.items()}
        return {name: value for name, value in found.items() if value is not None} or None

    def rows(self) -> list[tuple[int, Row]]:
        """Return the rows that are not refused, with their places, as protocol.md 6.2 has them."""
        meta = self.meta or [None] * len(self.subjects)
        return [
            (place, (subject, self.contents[place], self.fields(place), meta[place]))
            for place, subject in enumerate(self.subjects)
            if subject is not None
        ]


class Chosen(NamedTuple):
    """The columns for each part of a message: those of the template's ``parts`` in their order (of the subject itself,
    where ``template`` is empty), those of the meta and of ``as_of`` by its names; fields are in the column ``fields``,
    or each in one of ``rest``."""

    template: str
    parts: list[str]
    content: str
    meta: dict[str, str]
    as_of: dict[str, str]
    fields: str
    rest: list[str]


class RowBuilder:
    """Made from the columns of a DataFrame; ``table(batch)`` gives what its rows say.

    Columns are found as Spark finds them: whatever the case of their names, unless ``case_sensitive``
    (``spark.sql.caseSensitive``). Raises InvalidColumns (or spark.options.InvalidOption) when made: before anything is
    sent.
    """

    def __init__(self, schema: t.StructType, options: SinkOptions, *, case_sensitive: bool = False) -> None:
        self._schema, self._options = schema, options
        self._case_sensitive = case_sensitive
        self._names = schema.fieldNames()
        self._types = {field.name: field.dataType for field in schema.fields}
        self._subject, self._template_names = self._take_subject(options.subject)
        self._parts = [self._column(name) for name in self._template_names]
        self._content = self._take("content", options.content or "content")
        check_scalar(self._content, self._types[self._content])
        self._meta = self._take_meta(options)
        self._as_of = self._take_as_of(options)
        self._job = options.job
        taken = {self._content, *self._parts, *self._meta.values(), *self._as_of.values()}
        rest = [name for name in self._names if name not in taken]
        self._fields = self._take_fields(options.fields, rest)
        self._rest = [] if self._fields else rest
        kind = self._types.get(self._fields)
        count = len(kind.fields) if isinstance(kind, t.StructType) else len(self._rest)
        if count > FIELDS_MAX:
            raise InvalidColumns(f"{count} columns would be fields, a message has at most {FIELDS_MAX}")
        for name in (*self._parts, *self._rest):
            check_scalar(name, self._types[name])

    @property
    def chosen(self) -> Chosen:
        """The columns by what they are."""
        return Chosen(self._subject, self._parts, self._content, self._meta, self._as_of, self._fields, self._rest)

    def in_session(self, case_sensitive: bool) -> RowBuilder:
        """Return the builder of a task, whose session says whether case counts; raise InvalidColumns."""
        if case_sensitive == self._case_sensitive:
            return self
        return RowBuilder(self._schema, self._options, case_sensitive=case_sensitive)

    def table(self, batch: pa.RecordBatch, number: int | None = None) -> Table:
        """Return the rows of a record batch; ``number`` is that of the batch of the query, for the subscribers."""
        columns = dict(zip(self._names, batch.columns, strict=True))
        refused: dict[int, str] = {}
        subjects = self._subjects(columns, refused)
        contents = self._values(columns, self._content)
        fields = {name: self._values(columns, name) for name in self._rest}
        maps = None
        if self._fields:
            kind = self._types[self._fields]
            if isinstance(kind, t.StructType):
                fields = struct_values(columns[self._fields], kind)
            else:
                maps = map_values(columns[self._fields], kind.valueType)
        meta = self._all_meta(columns, number, refused)
        for place in [place for place, one in enumerate(meta or ()) if one and "removed" in one]:
            contents[place] = None
            for column in fields.values():
                column[place] = None
            if maps:
                maps[place] = {}
        for place, some in enumerate(maps or ()):
            if len(some) > FIELDS_MAX:
                refused.setdefault(place, f"it has {len(some)} fields, a message has at most {FIELDS_MAX}")
        for place in refused:
            subjects[place] = None
        return Table(
            subjects,
            ["" if value is None else value for value in contents],
            fields,
            maps,
            meta,
            refused,
        )

    def _values(self, columns: dict[str, pa.Array], name: str) -> list[Value | None]:
        return values(columns[name], self._types[name])

    def _take(self, option: str, name: str) -> str:
        """Return the name that a column has which must be there."""
        why = f"the {option} is taken from a column `{name}`; name another with the option {option!r}"
        return self._require(name, why)

    def _require(self, name: str, why: str) -> str:
        found = self._column(name)
        if not found:
            raise InvalidColumns(f"no column `{name}`: {why}. There are: {', '.join(self._names)}")
        return found

    def _column(self, name: str) -> str:
        """Return the name as the DataFrame has it; empty where it has none."""
        if self._case_sensitive:
            return name if name in self._types else ""
        found = [one for one in self._types if one.lower() == name.lower()]
        if len(found) > 1:
            raise InvalidColumns(f"column `{name}` is ambiguous, as case does not count: there are {', '.join(found)}")
        return found[0] if found else ""

    def _take_subject(self, template: str) -> tuple[str, list[str]]:
        """Return the template and its columns; without one, or where it is one column and no more, that holds the
        subject."""
        parts = template_columns(template)
        if not template:
            self._require(
                "subject",
                "a message needs one: add the column, or give the option 'subject' with a "
                "template such as /stocks/us/{symbol}",
            )
            parts = ["subject"]
        elif (own := self._column("subject")) and own not in [self._column(name) for name in parts]:
            raise InvalidColumns(f"there is a column `{own}` as well as the option 'subject': drop one of them")
        for name in parts:
            self._require(name, f"the option 'subject' {template!r} names it")
        if not template or template == f"{{{parts[0] if parts else ''}}}":
            kind = self._types[self._column(parts[0])]
            if not isinstance(kind, t.StringType):
                raise InvalidColumns(f"column `{parts[0]}` must be a string, not {kind.simpleString()}")
            return "", parts
        return template, parts

    def _take_meta(self, options: SinkOptions) -> dict[str, str]:
        """Return the columns of the meta by its names; those that no option names may be missing."""
        found = {}
        for name, kind in META.items():
            named = getattr(options, name)
            if named:
                column = self._take(name, named)
            else:
                column = "" if name in NAMED else self._column(name)
            if column and (named or column not in (self._content, *self._parts)):
                self._check_kind(column, (kind,), kind.typeName())
                found[name] = column
        return found

    def _take_as_of(self, options: SinkOptions) -> dict[str, str]:
        found = {}
        if options.as_of:
            found["time"] = self._take("as_of", options.as_of)
            self._check_kind(found["time"], (t.TimestampType, t.LongType, t.StringType), "timestamp, bigint or string")
        if options.version:
            found["version"] = self._take("version", options.version)
            self._check_kind(found["version"], (t.IntegralType,), "whole number")
        return found

    def _check_kind(self, name: str, kinds: tuple[type[t.DataType], ...], wanted: str) -> None:
        if not isinstance(self._types[name], kinds):
            raise InvalidColumns(f"column `{name}` must be a {wanted}, not {self._types[name].simpleString()}")

    def _take_fields(self, named: str, rest: list[str]) -> str:
        """Return the column that holds the fields; empty where the remaining columns are the fields."""
        name = self._take("fields", named) if named else self._column("fields")
        if name not in rest or (not named and isinstance(self._types[name], SCALARS)):
            return ""
        others = [other for other in rest if other != name]
        if others:
            raise InvalidColumns(
                f"with a column `{name}` the columns {', '.join(others)} would be lost: drop them or "
                f"put them into `{name}`"
            )
        kind = self._types[name]
        if isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
            check_scalar(name, kind.valueType)
        elif isinstance(kind, t.StructType):
            for field in kind.fields:
                check_scalar(f"{name}.{field.name}", field.dataType)
        else:
            raise InvalidColumns(
                f"column `{name}` must be a map with string keys or a struct, not {kind.simpleString()}"
            )
        return name

    def _subjects(self, columns: dict[str, pa.Array], refused: dict[int, str]) -> list[str | None]:
        """Return the subject of each row; None, and the reason in ``refused``, where there is none."""
        parts = [self._values(columns, name) for name in self._parts]
        if not self._subject:
            refused |= {place: "the subject is null" for place, value in enumerate(parts[0]) if value is None}
            return parts[0]  # type: ignore[return-value]
        if not parts:
            return [self._subject.format()] * len(columns[self._content])
        known: dict[tuple[Value | None, ...], str | None] = {}
        subjects: list[str | None] = []
        for place, found in enumerate(zip(*parts, strict=True)):
            if found not in known:
                known[found] = self._from_template(found)
            subject = known[found]
            if subject is None:
                refused[place] = self._why_not(found)
            subjects.append(subject)
        return subjects

    def _from_template(self, found: tuple[Value | None, ...]) -> str | None:
        if any(_no_segment(value) for value in found):
            return None
        return self._subject.format_map(dict(zip(self._template_names, found, strict=True)))

    def _why_not(self, found: tuple[Value | None, ...]) -> str:
        name, value = next(pair for pair in zip(self._parts, found, strict=True) if _no_segment(pair[1]))
        return (
            f"its column `{name}` is {value!r}, which cannot stand in the subject {self._subject!r}: "
            "it must be text without a slash"
        )

    def _all_meta(
        self, columns: dict[str, pa.Array], number: int | None, refused: dict[int, str]
    ) -> list[dict[str, Any] | None] | None:
        """Return the meta of each row; None where no row can have any."""
        if not self._meta and not self._as_of:
            return None
        found = {name: columns[column].to_pylist() for name, column in self._meta.items()}
        if self._as_of:
            found["as_of"] = self._all_as_of(columns, number)
        result: list[dict[str, Any] | None] = []
        for place, row in enumerate(zip(*found.values(), strict=True)):
            meta = {name: value for name, value in zip(found, row, strict=True) if value is not None}
            if meta.get("qos", QUALITIES[0]) not in QUALITIES:
                refused.setdefault(place, f"its qos is {meta['qos']!r}, not one of {', '.join(QUALITIES)}")
            if meta.get("removed") is False:
                del meta["removed"]
            if "removed" in meta or not meta.get("reply_to"):
                meta.pop("reply_to", None)
            if meta.get("retained") is True or "removed" in meta:
                meta.pop("retained", None)
            result.append(meta or None)
        return result

    def _all_as_of(self, columns: dict[str, pa.Array], number: int | None) -> list[dict[str, Any] | None]:
        """Return the as_of of each row (protocol.md 6.2): its own columns, the number of the batch, the name of the
        job."""
        same: dict[str, Any] = {} if number is None else {"batch": number}
        if self._job:
            same["job"] = self._job
        own = {name: _as_of_values(columns[column]) for name, column in self._as_of.items()}
        return [
            {name: value for name, value in zip(own, row, strict=True) if value is not None} | same or None
            for row in zip(*own.values(), strict=True)
        ]


def planned(schema: t.StructType, options: SinkOptions) -> RowBuilder:
    """Return the builder of a write that is planned: nobody knows there whether case counts, only its tasks do.

    Raises InvalidColumns for columns that make no message either way.
    """
    try:
        return RowBuilder(schema, options)
    except InvalidColumns as error:
        try:
            return RowBuilder(schema, options, case_sensitive=True)
        except InvalidColumns:
            raise error from None


def _as_of_values(column: pa.Array) -> list[Any]:
    """Return times as ms since 1970, all else as it is."""
    if pa.types.is_timestamp(column.type):
        return pc.divide(column.cast(pa.int64()), 1000).to_pylist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _no_segment(value: Value | None) -> bool:
    """Return True where a value is no segment: a slash in it would publish to quite another subject."""
    return not isinstance(value, str) or not value or "/" in value
