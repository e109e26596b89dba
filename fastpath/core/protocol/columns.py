"""Rows of one subject as columns: a run costs what a message costs, and its rows are made only where one is needed.

Rows of a run differ in content and fields alone: quality, closure and all else of ``meta`` is that of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress, repeat
from operator import add
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .as_of import NO_VERSION, readable_as_of, version_of
from .limits import FIELD_NAME_BYTES_MAX, FIELDS_MAX
from .messages import GUARANTEED, STANDARD, Fields, Message, Value

if TYPE_CHECKING:
    Contents = list[Value]
    Column = list[Value | None]
else:  # what a value is does not fit into a wire type: refused_rows looks
    Contents = Column = list[Any]

_TEXT_OR_BYTES = frozenset((str, bytes))
_LOOK = 1 << 60
_TEXT_OR_BYTES_OR_NONE = _TEXT_OR_BYTES | {type(None)}


class ColumnBatch(Struct, array_like=True, gc=False):
    """Consecutive rows of one subject; ``meta`` as of a publication (protocol.md 6.2), without ``id``.

    A field's column has a value for each row, None where the row has no such field.
    """

    subject: str
    contents: Contents
    fields: dict[str, Column] | None = None
    meta: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def standard(self) -> bool:
        """True if the rows are of standard quality: not numbered."""
        return self.meta is not None and self.meta.get("qos") == STANDARD

    @property
    def retained(self) -> bool:
        """True if the rows go into the snapshot."""
        return self.meta is None or self.meta.get("retained") is not False

    @property
    def replace(self) -> bool:
        """True if no field of before a row stays in the snapshot."""
        return self.meta is not None and (self.meta.get("replace") is True or self.meta.get("removed") is True)

    @property
    def removed(self) -> bool:
        """True if each row ends the subject."""
        return self.meta is not None and self.meta.get("removed") is True

    def bytes_most(self) -> int:
        """Return at most how many bytes what is merged of its rows takes at any of them, four a character."""
        columns: tuple[list[Any], ...] = (self.contents, *(self.fields or {}).values())
        return 4 * (sum(map(len, self.fields or ())) + sum(map(_longest, columns)))

    @property
    def version(self) -> int:
        """The version of the run's ``as_of`` (protocol.md 4.4)."""
        return version_of(self.meta.get("as_of")) if self.meta else NO_VERSION


def count(runs: Iterable[ColumnBatch]) -> int:
    """Return how many rows the runs have."""
    return sum([len(run.contents) for run in runs])


def part(run: ColumnBatch, start: int, stop: int | None = None) -> ColumnBatch:
    """Return the rows from ``start`` on, before ``stop``."""
    rows = slice(start, stop)
    fields = {name: column[rows] for name, column in run.fields.items()} if run.fields else None
    return ColumnBatch(run.subject, run.contents[rows], fields, run.meta)


def without(run: ColumnBatch, refused: Mapping[int, object]) -> ColumnBatch:
    """Return the run less the rows of these indices."""
    taken = [index not in refused for index in range(len(run))]
    fields = {name: list(compress(column, taken)) for name, column in run.fields.items()} if run.fields else None
    return ColumnBatch(run.subject, list(compress(run.contents, taken)), fields, run.meta)


def refused_rows(run: ColumnBatch, message_bytes_max: int) -> dict[int, tuple[str, str]]:
    """Return the rows, by their index, that no message may be like: a code of protocol.md 4.4, and why."""
    fields = run.fields or {}
    if any(not 0 < len(name) <= FIELD_NAME_BYTES_MAX for name in fields):
        refusal = "invalid", f"a field's name is a text of 1 to {FIELD_NAME_BYTES_MAX} characters"
        return dict.fromkeys(range(len(run)), refusal)
    columns: tuple[list[Any], ...] = (run.contents, *fields.values())
    bytes_most = 4 * (sum(map(len, fields)) + sum(map(_longest, columns)))  # four a character
    if (
        bytes_most <= message_bytes_max
        and len(fields) <= FIELDS_MAX
        and _TEXT_OR_BYTES.issuperset(map(type, run.contents))
        and all(_TEXT_OR_BYTES_OR_NONE.issuperset(map(type, column)) for column in fields.values())
    ):
        return {}
    refused: dict[int, tuple[str, str]] = {}
    for index, (content, *values) in enumerate(zip(*columns, strict=True)):
        row = {name: value for name, value in zip(fields, values, strict=True) if value is not None}
        if type(content) not in _TEXT_OR_BYTES or not _TEXT_OR_BYTES.issuperset(map(type, row.values())):
            refused[index] = "invalid", "content and field values are text or binary"
        elif len(row) > FIELDS_MAX:
            refused[index] = "too_large", f"more than {FIELDS_MAX} fields"
        elif Message(run.subject, content, row).weigh() > message_bytes_max:
            refused[index] = "too_large", f"over {message_bytes_max} bytes"
    return refused


def last_values(run: ColumnBatch) -> Iterator[tuple[str, Value]]:
    """Yield each field's newest value; not of fields that no row has."""
    for name, column in (run.fields or {}).items():
        value = next((value for value in reversed(column) if value is not None), None)
        if value is not None:
            yield name, value


def expand(
    run: ColumnBatch,
    start: int = 0,
    *,
    epoch: int = 0,
    seq: int = 0,
    time: int = 0,
    publisher: str | None = None,
    first: int = 0,
) -> list[Message]:
    """Return the rows from ``start`` on as messages, weighed.

    ``seq`` is the position of row 0 in ``epoch``, 0 for rows of standard quality or not numbered yet; ``first`` is the
    number of row 0 as a publication of ``publisher``.
    """
    if len(run.contents) - start == 1:
        return [_row(run, start, epoch, seq and seq + start, time, publisher, first and first + start)]
    contents = run.contents[start:] if start else run.contents
    columns: list[Any] = []
    if run.fields:
        columns = [column[start:] for column in run.fields.values()] if start else list(run.fields.values())
    sizes = _sizes(run, contents, columns)
    like = _row(run, -1, epoch, seq, time) if run.meta and contents else None
    common: tuple[Iterable[Any], ...] = (
        repeat(run.subject),
        contents,
        _fields(tuple(run.fields), columns) if run.fields else repeat(None),
        repeat(None),
        repeat(epoch if seq else 0),
        range(seq + start, seq + start + len(contents)) if seq else repeat(0),
        repeat(time),
        sizes or repeat(0),
        repeat(sizes is not None and (like is None or like.plain)),
    )
    if like is None and not first:
        messages = list(map(Message, *common))
    else:
        numbers: Iterable[int] = range(first + start, first + start + len(contents)) if first else repeat(0)
        like = like or Message("", "")
        rest = (like.retained, like.qos, like.reply_to, like.closure, like.as_of, publisher if first else None)
        ends = map(repeat, (like.replace, like.removed))
        messages = list(map(Message, *common, *map(repeat, rest), numbers, *ends))
    if sizes is None:
        for message in messages:
            message.weigh()
    return messages


def _row(
    run: ColumnBatch, index: int, epoch: int, seq: int, time: int, publisher: str | None = None, number: int = 0
) -> Message:
    """Return one row as a message, weighed."""
    fields: Fields | None = None
    if run.fields:
        fields = {name: column[index] for name, column in run.fields.items() if column[index] is not None} or None  # type: ignore[misc]
    message = Message(run.subject, run.contents[index], fields, None, epoch if seq else 0, seq, time)
    meta = run.meta
    if meta:
        message.retained, message.qos = run.retained, meta.get("qos", GUARANTEED)
        message.reply_to, message.closure = meta.get("reply_to") or None, meta.get("closure") or None
        message.as_of = readable_as_of(meta.get("as_of"))  # the run may have been stored by an earlier version
        message.replace, message.removed = run.replace, run.removed
    if number:
        message.publisher, message.publication = publisher, number
    message.weigh()
    return message


def _fields(names: tuple[str, ...], columns: list[Any]) -> list[Fields | None]:
    if any(None in column for column in columns):
        rows = zip(*columns, strict=True)
        return [{n: v for n, v in zip(names, row, strict=True) if v is not None} or None for row in rows]
    match names:  # a display is made in a third of the time
        case (a,):
            return [{a: one} for one in columns[0]]
        case (a, b):
            return [{a: one, b: two} for one, two in zip(*columns, strict=True)]
        case (a, b, c):
            return [{a: one, b: two, c: three} for one, two, three in zip(*columns, strict=True)]
        case (a, b, c, d):
            return [{a: one, b: two, c: three, d: four} for one, two, three, four in zip(*columns, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _sizes(run: ColumnBatch, contents: list[Any], columns: list[Any]) -> Iterable[int] | None:
    """Return what ``Message.weigh`` would find, where every row has all fields, and these and the content are ASCII;
    else None."""
    names = "".join(run.fields) if run.fields else ""
    try:
        if not names.isascii() or not all("".join(column).isascii() for column in (contents, *columns)):
            return None
    except TypeError:  # bytes, or no such field
        return None
    sizes: Iterable[int] = map(len, contents)
    for column in columns:
        sizes = map(add, sizes, map(len, column))
    return map(add, sizes, repeat(len(names))) if names else sizes


def _longest(column: Iterable[Value | None]) -> int:
    """Return the length of the longest value in characters or bytes; what is no value counts as very long, so that it
    is looked at."""
    try:
        return max(map(len, filter(None, column)), default=0)
    except TypeError:
        return _LOOK
