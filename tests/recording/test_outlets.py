"""Where a recording is played to: rows, tokens, and the bounds of what is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastpath.recording.lines import BinaryValue, RecordingError
from fastpath.recording.outlets import REASONS_MAX, row_of, token_of
from fastpath.recording.replay import Shown, summary
from fastpath.recording.replayer import Replay
from tests.support.recording.notes import Notes
from tests.support.recording.samples import message


@pytest.mark.parametrize(
    ("given", "row"),
    [
        ({}, ["/a/b", "x"]),
        (
            {"content": BinaryValue(b"\xff"), "fields": {"f": BinaryValue(b"\x00"), "g": ""}},
            ["/a/b", b"\xff", {"f": b"\x00", "g": ""}],
        ),
        ({"retained": False}, ["/a/b", "x", None, {"retained": False}]),
        ({"content": "", "removed": True}, ["/a/b", "", None, {"removed": True}]),
        ({"qos": "standard", "kind": "snapshot"}, ["/a/b", "x", None, {"qos": "standard"}]),
        (
            {"fields": {"f": "1"}, "reply_to": "/r/x", "closure": "c", "as_of": 0},
            ["/a/b", "x", {"f": "1"}, {"reply_to": "/r/x", "closure": "c", "as_of": 0}],
        ),
    ],
)
def test_a_row_says_what_differs_from_the_default(given: dict[str, object], row: list[object]) -> None:
    """As protocol.md 6.2 has it."""
    assert row_of(message(**given)) == row  # type: ignore[arg-type]


def test_a_token_of_a_file_is_read_anew_for_each_connection(tmp_path: Path) -> None:
    """So that another program can renew it; a text is as it is, none is anonymous."""
    path = tmp_path / "token"
    path.write_text("one\n")
    token = token_of(str(path), "given")
    assert callable(token)
    path.write_text("two\n")

    assert token() == "two"
    assert token_of("", "given") == "given"
    assert token_of("", "") is None
    path.unlink()
    with pytest.raises(RecordingError, match="No such file"):
        token()


def test_reasons_are_bounded() -> None:
    """A server that says something else each time fills no memory."""
    notes = Notes()
    for number in range(REASONS_MAX + 5):
        notes._refuse("denied", str(number))
    notes._refuse("denied", "0")

    assert notes.refused == REASONS_MAX + 6
    assert len(notes.reasons) == REASONS_MAX + 1
    assert (notes.reasons["denied: 0"], notes.reasons["others"]) == (2, 5)


def test_progress_and_summary() -> None:
    """How many, how fast, how late, what was refused."""
    notes = Notes()
    replay = Replay(notes, 1)
    replay.run(lambda: [message(0)], lambda: None)
    notes.sent, notes.acknowledged = 2000, 1999
    notes._refuse("denied", "no rule")
    replay.pass_number = 2

    line = Shown(notes, replay, notes.began - 1000).line()
    assert line.startswith("sent 2,000 (2/s)  acknowledged 1,999  refused 1: denied: no rule  late p99 ")
    assert line.endswith("  pass 2")
    found = summary(notes, replay, 4)
    assert found["sent_per_s"] == 500 and found["reasons"] == {"denied: no rule": 1} and "late_p99_ms" in found
    assert "late_p99_ms" not in summary(notes, Replay(notes, 0), 4)
