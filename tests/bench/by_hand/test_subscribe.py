"""`subscribe` and `publish` against a running sidecar: all is counted, also through storms and stalls."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastpath.bench.__main__ import main
from fastpath.client.control.client import Control
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

COMMAND = [sys.executable, "-m", "fastpath.bench"]


def _start(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    progress = folder / "progress"
    with progress.open("w") as errors:
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Whoever runs the tests in the background has them ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    return process, progress


def _end(process: subprocess.Popen[str]) -> dict[str, Any]:
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=3 * PATIENCE_SECONDS)
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def _quiet_since(progress: Path, told: int) -> bool:
    """Whether a line that began after so many says that nothing comes any more."""
    lines = progress.read_text().splitlines()
    return len(lines) > told + 1 and "deliveries/s 0 " in lines[-1]


@pytest.mark.slow
@pytest.mark.parametrize("via", ["port", "ws"])
def test_what_is_published_is_counted_by_every_subscriber(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], via: str
) -> None:
    """Two processes of subscribers, each connection on three of six subjects; Ctrl-C ends with the summary."""
    with Sidecar(mode="none") as sidecar:
        arguments = ("--connections", "40", "--count", "6", "--each", "3", "--processes", "2")
        process, progress = _start(tmp_path, "subscribe", "--url", sidecar.client_url, *arguments)
        until(lambda: "connected 40/40" in progress.read_text(), 20)
        url = sidecar.publisher_url if via == "port" else sidecar.client_url

        more = ("--connections", "2", "--processes", "2", "--rate", "300", "--fields", "2", "--duration", "2", "--json")
        status = main(["publish", "--url", url, "--count", "6", *more])
        published = json.loads(capsys.readouterr().out.splitlines()[-1])
        told = len(progress.read_text().splitlines())
        until(lambda: _quiet_since(progress, told), 20)
        with Control(sidecar.control) as control:
            taken = int(control.stats()["messages_in"])
        found = _end(process)

    assert status == 0
    assert published["published"] > 100
    if via == "port":
        assert published["acknowledged"] == published["published"] == taken
    assert taken <= published["published"], "what a WebSocket has just sent as it is closed may not arrive"
    assert found["deliveries"] == pytest.approx(taken * 20, rel=0.02)
    assert [found[key] for key in ("lost", "doubled", "reordered", "closed")] == [0, 0, 0, 0]
    assert found["connections"] == 40
    assert found["p99_ms"] is not None


@pytest.mark.slow
def test_who_is_cut_or_stalls_gets_all_that_was_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quarter is cut, another quarter reads nothing for a second; all resume without a gap."""
    with Sidecar(mode="none") as sidecar:
        behaviour = ("--storm", "25:2", "--stall", "50:1", "--ramp", "200")
        process, progress = _start(
            tmp_path, "subscribe", "--url", sidecar.client_url, "--connections", "40", *behaviour
        )
        until(lambda: "connected 40/40" in progress.read_text(), 20)
        main(["publish", "--url", sidecar.publisher_url, "--rate", "200", "--duration", "8", "--json"])
        capsys.readouterr()
        until(lambda: "connected 40/40" in progress.read_text().splitlines()[-1], 20)
        found = _end(process)

    assert found["recoveries"].get("recovered", 0) >= 10
    assert [found[key] for key in ("lost", "doubled", "reordered")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["subscribe", "--url", "http://x"], "an address is like ws://127.0.0.1:8800/ws"),
        (["subscribe", "--each", "3"], "--each 3 of --count 1 subjects"),
        (["subscribe", "--storm", "lots"], "PERCENT:SECONDS, such as 5:10"),
        (["publish", "--connections", "2"], "each connection a subject"),
        (["publish", "--url", "nowhere"], "HOST:PORT of the publisher port"),
        (["publish", "--url", "127.0.0.1:1", "--duration", "1"], "the publisher cannot connect to 127.0.0.1:1"),
        (["subscribe", "--url", "ws://127.0.0.1:1/ws", "--connections", "1"], "Connection refused"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit status 2."""
    assert main(arguments) == 2
    assert says in capsys.readouterr().err
