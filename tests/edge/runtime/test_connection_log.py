"""The sidecar's log: one line for each connection and refusal, none for a message, and nobody waits for it."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import resource
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.edge.telemetry.health import disk_trouble
from fastpath.logs.formats import ALIKE_PER_SECOND
from tests.support.edge.wire import CLOSE, Socket, WireClient, WirePublisher, request
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

SILENT = "info,clients=warning"


class Logged:
    """Two workers that write JSON to one file, with levels from a configuration file that a test may replace."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log" / "fastpath.log"
        self.config = folder / "fastpath.toml"
        self.use("info")
        self.sidecar = Sidecar(
            config=self.config, workers=2, log_file=self.path, log_format="json", handshake_seconds=3
        )

    def use(self, levels: str) -> None:
        """The configuration file names these levels."""
        self.config.write_text(f'log_level = "{levels}"\n')

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What has been written to the file of that name."""
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]  # whole ones

    def find(self, **values: Any) -> list[dict[str, Any]]:
        """The lines with these values."""
        return [line for line in self.lines if values.items() <= line.items()]

    def one(self, **values: Any) -> dict[str, Any]:
        """The one line with these values, as soon as it is there."""
        [line] = until(lambda: self.find(**values))
        return line


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """For all tests of this module."""
    logged = Logged(tmp_path_factory.mktemp("logs"))
    with logged.sidecar:
        yield logged


def test_a_client_has_one_line_at_its_end_and_messages_have_none(logged: Logged) -> None:
    with WireClient(logged.sidecar) as client, WirePublisher(logged.sidecar) as publisher:
        client.ask("connect", "connected", client="one/1.0")
        client.subscribe("/log/one", "/log/two")
        for number in range(50):
            publisher.publish(["/log/one", f"secret {number}"])
        client.texts(50)
        client.frame(CLOSE, b"\x0f\xa0enough\x1b[31m")
    line = logged.one(event="client closed", program="one/1.0")
    assert line.pop("seconds") > 0
    name = line.pop("connection")
    assert name.startswith(f"{line['worker']}.{line['pid']}.")
    assert line.pop("time").endswith("Z")
    del line["pid"], line["worker"]
    assert line == {
        "level": "info",
        "part": "clients",
        "event": "client closed",
        "address": "127.0.0.1",
        "user": "",
        "transport": "websocket",
        "code": 4000,
        "name": "by_client",
        "reason": "enough\x1b[31m",
        "subscriptions": 2,
        "program": "one/1.0",
    }
    assert sum(other.get("connection") == name for other in logged.lines) == 1
    assert "secret" not in logged.path.read_text()


def test_how_each_connection_ended(logged: Logged) -> None:
    sidecar = logged.sidecar
    with WireClient(sidecar) as client:
        client.ask("connect", "connected", client="wrong/1")
        client.send(b"\x83\x80abcd")
        client.closed()
    wrong = logged.one(event="client closed", program="wrong/1")
    assert (wrong["code"], wrong["name"]) == (1002, "protocol_error")
    assert not wrong["reason"].startswith("protocol_error"), "it is said once"
    with WireClient(sidecar) as client:
        client.ask("connect", "connected", client="gone/1")
    gone = logged.one(event="client closed", program="gone/1")
    assert (gone["code"], gone["name"], gone["reason"]) == (1006, "lost", "the connection was lost")
    with WirePublisher(sidecar, publisher="mine") as publisher:
        publisher.packet("nonsense")
        publisher.closed()
    closed = logged.one(event="publisher closed", publisher="mine")
    assert (closed["part"], closed["code"], closed["name"]) == ("publishers", 4500, "bad_message")
    assert closed["connection"].split(".")[2].startswith("p")
    with WirePublisher(sidecar, publisher="cut") as publisher:
        publisher.packet("batch", 1, [["/log/one", "x"]])
        publisher.next()
        publisher.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    cut = logged.one(event="publisher closed", publisher="cut")
    assert (cut["name"], cut["messages"], cut["unacknowledged"]) == ("lost", 1, 0)


def test_a_publisher_that_is_a_task_is_told_to_who_looks_closely(logged: Logged) -> None:
    def task(name: str) -> None:
        with WirePublisher(logged.sidecar, publisher=name) as publisher:
            publisher.publish(["/log/task", "x"])

    task("quiet")
    with Control(logged.sidecar.control) as control:
        logged.use("info,publishers=debug")
        assert control.reload() == {"errors": []}
        task("close")
        line = logged.one(event="publisher closed", publisher="close")
        assert (line["level"], line["name"]) == ("debug", "by_client")
        logged.use("info")
        assert control.reload() == {"errors": []}
    assert not logged.find(publisher="quiet")


def test_a_request_that_is_refused_has_one_as_well(logged: Logged) -> None:
    with Socket(logged.sidecar.client_url, first=request("/nowhere")) as lost:
        lost.rest()
    assert logged.one(event="request refused", status=404)["reason"].startswith("This is the client port of Fastpath")


@pytest.mark.slow
def test_a_request_that_does_not_come_in_time_has_one(logged: Logged) -> None:
    with Socket(logged.sidecar.client_url, first=request()[:30]) as half:
        half.rest()
    assert logged.one(event="request refused", status=408)["address"] == "127.0.0.1"


def test_levels_change_while_it_runs(logged: Logged) -> None:
    def said(program: str) -> None:
        with WireClient(logged.sidecar) as client:
            client.ask("connect", "connected", client=program)

    with Control(logged.sidecar.control) as control:
        logged.use(SILENT)
        assert control.reload() == {"errors": []}
        said("quiet")
        logged.use("info")
        os.kill(logged.sidecar.pid, signal.SIGHUP)
        until(lambda: said("heard") or logged.find(program="heard"))
        assert not logged.find(program="quiet")
        logged.use("info,clientele=warning")
        [error] = control.reload()["errors"]
        assert error.endswith("'clientele' is no part of the log; did you mean clients?")
    logged.use("info")


def test_a_file_that_was_renamed_is_made_anew(logged: Logged) -> None:
    """As logrotate does, which then says so with SIGHUP: all let go of the old one, also those with nothing to say."""
    processes = [logged.sidecar.pid, *logged.sidecar.ready["workers"]]
    logged.use("error")
    with Control(logged.sidecar.control) as control:
        control.reload()
    old = logged.path.rename(logged.path.with_name("old"))
    assert all(str(old) in opened(pid) for pid in processes)
    os.kill(logged.sidecar.pid, signal.SIGHUP)
    until(lambda: all(str(logged.path) in opened(pid) and str(old) not in opened(pid) for pid in processes))
    assert all(line.startswith('{"time"') for line in old.read_text().splitlines())
    logged.use("info")


def opened(pid: int) -> set[str]:
    """The files that a process has open."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


@pytest.mark.slow
def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Sidecar(log_file=path) as sidecar, Control(sidecar.control) as control:
        until(lambda: path.exists() and "mode none" in path.read_text())
        _, hard = resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
        for _ in range(2):
            with WireClient(sidecar) as client:
                assert client.subscribe("/log/full")[0]["sid"]
        until(lambda: control.stats()["log_dropped"] == 2)
        until(lambda: "the log cannot be written: File too large" in sidecar.log_path.read_text())
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: _ends(sidecar) or "lines of the log are lost: File too large" in path.read_text())


def _ends(sidecar: Sidecar) -> None:
    with WireClient(sidecar):
        pass


@pytest.mark.slow
def test_nobody_waits_for_who_reads_the_log() -> None:
    """The standard error is a pipe that nobody reads, with room for a page."""
    sidecar = Sidecar()
    os.mkfifo(sidecar.log_path)
    reading = os.open(sidecar.log_path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
    try:
        with sidecar, WireClient(sidecar) as client:
            for _ in range(ALIKE_PER_SECOND):
                with Socket(sidecar.client_url, first=request("/nowhere")) as lost:
                    lost.rest()
            client.subscribe("/log/pipe")
            for _ in range(20):
                client.ask("ping", "pong")
            assert len(os.read(reading, 1 << 16)) <= 4096, "it was full"
            with suppress(BlockingIOError):
                while until(lambda: os.read(reading, 1 << 16)):
                    pass
            sidecar.stop()
    finally:
        os.close(reading)
        sidecar.log_path.unlink(missing_ok=True)


@pytest.mark.slow
def test_a_storm_of_ends_is_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Sidecar(log_file=path, log_format="json") as sidecar:
        with ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(WireClient(sidecar))
        until(lambda: "more such lines within a second: client closed" in path.read_text())
        lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]  # whole ones
        assert sum(json.loads(line)["event"] == "client closed" for line in lines) < 1000


def test_a_crash_tells_where() -> None:
    with Sidecar() as sidecar:
        os.kill(sidecar.pid, signal.SIGSEGV)
        until(lambda: "Fatal Python error: Segmentation fault" in sidecar.log)


# Health


def test_health_over_the_control_socket() -> None:
    with Sidecar(mode="none") as sidecar, Control(sidecar.control) as control:
        assert control.call("health") == {"ready": True, "reasons": {}}
        control.drain()
        assert control.call("health") == {"ready": False, "reasons": {"draining": "clients are sent elsewhere"}}


def test_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    assert disk_trouble(str(tmp_path)) == ""
    assert disk_trouble(str(tmp_path), 1 << 60).startswith("the journal's disk is full: ")
    assert disk_trouble(str(tmp_path / "none")) == "the journal's folder cannot be read: No such file or directory"
    assert disk_trouble("/proc") != "", "nothing can be written there"


def ready(sidecar: Sidecar) -> dict[str, Any]:
    """What /readyz says."""
    connection = http.client.HTTPConnection(sidecar.ready["metrics"][0], timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()


@pytest.mark.slow
def test_not_ready_while_the_journal_s_folder_is_gone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    listen = "clients://127.0.0.1:0,metrics://127.0.0.1:0"
    with Sidecar(listen=listen, journal="interval", data=data) as sidecar:
        until(lambda: ready(sidecar) == {"status": "ok"})
        data.rename(tmp_path / "away")
        reason = "the journal's folder cannot be read: No such file or directory"
        until(lambda: ready(sidecar).get("reasons") == {"journal": reason})
        (tmp_path / "away").rename(data)
        until(lambda: ready(sidecar) == {"status": "ok"})
