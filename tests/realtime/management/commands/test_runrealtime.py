"""runrealtime with everything that it starts: one command up, kills survived, nothing left."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from fastpath.client.control.client import Control
from realtime.process.ports import leave_taken
from tests.support.processes import descendants, running, send
from tests.support.realtime.everything import Everything, environment, folder
from tests.support.realtime.server import ROOT
from tests.support.recording.samples import message, write
from tests.support.waiting import PATIENCE_SECONDS, until

__all__ = ["folder"]


@pytest.fixture
def everything(folder: Path) -> Iterator[Everything]:
    """All of it, without the demonstration."""
    with Everything(folder) as program:
        yield program


def test_up_in_one_session_and_down_without_a_trace(everything: Everything) -> None:
    """The web server answers, the rights have arrived, and SIGTERM ends it all."""
    until(lambda: everything.status("/snapshot?subject=/a/b") == 403, 30)  # denied, and no longer "not ready"
    assert everything.status("/static/admin/css/base.css") == 200
    host, _, port = everything.latest(r"MQTT +(\S+)").partition(":")
    socket.create_connection((host, int(port)), 5).close()
    pids = descendants(everything.process.pid)
    assert {os.getsid(pid) for pid in pids} == {os.getsid(everything.process.pid)}
    assert len(pids) == 4, "the web server, and the sidecar with its two workers: agents and collector are threads"
    everything.process.terminate()
    assert everything.wait() == 0
    assert not running(pids)
    assert "Traceback" not in everything.output


@pytest.mark.slow
def test_a_killed_sidecar_is_back_where_it_was_with_its_rights(everything: Everything) -> None:
    """The web server goes on meanwhile, and what was acknowledged is still there."""
    web = everything.pid("realtime.web")
    path, row = everything.latest(r"control +(\S+)"), ["/kept/one", "1", None, {"id": 1}]
    with Control(path) as control:
        first_answer = control.publish([row], publisher="test")
    for _ in range(2):
        first = until(lambda: everything.pid("fastpath"))
        os.kill(first, signal.SIGKILL)
        until(lambda gone=first: everything.pid("fastpath") not in (None, gone), 30)
        until(lambda: everything.status("/snapshot?subject=/a/b") == 403, 30)
        until(lambda: _connects(everything.client_url), 30)
    assert everything.pid("realtime.web") == web
    with Control(path) as control:  # the same publication again: it has been stored
        assert control.publish([row], publisher="test")["results"] == [[first_answer["epoch"], 1]]


def _connects(url: str) -> bool:
    """Whether a client is let in; a worker of the sidecar that was killed may still be ending, with what it took."""
    try:
        with connect(url) as client:
            client.send('{"op":"connect","id":1}')
            return bool(json.loads(client.recv(timeout=PATIENCE_SECONDS))["op"] == "connected")
    except (OSError, WebSocketException):
        return False


@pytest.mark.slow
def test_a_hangup_restarts_the_web_server_and_no_socket_of_the_sidecar_drops(everything: Everything) -> None:
    """So that Django is deployed anew while data flows."""
    sidecar, web = everything.pid("fastpath"), everything.pid("realtime.web")
    with connect(everything.client_url) as client:
        client.send('{"op":"connect","id":1}')
        assert json.loads(client.recv(timeout=PATIENCE_SECONDS))["op"] == "connected"
        everything.process.send_signal(signal.SIGHUP)
        until(lambda: everything.pid("realtime.web") not in (None, web), 30)
        until(lambda: everything.status("/favicon.ico") == 200, 30)
        client.send('{"op":"ping","id":2}')
        assert json.loads(client.recv(timeout=PATIENCE_SECONDS))["op"] == "pong"
    assert everything.pid("fastpath") == sidecar


@pytest.mark.slow
def test_its_end_sends_clients_to_the_other_nodes(folder: Path) -> None:
    """FASTPATH_* reaches the sidecar, and nobody kills it before its clients have gone."""
    with (
        Everything(folder, FASTPATH_SERVERS="ws://b.example.com/ws 50") as program,
        connect(program.client_url) as client,
    ):
        client.send('{"op":"connect","id":1}')
        assert json.loads(client.recv(timeout=PATIENCE_SECONDS))["op"] == "connected"
        program.process.terminate()
        notice = json.loads(client.recv(timeout=PATIENCE_SECONDS))
        assert (notice["code"], notice["servers"]) == ("drain", [["ws://b.example.com/ws", 50]])
        with pytest.raises(ConnectionClosed, match="4000"):
            client.recv(timeout=PATIENCE_SECONDS)
        assert program.wait() == 0


@pytest.mark.slow
def test_ctrl_c_ends_it_without_a_traceback(folder: Path) -> None:
    """The terminal sends SIGINT to the whole group at once."""
    with Everything(folder) as program:
        pids = descendants(program.process.pid)
        send(signal.SIGINT, [program.process.pid, *pids])
        assert program.wait() == 0
        assert not running(pids)
        assert program.output.rstrip().endswith("stopped")
        assert "Traceback" not in program.output


def refused(folder: Path, *options: str) -> str:
    """What a run that must not start says."""
    done = subprocess.run(
        [sys.executable, "manage.py", "runrealtime", *options],
        cwd=ROOT,
        capture_output=True,
        env=environment(folder),
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [line] = done.stderr.strip().splitlines()
    return line


def test_a_database_that_is_not_up_to_date_is_said_in_one_line(tmp_path: Path) -> None:
    assert "manage.py migrate" in refused(tmp_path)


@pytest.mark.django_db
def test_ports_that_are_taken_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started, and whose setting it is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port} of 127.0.0.1 is in use"):
            call_command("runrealtime", port=port)
        monkeypatch.setenv("FASTPATH_LISTEN", f"clients://127.0.0.1:{port}")
        with pytest.raises(CommandError, match=f"port {port} of 127.0.0.1 is in use") as told:
            call_command("runrealtime", port=0)
        assert "FASTPATH_LISTEN" in str(told.value)


@pytest.mark.slow
def test_the_port_of_mqtt_that_somebody_else_has_is_left_away() -> None:
    """With addresses that nobody named a machine's own broker keeps its port; another copy runs beside this one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        clients, things = f"clients://127.0.0.1:{port}", f"mqtt://127.0.0.1:{port}"
        listen, left = leave_taken(f"{clients},{things}", "mqtt")
        assert listen == clients
        assert [str(why) for why in left] == [f"port {port} of 127.0.0.1 is in use by another program"]
    assert leave_taken(f"{clients},{things}", "mqtt") == (f"{clients},{things}", [])


def test_a_recording_that_cannot_be_shown_is_said(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(CommandError, match="No such file"):
        call_command("runrealtime", demo=True, recording=tmp_path / "none")
    with pytest.raises(CommandError, match="give both"):
        call_command("runrealtime", recording=tmp_path / "none")


def test_a_sidecar_that_refuses_its_settings_is_quoted(folder: Path) -> None:
    """FASTPATH_* reaches it, and so does what it says."""
    done = subprocess.run(
        [sys.executable, "manage.py", "runrealtime", "--port", "0"],
        cwd=ROOT,
        text=True,
        timeout=60,
        env=environment(folder) | {"FASTPATH_NONSENSE": "1"},
        capture_output=True,
    )
    assert done.returncode == 1
    assert "FASTPATH_NONSENSE" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_two_at_once_are_refused(everything: Everything, folder: Path) -> None:
    """The second would take the first one's control socket away."""
    assert "already answers at" in refused(folder, "--port", "0")


def collected(folder: Path) -> tuple[str, int]:
    """Who collects the statistics, and up to which second (-1: none yet)."""
    if not (folder / "db-statistics.sqlite3").exists():
        return "", -1
    with closing(sqlite3.connect(folder / "db-statistics.sqlite3", timeout=20)) as database:
        row = database.execute("SELECT holder, through FROM realtime_statisticsstate").fetchone()
    return row or ("", -1)


@pytest.mark.slow
def test_the_statistics_are_collected_also_after_a_kill(folder: Path) -> None:
    """By the process that supervises: the next one goes on at once, and lets go at its end; or there are none."""
    with Everything(folder) as program:
        until(lambda: f" {program.process.pid} " in collected(folder)[0] and collected(folder)[1] > 0, 20)
        assert program.status("/api/stats/") == 401
        program.process.kill()
    through = collected(folder)[1]
    with Everything(folder) as program:
        until(lambda: f" {program.process.pid} " in collected(folder)[0] and collected(folder)[1] > through, 20)
        program.process.terminate()
        assert program.wait() == 0
    stopped = collected(folder)
    assert stopped[0] == ""
    with Everything(folder, FASTPATH_STATISTICS="off") as program:
        until(lambda: program.status("/snapshot?subject=/a/b") == 403, 30)
        assert collected(folder) == stopped


@pytest.mark.slow
def test_the_outbox_is_sent_where_the_settings_ask_for_one(folder: Path) -> None:
    with Everything(folder, REALTIME_OUTBOX="default") as program:
        sender = until(lambda: program.pid("realtime_outbox"))

        def holder() -> str:
            with closing(sqlite3.connect(folder / "db.sqlite3", timeout=20)) as database:
                row = database.execute("SELECT holder FROM realtime_outboxstate").fetchone()
            return row[0] if row else ""

        until(lambda: f" {sender} " in holder())
        program.process.terminate()
        assert program.wait() == 0
        assert holder() == ""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_demonstration_publishes_through_spark_and_ends(tmp_path: Path) -> None:
    """From an empty database to prices that a user may read; then no JVM and no worker is left."""
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment(tmp_path), check=True)
    with Everything(tmp_path, "--demo") as program:
        token = subprocess.run(
            [sys.executable, "manage.py", "realtime_token", "alice"],
            cwd=ROOT,
            text=True,
            env=environment(tmp_path),
            capture_output=True,
            check=True,
        ).stdout.strip()
        until(lambda: program.status(f"/snapshot?subject=/stocks/us/AAPL&token={token}") == 200, 180)
        pids = descendants(program.process.pid)
        assert len(pids) >= 4
        program.process.terminate()
        assert program.wait() == 0
        until(lambda: not running(pids))
        assert token not in program.output
        assert "Traceback" not in program.output


@pytest.mark.slow
def test_the_demonstration_replays_a_recording_instead(tmp_path: Path) -> None:
    """Again and again, with the right of the demonstration's feed; without a JVM."""
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment(tmp_path), check=True)
    prices = [message(ms, "/stocks/us/AAPL", str(ms)) for ms in (0, 200)]
    recording = write(tmp_path / "prices.jsonl", prices)
    with Everything(tmp_path, "--demo", "--recording", str(recording)) as program:
        assert re.search(r"processes .*, replay \d+$", program.output, re.MULTILINE)
        with Control(program.latest(r"control +(\S+)")) as control:

            def seq() -> int:
                return int((control.snapshot("/stocks/us/AAPL", admin)["message"] or {"seq": 0})["seq"])

            admin = subprocess.run(
                [sys.executable, "manage.py", "realtime_token", "admin"],
                cwd=ROOT,
                text=True,
                env=environment(tmp_path),
                capture_output=True,
                check=True,
            ).stdout.strip()
            until(lambda: seq() > 3, 20)  # in its second pass
        pids = descendants(program.process.pid)
        program.process.terminate()
        assert program.wait() == 0
        until(lambda: not running(pids))
        assert "Traceback" not in program.output
