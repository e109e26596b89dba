"""Recorders as processes: signals, lost connections, servers that begin anew, rights, pipes."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from fastpath.recording.__main__ import main
from fastpath.recording.lines import End, Happened, Recorded
from tests.support.proxy import Proxy
from tests.support.recording.programs import COMMAND, Program, Recording
from tests.support.recording.samples import message, messages, read, write
from tests.support.rights import load_rights, rule
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow


def _publish(sidecar: Sidecar, *contents: str, subject: str = "/a/b") -> None:
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch([[subject, content] for content in contents])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_recording_in_order(tmp_path: Path, sidecar: Sidecar, how: signal.Signals) -> None:
    """With all that has come, and how the connection began."""
    _publish(sidecar, "0")
    with Recording(tmp_path, tmp_path / "a.jsonl.gz", sidecar.client_url, "/a/*") as recording:
        recording.until(1)
        _publish(sidecar, "1", "2")
        recording.until(3)
        assert recording.end(how) == 0
        assert "3 messages recorded in" in recording.errors

    first, *lines, last = read(recording.path)
    assert isinstance(first, Happened) and (first.name, first.url) == ("connected", sidecar.client_url)
    assert [(line.kind, line.content) for line in lines if isinstance(line, Recorded)] == [
        ("snapshot", "0"), ("update", "1"), ("update", "2"),
    ]  # fmt: skip
    assert isinstance(last, End) and (last.messages, last.why) == (3, "signal")


def test_a_killed_recorder_leaves_what_it_had(tmp_path: Path, sidecar: Sidecar) -> None:
    """All but the last moment; and the file can be played."""
    with Recording(tmp_path, tmp_path / "a.jsonl.gz", sidecar.client_url, "/a/*") as recording:
        _publish(sidecar, *map(str, range(100)))
        recording.until(100)
        recording.end(signal.SIGKILL)

    with Program(
        tmp_path, "replay", str(recording.path), "--url", sidecar.publisher_url, "--speed", "max", "--json"
    ) as r:
        assert r.summary()["acknowledged"] == 100
        assert "was cut" in r.errors


def test_what_is_missed_while_the_connection_is_away_comes_in_order(tmp_path: Path, sidecar: Sidecar) -> None:
    """Recovered, nothing twice; the file says when the connection was away."""
    began = time.monotonic()
    with (
        Proxy(sidecar.client_url) as proxy,
        Recording(tmp_path, tmp_path / "a.jsonl", f"ws://{proxy.address}/ws", "/a/*", "--bytes", "100M") as recording,
    ):
        recording.path = tmp_path / "a-0001.jsonl"
        for number in range(3):
            _publish(sidecar, f"{number} before")
            recording.until(3 * number + 1)
            proxy.shut()
            _publish(sidecar, f"{number} meanwhile 1", f"{number} meanwhile 2")
            proxy.open()
            recording.until(3 * number + 3)
        assert recording.end() == 0

    assert time.monotonic() - began < 20, "it comes back soon"
    assert [line.content for line in messages(recording.path)] == [
        f"{number} {when}" for number in range(3) for when in ("before", "meanwhile 1", "meanwhile 2")
    ]
    told = [line.name for line in read(recording.path) if isinstance(line, Happened)]
    assert told.count("disconnected") >= 3 and told.count("synchronised") == 3
    assert "resynchronised" not in told
    assert main(["show", str(recording.path)]) == 0


def test_what_cannot_be_had_any_more_is_said_in_the_file(tmp_path: Path, sidecar: Sidecar) -> None:
    """The server begins anew without what it had: the place, the reason, and the status."""
    with Recording(tmp_path, tmp_path / "a.jsonl", sidecar.client_url, "/a/*") as recording:
        _publish(sidecar, "1", "2")
        recording.until(2)
        sidecar.kill()
        sidecar.start()
        _publish(sidecar, "3")
        until(lambda: any(line.content == "3" for line in messages(recording.path)), 20)
        assert recording.end() == 1
        assert "messages of /a/b may be missing" in recording.errors

    told = [
        line.name if isinstance(line, Happened) else getattr(line, "content", "end") for line in read(recording.path)
    ]
    away = told.index("disconnected")  # and perhaps again, while there was no server
    assert told[:away] == ["connected", "1", "2"]
    assert [one for one in told[away:] if one not in ("disconnected", "down")] == [
        "connected", "resynchronised", "3", "end",
    ]  # fmt: skip


def test_a_right_that_is_missing_is_said_and_waited_for(tmp_path: Path) -> None:
    """A token from a file; the recording begins when the right comes."""
    (tmp_path / "token").write_text(mint("ann", "1") + "\n")
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        load_rights(sidecar.control, rule(1, "user:2", "/a/**"))
        words = ("/a/b", "--token-file", str(tmp_path / "token"))
        with Recording(tmp_path, tmp_path / "a.jsonl", sidecar.client_url, *words) as recording:
            until(lambda: "/a/b is denied: " in recording.errors)
            load_rights(sidecar.control, rule(1, "user:2", "/a/**"), rule(2, "user:1", "/a/*"), generation=2)
            with Control(sidecar.control) as control:
                control.publish([["/a/b", "now"]])
            recording.until(1)
            assert recording.end() == 0
            assert recording.errors.count("/a/b is denied") == 1 and "waits for the right" not in recording.errors


def test_who_may_not_go_on_is_told_and_the_file_says_so(tmp_path: Path) -> None:
    """The token ends and there is no other: what came is kept, the status is 2."""
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        load_rights(sidecar.control, rule(1, "user:1", "/a/**"))
        short = {"RECORDING_TOKEN": mint("ann", "1", hours=9 / 3600)}
        with Recording(tmp_path, tmp_path / "a.jsonl", sidecar.client_url, "/a/*", **short) as recording:
            with Control(sidecar.control) as control:
                control.publish([["/a/b", "1"]])
            assert recording.process.wait(3 * PATIENCE_SECONDS) == 2
            assert "fastpath.recording: the server refused the connection with 4007" in recording.errors

    *lines, failed, end = read(recording.path)
    assert [line.content for line in lines if isinstance(line, Recorded)] == ["1"]
    assert isinstance(failed, Happened) and (failed.name, failed.code) == ("failed", 4007)
    assert isinstance(end, End) and (end.messages, end.why) == (1, "failed")


def test_a_conflated_recording_has_the_newest(tmp_path: Path, sidecar: Sidecar) -> None:
    """One message for many, and the header says so: their numbers are no gaps."""
    with Recording(tmp_path, tmp_path / "a.jsonl", sidecar.client_url, "/a/*", "--conflation", "200") as recording:
        _publish(sidecar, *map(str, range(100)))
        until(lambda: any(line.content == "99" for line in messages(recording.path)), 20)
        assert recording.end() == 0

    assert len(messages(recording.path)) < 10
    assert main(["show", str(recording.path)]) == 0


def test_the_reader_of_a_pipe_sees_each_line_and_may_go(tmp_path: Path, sidecar: Sidecar) -> None:
    """`record … --output - | head -n 3` ends both."""
    words = [*COMMAND, "record", "/a/*", "--url", sidecar.client_url, "--output", "-", "--quiet"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None and recorder.stderr is not None
        assert b'"type":"recording"' in recorder.stdout.readline()
        assert b'"connected"' in recorder.stdout.readline()
        _publish(sidecar, "1")
        assert b'"content":"1"' in recorder.stdout.readline()
        recorder.stdout.close()
        until(lambda: (_publish(sidecar, "2"), recorder.poll() is not None)[1])
        assert recorder.returncode == 0
        assert recorder.stderr.read() == b""


def test_who_has_seen_enough_of_a_summary_may_go(tmp_path: Path) -> None:
    """`show … | head -n 1` is no fault."""
    path = write(tmp_path / "a.jsonl", [message(n, f"/a/{'x' * 300}{n}") for n in range(2000)])
    words = [*COMMAND, "show", str(path), "--top", "2000"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as show:
        assert show.stdout is not None and show.stderr is not None
        assert show.stdout.readline().startswith(b"from ")
        show.stdout.close()
        assert (show.stderr.read(), show.wait(PATIENCE_SECONDS)) == (b"", 0)
