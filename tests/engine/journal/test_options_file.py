"""The options beside a journal: written and read again, and none where the file is not what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastpath.core.protocol.options import OptionRow
from fastpath.engine.journal.options_file import NAME, OptionsFile

ROWS = [OptionRow(1, "/a/**", cache_messages=5, cache_ms=600_000), OptionRow(2, "/a/b", conflation_ms=300)]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = OptionsFile(tmp_path, ".partial")
    assert file.read() == []
    file.write(ROWS)
    file.write(ROWS[:1])
    assert file.read() == ROWS[:1]
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'[{"id": 1, "pattern": "/a/b"',
        b"null",
        b'[{"id": 1, "pattern": "/a/\xff"}]',
        b'[{"id": 1, "pattern": "a"}]',
        b'[{"id": 1, "pattern": "/a/**/b", "cache_messages": 1}]',
        b'[{"id": 1, "pattern": "/__sys__/**", "cache_messages": 1}]',
        b'[{"id": 100000000000000000000, "pattern": "/a/b"}]',
        b'[{"id": 1, "pattern": "/a/b", "cache_messages": 1000001}]',
    ],
)
def test_a_damaged_file_is_none_and_said_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    """Also one of bytes, of a pattern or of a number that Django can never have sent."""
    (tmp_path / NAME).write_bytes(data)
    assert OptionsFile(tmp_path, ".partial").read() == []
    assert f"{NAME} cannot be read" in caplog.text


def test_a_folder_that_cannot_be_written_is_said_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = OptionsFile(tmp_path / "gone", ".partial")
    file.write(ROWS)
    assert f"{NAME} cannot be written" in caplog.text
