"""`show`: the summary of a recording, and that what is missing is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastpath.recording.__main__ import main
from fastpath.recording.lines import Happened
from fastpath.recording.show import SUBJECTS_MAX, Found
from tests.support.recording.samples import BEGAN_US, message, write


def test_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When, how much, of which subjects, what happened."""
    path = write(
        tmp_path / "a.jsonl",
        [
            Happened(at_us=BEGAN_US, name="connected", url="ws://h/ws"),
            message(0, "/a/b", "12345", seq=7, kind="snapshot"),
            *(message(1000 + n, "/a/b", "é", seq=8 + n, fields={"f": "xyz"}) for n in range(5)),
            message(2000, "/a/c", "", seq=1),
        ],
    )

    assert main(["show", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "from": "2027-01-15 08:00:00.000 UTC",
        "until": "2027-01-15 08:00:02.000 UTC",
        "seconds": 2.0,
        "server": "–",
        "asked_for": "/a/**",
        "messages": 7,
        "messages_per_s": 3.5,
        "messages_per_s_max": 5,
        "bytes": 5 + 5 * 6,
        "subjects": 2,
        "missing": 0,
        "cut": "no",
        "kinds": {"update": 6, "snapshot": 1},
        "statuses": {"connected": 1},
        "ended_by": {"signal": 1},
        "top_subjects": [
            {"messages": 6, "bytes": 35, "subject": "/a/b"},
            {"messages": 1, "bytes": 0, "subject": "/a/c"},
        ],
    }
    assert main(["show", str(path), "--top", "1"]) == 0
    shown = capsys.readouterr().out
    assert "messages                 7" in shown
    assert "  messages 6  bytes 35  subject /a/b" in shown and "/a/c" not in shown


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ([(5, "update"), (6, "update")], 0),
        ([(5, "update"), (8, "update"), (10, "recovered")], 3),
        ([(5, "update"), (5, "snapshot"), (6, "update")], 0),
        ([(5, "update"), (9, "snapshot"), (10, "update")], 4),
        ([(0, "update"), (7, "update"), (0, "update")], 0),
    ],
)
def test_what_is_missing_is_counted(tmp_path: Path, numbers: list[tuple[int, str]], missing: int) -> None:
    """From the numbers of each subject, which rise by one."""
    lines = [message(at, seq=seq, kind=kind) for at, (seq, kind) in enumerate(numbers)]
    path = write(tmp_path / "a.jsonl", lines)

    found = Found()
    found.read(str(path))
    assert found.missing == missing
    assert main(["show", str(path)]) == int(missing > 0)


def test_a_cut_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the status, too."""
    path = write(tmp_path / "a.jsonl", [message(), message(1)])
    path.write_bytes(path.read_bytes()[:-1])

    assert main(["show", str(path)]) == 1
    assert f"cut                      {path}" in capsys.readouterr().out


def test_conflated_recordings_miss_nothing_by_their_numbers(tmp_path: Path) -> None:
    """Their numbers rise, by more than one."""
    path = write(tmp_path / "a.jsonl", [message(0, seq=1), message(1, seq=90)])
    path.write_bytes(path.read_bytes().replace(b'"subjects"', b'"conflation":500,"subjects"', 1))

    assert main(["show", str(path)]) == 0


def test_the_table_of_subjects_is_bounded() -> None:
    """However many there are."""
    found = Found()
    found.counts.update({f"/s/{number}": 1 for number in range(SUBJECTS_MAX)})
    for line in (message(0, "/a/new"), message(1, "/s/1")):
        found.take(line, conflated=False)

    assert (len(found.counts), found.others, found.counts["/s/1"]) == (SUBJECTS_MAX, 1, 2)
    assert found.summary(1)["top_subjects"][-1] == {"messages": 1, "subject": "those beyond 100,000"}
