"""`manage.py audit`: the newest events, those that follow, and those asked for, from the files of all workers."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from realtime.export.audit_files import Trail, Wanted, describe
from realtime.management.commands import runrealtime
from tests.support.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[4]

DAY = "2026-11-21T"
DENIED = {"subject": "/stocks/us/IBM", "error": "denied", "reason": "no rule allows it"}


def event(time: str, what: str = "subscribed", **more: Any) -> dict[str, Any]:
    """A line's content; ``time`` such as 10:00:00.000."""
    base = {"time": f"{DAY}{time}Z", "kind": "access", "event": what, "node": "n", "worker": 0, "connection": "c1"}
    return base | {"user": "ann", "address": "127.0.0.1"} | more


def write(path: Path, *events: Any) -> None:
    """Add lines; what is a text is written as it is."""
    with path.open("a") as file:
        for one in events:
            file.write(one if isinstance(one, str) else json.dumps(one) + "\n")


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """Two workers, the first one with two files."""
    settings.REALTIME = settings.REALTIME | {"AUDIT_FOLDER": tmp_path}
    write(
        tmp_path / "audit-20261121T100000-0.jsonl",
        event("10:00:00.000", "connected"),
        event("10:00:02.000", subject="/stocks/us/IBM", history=2),
        "no event\n",
        '"neither"\n',
        event(
            "10:00:04.000", "denied", user="bob", subject="/stocks/us/IBM", error="denied", reason="no rule allows it"
        ),
    )
    write(
        tmp_path / "audit-20261121T110000-0.jsonl",
        event("11:00:00.000", "disconnected", code=1000, reason="closed by the client"),
        {
            "time": f"{DAY}11:00:02.000Z",
            "kind": "audit",
            "event": "dropped",
            "node": "n",
            "worker": 0,
            "dropped": {"access": 3},
        },
        "half a li",
    )
    write(
        tmp_path / "audit-20261121T100001-1.jsonl",
        event("10:00:01.000", "connected", user="", address="::1", worker=1),
        event("10:00:03.000", subject="/stocks/uk/BT", worker=1, user=""),
        event("11:00:01.000", "published", kind="message", subject="/chat/room", bytes=7, worker=1),
    )
    (tmp_path / "audit-of-something-else.jsonl").write_text("not ours")
    return tmp_path


def audit(*arguments: str) -> list[str]:
    """The lines that the command prints."""
    out = io.StringIO()
    call_command("audit", *arguments, stdout=out, stderr=out)
    return out.getvalue().splitlines()


def times(*arguments: str) -> list[str]:
    """When the events were that it prints."""
    found = [line for line in audit(*arguments, "--json") if line.startswith("{")]
    return [json.loads(line)["time"][11:19] for line in found]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ((), "10:00:00 10:00:01 10:00:02 10:00:03 10:00:04 11:00:00 11:00:01 11:00:02"),
        (("--kind", "message"), "11:00:01 11:00:02"),
        (("--event", "connected"), "10:00:00 10:00:01 11:00:02"),
        (("--user", "bob"), "10:00:04 11:00:02"),
        (("--user", ""), "10:00:01 10:00:03 11:00:02"),
        (("--subject", "/stocks/us/*"), "10:00:02 10:00:04 11:00:02"),
        (("--subject", "/stocks/**", "--user", "ann"), "10:00:02 11:00:02"),
        (("--subject", "/chat/room"), "11:00:01 11:00:02"),
        (("--address", "::1"), "10:00:01 11:00:02"),
        (("--connection", "c2"), "11:00:02"),
        (("--since", "2026-11-21T10:00:04Z"), "10:00:04 11:00:00 11:00:01 11:00:02"),
        (("--since", "2026-11-21T11:00:01Z", "--until", "2026-11-21T11:00:02Z"), "11:00:01"),
        (("--until", "2026-11-21T10:00:01Z"), "10:00:00"),
        (("--since", "2026-11-22"), ""),
        (("--since", "2026-11-21T12:00:00+01:00", "--until", "2026-11-21T11:00:01+00:00"), "11:00:00"),
    ],
)
def test_search(folder: Path, asked: tuple[str, ...], found: str) -> None:
    """What tells of dropped events is found whatever is asked for: there may be more than is shown."""
    assert times("search", *asked) == found.split()


def test_tail(folder: Path) -> None:
    assert times("tail") == times("search")
    assert times("tail", "-n", "3") == ["11:00:00", "11:00:01", "11:00:02"]
    assert times("tail", "-n", "2", "--event", "subscribed") == ["10:00:03", "11:00:02"]


def test_lines_that_are_no_events_are_counted(folder: Path) -> None:
    assert audit("search")[-1] == "3 lines were no events and have been left out"
    assert audit("tail")[-1] == "2 lines were no events and have been left out", "the last one may still be written"


def test_a_line_for_people(folder: Path) -> None:
    lines = audit("search", "--event", "denied")
    assert lines[0] == (
        f"{DAY}10:00:04.000Z access denied bob@127.0.0.1 subject=/stocks/us/IBM error=denied "
        'reason="no rule allows it" n/0/c1'
    )
    assert "(anonymous)@::1" in audit("search", "--user", "")[0]
    assert "\x1b" not in describe(event("10:00:00.000", agent="\x1b[31mred", user="\x1b]0;title\x07"))


def test_nothing_that_is_shown_is_an_order_to_the_terminal() -> None:
    """C1 controls, DEL, and what turns a line round, in any value; JSON's escapes keep what it was."""
    evil = "\x9b2J\x7f\u202e\u2066\U000e0001"
    shown = describe(event("10:00:00.000", agent=evil, fields={evil: [evil]}, user=evil, connection=evil) | {evil: 1})
    assert shown.isprintable()
    assert r'agent="\u009b2J\u007f\u202e\u2066\udb40\udc01"' in shown
    assert json.loads(r'"\u009b2J\u007f\u202e\u2066\udb40\udc01"') == evil
    assert "agent=märkte" in describe(event("10:00:00.000", agent="märkte"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--since", "yesterday"), "is no time"),
        (("--until", "2026-13-01"), "month"),
        (("--subject", "stocks"), "no leading slash"),
        (("--folder", "/nowhere"), "FASTPATH_AUDIT_FOLDER"),
    ],
)
def test_what_cannot_be_searched_for(folder: Path, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        audit("search", *arguments)


def test_times_before_now(tmp_path: Path) -> None:
    moments = {"old": timedelta(hours=3), "new": timedelta(minutes=5)}
    for name, ago in moments.items():
        moment = datetime.now(UTC) - ago
        path = tmp_path / f"audit-{moment:%Y%m%dT%H%M%S}-0.jsonl"
        write(path, event("") | {"time": f"{moment:%Y-%m-%dT%H:%M:%S}.000Z", "event": name})
    for since, found in (("2h", ["new"]), ("1d", ["old", "new"]), ("60s", [])):
        lines = audit("search", "--since", since, "--json", "--folder", str(tmp_path))
        assert [json.loads(line)["event"] for line in lines] == found


def test_follow(folder: Path) -> None:
    """What is written from now on, also to a file that is new, a line only when it is whole."""
    looked, stop = 0, False

    def wait() -> bool:
        nonlocal looked
        looked += 1
        time.sleep(0.01)
        return not stop

    found: list[str] = []

    def read() -> None:
        for one in trail.follow(Wanted(user="ann"), wait):
            found.append(one["time"][11:19])

    trail = Trail(folder)
    assert len(trail.newest(20, Wanted(user="ann"))) == 5
    write(folder / "audit-20261121T110000-0.jsonl", "\n", event("11:58:00.000"))
    reader = threading.Thread(target=read)
    reader.start()
    try:
        until(lambda: found == ["11:58:00"])
        found.clear()
        worker = folder / "audit-20261121T100001-1.jsonl"
        text = json.dumps(event("12:00:00.000"))
        write(worker, event("11:59:00.000", user="bob"), text[:20])
        before = looked
        until(lambda: looked > before + 1)
        assert found == []
        write(worker, text[20:] + "\n")
        write(folder / "audit-20261121T120000-0.jsonl", event("12:00:01.000"))
        until(lambda: found == ["12:00:00", "12:00:01"])
    finally:
        stop = True
        reader.join(PATIENCE_SECONDS)


def test_reading_backwards_over_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "audit-20261121T100000-0.jsonl"
    write(path, *(event(f"10:00:00.{number % 1000:03d}", number=number, text="x" * 97) for number in range(3000)))
    trail = Trail(tmp_path)
    newest = trail.newest(1000, Wanted())
    assert sorted(one["number"] for one in newest) == list(range(2000, 3000))
    assert trail.bad == 0


def test_runrealtime_says_where_the_files_go(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REALTIME = settings.REALTIME | {"AUDIT_FOLDER": tmp_path}
    assert "FASTPATH_AUDIT_FOLDER" not in runrealtime._sidecar().environment()
    monkeypatch.setenv("FASTPATH_AUDIT", "access")
    assert runrealtime._sidecar().environment()["FASTPATH_AUDIT_FOLDER"] == str(tmp_path)
    monkeypatch.setenv("FASTPATH_AUDIT_FOLDER", "/elsewhere")
    assert runrealtime._sidecar().environment()["FASTPATH_AUDIT_FOLDER"] == "/elsewhere"


@pytest.mark.slow
def test_a_reader_that_has_enough(tmp_path: Path) -> None:
    """`manage.py audit search | head` ends without a complaint."""
    lines = [event("10:00:00.000", number=number, text="x" * 100) for number in range(5000)]
    write(tmp_path / "audit-20261121T100000-0.jsonl", *lines)
    command = f"{sys.executable} manage.py audit search --folder {tmp_path} | head -n 1"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{DAY}10:00:00.000Z access subscribed")
    assert done.stderr == ""


@pytest.fixture(autouse=True)
def _times_are_utc(settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
