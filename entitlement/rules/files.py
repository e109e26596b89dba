"""The text of a file of rules, as rows of words: JSON, or CSV as spreadsheets write it.

A spreadsheet chooses the delimiter by the country that it is in, writes truths in its language, leaves empty rows, and
takes a file for UTF-8 only if a byte order mark says so. What it may have made of a file is taken back all the same.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from django.utils.translation import gettext

COLUMNS = ("who", "pattern", "action", "effect", "enabled", "from", "until", "note")
BYTES_MAX = 64 << 20
"""A file of a hundred thousand rules has about 15 MB."""

FORMATS = ("json", "csv")

MARK = "\ufeff"
"""Mark without which a spreadsheet reads a file of UTF-8 in the code page of its country."""

_DELIMITERS = ",;\t"

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""A spreadsheet takes a text that begins so for a formula: in CSV an apostrophe stands before it."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class TransferError(ValueError):
    """A file that is no file of rules."""


class FileRow(NamedTuple):
    """The words of a file about one rule."""

    number: int
    """Number of the line that the row begins in (CSV), or of its place in the list (JSON); counted from 1."""
    values: dict[str, Any]


def decode(content: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 where a mark says so; raises TransferError."""
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding == "utf-16":
            raise TransferError(gettext("The file is no UTF-16, which its first two bytes say.")) from None
        before = content[: error.start]
        words = gettext(
            "The file is no UTF-8: line %(line)s has the byte 0x%(byte)02X at its place %(place)s. Save it as UTF-8 "
            "(in Excel “CSV UTF-8”)."
        )
        where = {
            "line": before.count(b"\n") + 1,
            "place": len(before) - before.rfind(b"\n"),
            "byte": content[error.start],
        }
        raise TransferError(words % where) from None


def parse(text: str, form: str) -> Iterator[FileRow]:
    """Yield the rows of a file, of which none is looked at yet; raises TransferError."""
    if len(text) > BYTES_MAX:
        raise TransferError(gettext("The file is larger than %(most)s MB.") % {"most": BYTES_MAX >> 20})
    return _parse_csv(text) if form == "csv" else _parse_json(text)


def write(rows: Iterable[dict[str, Any]], form: str) -> Iterator[str]:
    """Yield the text of a file in parts; ``form`` is json or csv."""
    return _write_csv(rows) if form == "csv" else _write_json(rows)


def _parse_json(text: str) -> Iterator[FileRow]:
    try:
        rows = json.loads(text.removeprefix(MARK))
    except (ValueError, RecursionError) as error:
        raise TransferError(gettext("This is no JSON: %(error)s.") % {"error": error}) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TransferError(gettext('A file of rules is a list of objects: [{"who": …, "pattern": …}, …].'))
    yield from map(FileRow, range(1, len(rows) + 1), rows)


def _parse_csv(text: str) -> Iterator[FileRow]:
    file = io.StringIO(text.removeprefix(MARK), newline="")
    delimiter, skipped = _delimiter(file)
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    names: list[str] = []
    end = skipped
    try:
        for cells in reader:
            begin, end = end + 1, skipped + reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if names:
                yield FileRow(begin, _values(names, cells))
            else:
                names = _heading(cells)
    except csv.Error as error:
        words = gettext("This is no CSV: line %(line)s: %(error)s.")
        raise TransferError(words % {"line": end + 1, "error": error}) from None
    if not names:
        _heading([])


def _delimiter(file: io.StringIO) -> tuple[str, int]:
    """Return what stands between cells, and how many lines say nothing else; the file is behind these."""
    first = file.readline()
    if first.lower().startswith("sep=") and len(first.strip("\r\n")) == len("sep=;"):
        return first[len("sep=")], 1
    file.seek(0)
    found = {delimiter: len(set(_names(first.split(delimiter))) & set(COLUMNS)) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=lambda delimiter: found[delimiter]), 0


def _names(cells: Iterable[str]) -> list[str]:
    return [cell.strip().strip('"').strip().lower() for cell in cells]


def _heading(cells: Iterable[str]) -> list[str]:
    """Return the names of the columns; raises TransferError for a line that does not name what a rule needs."""
    names = _names(cells)
    if not {"who", "pattern"} <= set(names):
        words = gettext("The first line names the columns, of these: %(columns)s.")
        raise TransferError(words % {"columns": ", ".join(COLUMNS)})
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise TransferError(
            gettext("The first line names these columns twice: %(columns)s.") % {"columns": ", ".join(twice)}
        )
    return names


def _values(names: list[str], cells: list[str]) -> dict[str, Any]:
    """Return the cells by their columns; what stands beside all columns is under an empty name."""
    values: dict[str, Any] = {name: _content(cell) for name, cell in zip(names, cells, strict=False) if name}
    nameless = [cell for name, cell in zip(names, cells, strict=False) if not name] + cells[len(names) :]
    beside = "".join(nameless).strip()
    return values | {"": beside} if beside else values


def _content(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:2] in _FORMULA else cell


def _write_json(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    before = "[\n"
    for row in rows:
        yield before + json.dumps(row, ensure_ascii=False)
        before = ",\n"
    yield "\n]\n" if before != "[\n" else "[]\n"


def _write_csv(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    line = io.StringIO()
    line.write(MARK)
    writer = csv.DictWriter(line, COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
