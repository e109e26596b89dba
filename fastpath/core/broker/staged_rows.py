"""What a frame ``stage`` brings: its runs, read with bounds, and which of its rows may be staged (protocol.md 6.5)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from ..auth.grants import Principal
from ..protocol.columns import ColumnBatch, count, refused_rows, without
from ..protocol.errors import InvalidMessage
from ..protocol.limits import FIELDS_MAX
from ..protocol.messages import Message
from ..protocol.packets import Refusal, read_publication
from .admission import Admission

STAGE_ROWS_MAX = 2000
"""Rows in one frame."""

STAGE_BYTES_MAX = 512 << 10
"""Bytes of its runs, inflated, unless it has only one row: what is decoded and checked in one turn."""

_Rows = msgspec.Meta(max_length=STAGE_ROWS_MAX)

if TYPE_CHECKING:

    class _TextRun(ColumnBatch): ...

    class _AnyRun(ColumnBatch): ...

else:
    _Meta = Annotated[dict[str, Any], msgspec.Meta(max_length=8)] | None

    class _TextRun(ColumnBatch, array_like=True, gc=False):
        """A run as it usually comes, all values texts; bounded before it is read."""

        contents: Annotated[list[str], _Rows]
        fields: Annotated[dict[str, Annotated[list[str | None], _Rows]], msgspec.Meta(max_length=FIELDS_MAX)] | None = (
            None
        )
        meta: _Meta = None

    class _AnyRun(ColumnBatch, array_like=True, gc=False):
        """One with other values, which are to be looked at."""

        contents: Annotated[list[Any], _Rows]
        fields: Annotated[dict[str, Annotated[list[Any], _Rows]], msgspec.Meta(max_length=FIELDS_MAX)] | None = None
        meta: _Meta = None


class _Subject(msgspec.Struct, array_like=True):
    """A run's first item; the others are passed over."""

    subject: str


_decode_texts: Callable[[bytes], list[ColumnBatch]] = msgspec.msgpack.Decoder(Annotated[list[_TextRun], _Rows]).decode
_decode_any: Callable[[bytes], list[ColumnBatch]] = msgspec.msgpack.Decoder(Annotated[list[_AnyRun], _Rows]).decode
_decode_bytes = msgspec.msgpack.Decoder(bytes).decode
_decode_subjects = msgspec.msgpack.Decoder(list[_Subject]).decode
_encode = msgspec.msgpack.Encoder().encode

_META = {"retained", "qos", "closure", "reply_to", "as_of", "replace", "removed"}


class Taken(NamedTuple):
    """The part of a frame that may be staged: row count, bytes (MessagePack of the runs), and the rows refused."""

    rows: int
    refused: list[tuple[int, str, str]]
    data: bytes


class RightsUnknown(Exception):
    """The error of rows whose right to be published is not known yet; its text says why."""


def read_runs(rows: int, raw: bytes, bytes_max: int) -> tuple[bytes, list[ColumnBatch]]:
    """Return the runs of a frame and the MessagePack array that they stand in; raise InvalidMessage.

    ``raw`` is that array, or MessagePack's ``bin`` of it compressed; ``bytes_max`` bounds it where it has one row.
    """
    if not 0 < rows <= STAGE_ROWS_MAX:
        raise InvalidMessage("invalid", f"a frame has 1 to {STAGE_ROWS_MAX} rows")
    limit = max(bytes_max, STAGE_BYTES_MAX) if rows == 1 else STAGE_BYTES_MAX
    try:
        data = _inflated(_decode_bytes(raw), limit) if raw[:1] in _BINARY else raw
        if len(data) > limit:
            raise InvalidMessage("invalid", f"over {limit} bytes in a frame")
        runs = runs_of(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, zlib.error) as error:
        raise InvalidMessage("invalid", f"not runs of rows: {error}") from None
    if count(runs) != rows:
        raise InvalidMessage("invalid", f"a frame of {rows} rows has {count(runs)}")
    for run in runs:
        if any(len(column) != len(run) for column in (run.fields or {}).values()):
            raise InvalidMessage("invalid", f"{run.subject[:80]}: a field has not as many values as there are rows")
        if type(run) is _AnyRun:
            _check_values(run)
    return data, runs


def _check_values(run: ColumnBatch) -> None:
    if not _CONTENTS.issuperset(map(type, run.contents)):
        raise InvalidMessage("invalid", f"{run.subject[:80]}: content is text or binary")
    for column in (run.fields or {}).values():
        if not _VALUES.issuperset(map(type, column)):
            raise InvalidMessage("invalid", f"{run.subject[:80]}: field values are text, binary or nil")


_CONTENTS = {str, bytes}
_VALUES = {str, bytes, type(None)}
_BINARY = (b"\xc4", b"\xc5", b"\xc6")
"""First bytes of MessagePack's three forms of ``bin``."""


def _inflated(data: bytes, limit: int) -> bytes:
    inflating = zlib.decompressobj()
    inflated = inflating.decompress(data, limit + 1)
    if len(inflated) > limit:
        raise InvalidMessage("invalid", f"over {limit} bytes in a frame, inflated")
    if not inflating.eof or inflating.unused_data:
        raise InvalidMessage("invalid", "what is compressed does not end where the frame does")
    return inflated


def take(runs: list[ColumnBatch], data: bytes, admission: Admission, principal: Principal, now: int) -> Taken:
    """Return the rows that may be published as things stand; raise RightsUnknown when that is not known of all."""
    refused: list[tuple[int, str, str]] = []
    taken: list[ColumnBatch] = []
    first = 0
    refusals = _refused_runs(runs, admission, principal, now)
    bytes_max = admission.limits.message_bytes_max
    for index, run in enumerate(runs):
        rows: Mapping[int, Refusal] = (
            dict.fromkeys(range(len(run)), refusals[index]) if index in refusals else refused_rows(run, bytes_max)
        )
        if rows:
            refused += [(first + row, code, reason) for row, (code, reason) in sorted(rows.items())]
        if len(rows) < len(run):
            taken.append(without(run, rows) if rows else run)
        first += len(run)
    if not refused:
        return Taken(first, [], data)
    return Taken(first - len(refused), refused, _encode(taken))


def _refused_runs(runs: list[ColumnBatch], admission: Admission, principal: Principal, now: int) -> dict[int, Refusal]:
    """Return the runs of which no row may be published, by their index: one message stands for each."""
    refused: dict[int, Refusal] = {}
    samples: list[Message] = []
    for index, run in enumerate(runs):
        if run.meta:
            try:
                if not _META.issuperset(run.meta):
                    raise InvalidMessage("invalid", f"meta of rows has {', '.join(sorted(_META))} and nothing else")
                content = next(filter(None, run.contents), "") if run.removed else ""
                read_publication([run.subject, content, None, run.meta])
            except InvalidMessage as error:
                refused[index] = error.code, error.reason
        samples.append(Message(run.subject, "", dict.fromkeys(run.fields, "") if run.fields else None))
    for index, refusal in admission.refused(principal, samples, now).items():
        if refusal[0] == "not_ready":
            raise RightsUnknown(refusal[1])
        refused.setdefault(index, refusal)
    return refused


def runs_of(data: bytes) -> list[ColumnBatch]:
    """Return the runs of what ``take`` gave; raise msgspec.DecodeError."""
    try:
        return _decode_texts(data)
    except msgspec.ValidationError:
        return _decode_any(data)


def named(rows: int, raw: bytes) -> set[str]:
    """Return the subjects of a frame; none of one that is malformed."""
    try:
        return {run.subject for run in read_runs(rows, raw, STAGE_BYTES_MAX)[1]}
    except InvalidMessage:
        return set()


def subjects_of(data: bytes) -> set[str]:
    """Return the subjects of the same runs, which costs less."""
    return {row.subject for row in _decode_subjects(data)}
