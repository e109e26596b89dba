"""Programs whose server does not answer at first: told to stop, or when their time is over, they say why and end."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.recording.programs import Program
from tests.support.recording.samples import message, write
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow


def _closed() -> str:
    return f"127.0.0.1:{free_port()}"


def test_the_time_of_a_recording_is_over_before_a_server_answers(tmp_path: Path) -> None:
    """Each attempt that fails like the one before is not told again, and none says that anything was lost."""
    path, url = tmp_path / "a.jsonl", f"ws://{_closed()}/ws"
    with Program(tmp_path, "record", "/a/*", "--for", "1.2s", "--output", str(path), "--url", url) as program:
        assert program.process.wait(PATIENCE_SECONDS) == 2
        away, why = program.errors.splitlines()
        assert away.startswith("no connection: ") and away.endswith("; it is tried again")
        assert why == (f"fastpath.recording: its time was over before {url} had answered; nothing is recorded")
    assert not path.exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_recording_is_stopped_before_a_server_answers(tmp_path: Path, how: signal.Signals) -> None:
    """The server takes the connection, and says nothing."""
    path = tmp_path / "a.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"ws://127.0.0.1:{server.getsockname()[1]}/ws"
        with Program(tmp_path, "record", "/a/*", "--output", str(path), "--url", url) as program, server.accept()[0]:
            _stopped(program, how, f"told to stop before {url} had answered; nothing is recorded")
    assert not path.exists()


@pytest.mark.parametrize("away", ["silent", "gone"])
@pytest.mark.parametrize("scheme", ["", "ws"])
def test_a_replay_is_stopped_before_a_server_answers(tmp_path: Path, scheme: str, away: str) -> None:
    """Whether it waits for an answer, or for its next attempt."""
    path = write(tmp_path / "a.jsonl", [message(0)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        url = f"ws://{address}/ws" if scheme else address
        with Program(tmp_path, "replay", str(path), "--url", url) as program:
            for _ in range(2 if away == "gone" else 0):
                server.accept()[0].close()
            with server.accept()[0] as connection:
                if away == "gone":
                    server.close()
                    connection.close()
                _stopped(program, signal.SIGTERM, f"told to stop before {url} had answered")
            assert program.process.stdout is not None
            assert program.process.stdout.read() == b""


def _stopped(program: Program, how: signal.Signals, why: str) -> None:
    assert program.end(how) == 2
    lines = [line for line in program.errors.splitlines() if not line.startswith("no connection: ")]
    assert lines == [f"fastpath.recording: {why}"]
