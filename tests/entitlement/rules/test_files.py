"""A file of rules as a spreadsheet gives it back: the same rules, or a line, a column and what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entitlement.rules.files import COLUMNS, MARK, TransferError, decode, parse, write
from entitlement.rules.transfer import load

HEADING = ",".join(COLUMNS)
TEXT = f"{HEADING}\r\neveryone,/b/**,subscribe,allow,yes,,,Händler\r\n"

AS_SAVED = {
    "as exported": MARK + TEXT,
    "without a mark": TEXT,
    "LF": TEXT.replace("\r\n", "\n"),
    "semicolons": TEXT.replace(",", ";"),
    "tabs": TEXT.replace(",", "\t"),
    "all in quotes": "\n".join('"' + '";"'.join(line.split(",")) + '"' for line in TEXT.splitlines()),
    "sep=": "sep=;\r\n" + TEXT.replace(",", ";"),
    "empty rows": TEXT + ",,,,,,,\r\n" * 3 + "\r\n",
    "empty columns": TEXT.replace("\r\n", ",,,\r\n"),
    "an empty row first": ",,,,,,,\r\n" + TEXT,
    "TRUE": TEXT.replace(",yes,", ",TRUE,"),
    "WAHR": TEXT.replace(",yes,", ",WAHR,"),
    "VRAI": TEXT.replace(",yes,", ",VRAI,"),
    "Who, Pattern": TEXT.replace("who,pattern", "Who, Pattern "),
    "other columns first": "note,pattern,who\nHändler,/b/**,everyone\n",
}
"""Texts that say the same."""


@pytest.mark.parametrize("way", AS_SAVED)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_a_spreadsheet_saves_says_the_same(db: None, way: str, encoding: str) -> None:
    [rule] = load(decode(AS_SAVED[way].encode(encoding)), "csv", dry=True).add
    assert (rule.everyone, rule.pattern, rule.action, rule.effect, rule.enabled, rule.note) == (
        True,
        "/b/**",
        "subscribe",
        "allow",
        True,
        "Händler",
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (TEXT.encode("cp1252"), "The file is no UTF-8: line 2 has the byte 0xE4 at its place 39"),
        (b"\xff\xfe\x00", "The file is no UTF-16"),
    ],
)
def test_an_encoding_that_is_none_of_ours_is_told(content: bytes, why: str) -> None:
    with pytest.raises(TransferError, match=why):
        decode(content)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "The first line names the columns"),
        ("who;note\neveryone;x\n", "The first line names the columns, of these: who, pattern"),
        ("who,pattern,Who\na,b,c\n", "The first line names these columns twice: who"),
        ('who,pattern\na,b\n\n"everyone', "This is no CSV: line 4: "),
    ],
)
def test_what_is_no_table_is_told_with_its_line(text: str, why: str) -> None:
    with pytest.raises(TransferError, match=why):
        list(parse(text, "csv"))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("everyone;/a/b*;;\n", "line 2, pattern: * must be a whole segment"),
        (";;;\n\neveryone;/a/b;maybe;\n", "line 4, enabled: 'maybe' is neither yes nor no"),
        ('everyone;/a/b;;"two\nlines"\nnobody;/a/b;;\n', "line 4, who: 'nobody' is none of"),
        ("everyone;/a/b;;\neveryone;/a/b;;\n", "line 3: it says the same as line 2"),
        ("everyone;/a/b;;;more\n", "line 2: unknown: a column without a name"),
        ("everyone,/a/b\n", "line 2, who: 'everyone,/a/b' is none of"),
    ],
)
def test_a_fault_is_told_by_the_line_of_the_file(db: None, rows: str, told: str) -> None:
    plan = load(f"who;pattern;enabled;note\n{rows}", "csv")
    assert str(plan.errors[0]).startswith(told)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(st.fixed_dictionaries({"who": st.just("everyone"), "pattern": texts, "note": texts}), max_size=4))
def test_what_is_written_is_read_again(rows: list[dict[str, str]]) -> None:
    """Whatever the cells hold: quotes, line ends, delimiters, formulas."""
    text = "".join(write(rows, "csv"))
    wanted = [row for row in rows if any(value.strip() for value in row.values())]
    read = [{name: row.values[name] for name in ("who", "pattern", "note")} for row in parse(text, "csv")]
    assert read == wanted
