"""A worker that hangs is noticed, named, killed and replaced; the node says meanwhile that something is wrong."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from fastpath.server.systemd import tell
from fastpath.server.watchdog import Watchdog
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.server.watched import logged, readiness
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,metrics://127.0.0.1:0"


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_a_worker_that_is_stopped_is_replaced(number: int) -> None:
    with Sidecar(listen=LISTEN, workers=2, hang_seconds=2, log_format="json") as sidecar:
        hung = sidecar.ready["workers"][number]
        os.kill(hung, signal.SIGSTOP)
        [hangs] = until(lambda: logged(sidecar, "worker hangs"))
        assert (hangs["worker"], hangs["child"], hangs["child_pid"]) == ("parent", number, hung)
        assert hangs["state"] == "T (stopped)"
        assert hangs["silent_seconds"] >= 2
        until(lambda: logged(sidecar, "worker killed"))
        until(lambda: re.search(rf"worker {number}, pid {hung}, ended by SIGKILL; restarting it", sidecar.log))
        until(lambda: sidecar.log.count(f"worker {number} started") == 2)
        until(lambda: serves(sidecar))
        until(lambda: not readiness(sidecar))


def serves(sidecar: Sidecar) -> bool:
    """Whether what a publisher publishes comes to a client."""
    try:
        with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
            client.subscribe("/watchdog/one")
            publisher.publish(["/watchdog/one", "x"])
            return bool(client.texts(1) == ["x"])
    except OSError:
        return False


@pytest.mark.slow
def test_readiness_names_a_worker_that_is_silent_or_gone() -> None:
    """With the figures switched off as well; and one that goes on in time is left alone."""
    with Sidecar(listen=LISTEN, workers=2, hang_seconds=60, statistics="off") as sidecar:
        assert readiness(sidecar) == {}
        hung = sidecar.ready["workers"][1]
        os.kill(hung, signal.SIGSTOP)
        try:
            reasons = until(lambda: readiness(sidecar))
            assert re.fullmatch(r"worker 1 is silent for [56] s", reasons["workers"])
            until(lambda: "not ready workers=" in sidecar.log)
        finally:
            os.kill(hung, signal.SIGCONT)
        late = until(lambda: readiness(sidecar).get("loop"))
        assert re.fullmatch(r"worker 1 stood still for \d+\.\d s", late)
        until(lambda: readiness(sidecar) == {})
        until(lambda: re.search(r"INFO worker 0 fastpath.health ready$", sidecar.log, re.M))
        os.kill(sidecar.pid, signal.SIGSTOP)  # its parent, which would restart it
        try:
            os.kill(hung, signal.SIGKILL)
            until(lambda: readiness(sidecar) == {"workers": "worker 1 is gone"})
        finally:
            os.kill(sidecar.pid, signal.SIGCONT)
        until(lambda: readiness(sidecar) == {})


@pytest.mark.slow
def test_a_loop_that_was_held_up_is_told() -> None:
    with Sidecar(listen=LISTEN) as sidecar:
        assert readiness(sidecar) == {}, "the pulse beats"
        os.kill(sidecar.pid, signal.SIGSTOP)
        subprocess.run(["sleep", "2.2"], check=True)  # as long as it is to stand still
        os.kill(sidecar.pid, signal.SIGCONT)
        late = until(lambda: readiness(sidecar).get("loop"))
        assert re.fullmatch(r"worker 0 stood still for [1-9]\.\d s", late)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_workers_that_stand_still_together_are_left_alone(count: int) -> None:
    """It is the machine: none is killed, nobody loses a connection, and nothing is lost."""
    with ExitStack() as stack:
        sidecar = stack.enter_context(Sidecar(listen=LISTEN, workers=count, hang_seconds=4, log_format="json"))
        publisher = stack.enter_context(WirePublisher(sidecar))
        clients = [stack.enter_context(WireClient(sidecar)) for _ in range(8)]
        for client in clients:
            client.subscribe("/watchdog/one")
        workers = sidecar.ready["workers"]
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: len(logged(sidecar, "worker silent as others are")) == count)
            subprocess.run(["sleep", "3"], check=True)  # as long as they are to stand still after that
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        until(lambda: len(logged(sidecar, "worker goes on")) == count)
        publisher.publish(["/watchdog/one", "x"])
        for client in clients:
            assert client.texts(1) == ["x"], "it is still connected"
        assert logged(sidecar, "worker killed") == logged(sidecar, "worker hangs") == []
        assert "restarting" not in sidecar.log


@pytest.mark.slow
def test_one_that_gets_no_cpu_is_told_of_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """It has a second's work to do before its next beat, and what others leave of one core."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    core = min(os.sched_getaffinity(0))
    program = (
        "import os, sys, time\n"
        "from fastpath.server.watchdog import Heart\n"
        "heart = Heart(int(sys.argv[1]))\n"
        "heart.beat()\n"
        "sys.stdin.read(1)\n"
        "while time.process_time() < float(sys.argv[2]): pass\n"
        "heart.beat()\n"
        "sys.stdin.read(1)\n"
    )
    burn = f"import os\nos.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    begin = [sys.executable, "-c"]
    options = {"cwd": ROOT, "pass_fds": [writing], "stdin": subprocess.PIPE}
    child = subprocess.Popen([*begin, program, str(writing), "1.2"], **options)
    burners = [subprocess.Popen([*begin, burn], stdout=subprocess.PIPE) for _ in range(4)]
    os.close(writing)
    assert child.stdin is not None
    try:
        until(lambda: _read(reading))
        for burner in burners:
            assert burner.stdout is not None
            burner.stdout.read(1)
        os.sched_setaffinity(child.pid, [core])
        os.sched_setscheduler(child.pid, os.SCHED_IDLE, os.sched_param(0))
        watchdog = Watchdog(4)
        watchdog.begin(3, child.pid)

        def look(words: str) -> bool:
            watchdog.look(lambda: _hand_over(reading, watchdog, 3))
            return words in caplog.text

        with caplog.at_level("INFO", "fastpath.workers"):
            child.stdin.write(b"x")
            child.stdin.flush()
            until(lambda: look("worker starved"))
            told = caplog.records[-1].__dict__["values"]
            assert told["waited_seconds"] > 2 * told["ran_seconds"]
            begun = time.monotonic()
            until(lambda: look("worker killed") or time.monotonic() > begun + 5, 10)
            for burner in burners:
                burner.kill()
            until(lambda: look("worker goes on"), 60)  # beside the machine's other work, which still comes first
            assert "worker hangs" not in caplog.text
            assert "worker killed" not in caplog.text
    finally:
        for process in (child, *burners):
            process.kill()
            process.communicate()
        os.close(reading)


@pytest.mark.slow
def test_where_it_hangs_and_what_goes_on_again(caplog: pytest.LogCaptureFixture) -> None:
    """The stack is told also by a process whose Python code never comes to an end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    program = (
        "import sys\n"
        "from fastpath.server.watchdog import Heart\n"
        "def busy_for_ever():\n"
        "    while True: pass\n"
        "heart = Heart(int(sys.argv[1]))\n"
        "heart.beat()\n"
        "sys.stdin.read(1)\n"
        "heart.beat()\n"
        "busy_for_ever()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(writing)], cwd=ROOT, pass_fds=[writing], stdin=subprocess.PIPE
    )
    os.close(writing)
    assert child.stdin is not None
    try:
        until(lambda: _read(reading))
        watchdog = Watchdog(0.1)
        watchdog.begin(3, child.pid)

        def look(words: str) -> bool:
            watchdog.look(lambda: _hand_over(reading, watchdog, 3))
            return words in caplog.text

        with caplog.at_level("INFO", "fastpath.workers"):
            until(lambda: look("worker hangs"))
            child.stdin.write(b"x")
            child.stdin.flush()
            until(lambda: look("worker goes on"))
            assert "worker killed" not in caplog.text
            until(lambda: look("worker killed"))
        assert child.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        assert "busy_for_ever" in caplog.records[-1].__dict__["values"]["traceback"]
        watchdog.look(lambda: None)
        assert caplog.text.count("worker killed") == 1
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        os.close(reading)


def _hand_over(reading: int, watchdog: Watchdog, number: int) -> None:
    data = _read(reading)
    if data:
        watchdog.hear(number, data)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""


def test_a_parent_that_was_suspended_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("fastpath.server.watchdog.time", clock)
    with subprocess.Popen(["sleep", "100"]) as child:  # a signal would end it
        try:
            # Until it sleeps it may wait for a processor, which is nobody's fault.
            until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
            watchdog = Watchdog(10)
            watchdog.begin(1, child.pid)
            for seconds in [0.25] * 36 + [3600.0] + [0.25] * 2:
                clock.moment += seconds
                watchdog.look(lambda: None)
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.05)
            for _ in range(4):
                clock.moment += 0.25
                watchdog.look(lambda: None)
            assert child.wait(PATIENCE_SECONDS) == -signal.SIGUSR1, "it is asked where it stands"
        finally:
            child.kill()


def test_who_debugs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("fastpath.server.watchdog.time", clock)
    watchdog = Watchdog(0)
    watchdog.begin(1, os.getpid())
    for _ in range(100):
        clock.moment += 0.25
        watchdog.look(lambda: None)  # a signal would end this process


class Clock:
    """Time as the test makes it."""

    moment = 0.0

    def monotonic(self) -> float:
        """In seconds."""
        return self.moment


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_systemd_is_told(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        notify.settimeout(PATIENCE_SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        with Sidecar(workers=workers):
            assert notify.recv(100) == b"READY=1"
            assert notify.recv(100) == b"WATCHDOG=1"
        while notify.recv(100) != b"STOPPING=1":
            pass
        assert set(heard(notify)) <= {b"WATCHDOG=1"}, "it has ended, and what it has said is here"
        monkeypatch.setenv("WATCHDOG_PID", "1")  # it asks another process
        tell("WATCHDOG=1")
        tell("READY=1")
        assert notify.recv(100) == b"READY=1"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_systemd_hears_of_it_while_clients_are_sent_elsewhere(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain may take longer than its ``WatchdogSec``."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, ExitStack() as stack:
        notify.bind(str(path))
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        drain = {"servers": "ws://127.0.0.1:9/ws", "drain_per_second": 1, "drain_seconds": 60}
        sidecar = stack.enter_context(Sidecar(workers=workers, **drain))
        for _ in range(20):  # who is left at the second signal goes at once
            stack.enter_context(WireClient(sidecar)).ask("connect", "connected")
        heard(notify)  # ten wait in a socket, and what comes after them is lost
        os.kill(sidecar.pid, signal.SIGTERM)
        notify.settimeout(3 * PATIENCE_SECONDS)
        while notify.recv(100) != b"STOPPING=1":
            pass
        assert notify.recv(100) == b"WATCHDOG=1"
        assert notify.recv(100) == b"WATCHDOG=1"


def heard(notify: socket.socket) -> list[bytes]:
    """What has been said by now."""
    notify.setblocking(False)
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(notify.recv(100))
    return found


def test_without_systemd_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "@fastpath-test-nobody")
    tell("READY=1")
