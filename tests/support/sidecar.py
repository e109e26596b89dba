"""A real sidecar process on free ports, as a context manager."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from tests.support.certificates import Certificate
from tests.support.forked import COMMAND, Forked, start_sidecar
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
READY_SECONDS_MAX = 2 * PATIENCE_SECONDS
STOP_SECONDS_MAX = PATIENCE_SECONDS
FAULTY = [sys.executable, "-m", "tests.support.failpoints"]
WITHOUT_POSIX = "WITHOUT_POSIX"
"""Variable that has every sidecar of the tests run as on Windows (tests/support/without_posix.py)."""

LOG_CHARS_MAX = 8000
"""So much of a log is shown when a test fails."""


def tail(log: str) -> str:
    """The end of a log."""
    return log if len(log) <= LOG_CHARS_MAX else f"… {log[-LOG_CHARS_MAX:]}"


class Sidecar:
    """``with Sidecar(mode="none") as sidecar:``; each keyword is the setting ``FASTPATH_<KEYWORD>``.

    With ``faults="on"`` it is the one with failpoints: ``faults_do`` says which (tests/support/failpoints.py).

    ``client_url``, ``publisher_url``, ``control`` and ``pid`` are known once it is ready. ``start()`` after
    ``kill()`` or ``stop()`` opens the same addresses again, so that clients find it where it was.
    """

    client_url: str
    publisher_url: str
    pid: int

    running: ClassVar[set[Sidecar]] = set()
    """Those whose folders are there, with their logs."""

    def __init__(self, **settings: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fp-"))
        self.log_path = self.folder / "log"
        self.control = str(self.folder / "c.sock")
        self.ready: dict[str, Any] = {}
        self.settings = {
            "listen": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
            "control": self.control,
            "mode": "none",
            "workers": 1,
        } | settings
        self.command = FAULTY if settings.get("faults") == "on" else COMMAND
        if self.command is COMMAND and WITHOUT_POSIX in os.environ:
            self.command = [sys.executable, "-m", "tests.support.without_posix"]
            self._control_over_tls()
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self.running.add(self)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException as error:
            self.__exit__(type(error))
            raise

    def __exit__(self, error: type[BaseException] | None = None, *_: object) -> None:
        try:
            self.stop()
        finally:
            if error not in (None, GeneratorExit):  # pytest shows it with the failure
                sys.stderr.write(f"log of the sidecar {self.folder.name}:\n{tail(self.log)}\n")
            self.running.discard(self)
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> Self:
        """Start the process and wait for its ready line; AssertionError with its log when none comes."""
        if "listen" in self.settings:  # a port that is chosen by the kernel may be another's at the next start
            self.settings["listen"] = re.sub(r":0\b", lambda _: f":{free_port()}", str(self.settings["listen"]))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
        environment |= {f"FASTPATH_{name.upper()}": str(value) for name, value in self.settings.items()}
        environment["PYTHONUNBUFFERED"] = "1"
        with self.log_path.open("ab") as log:
            self.process = start_sidecar(self.command, environment, log)
        self.ready = self._wait_ready(self.process)
        self.pid = self.process.pid
        if self.ready.get("clients"):
            self.client_url = f"ws://{self.ready['clients'][0]}/ws"
        if self.ready.get("publishers"):
            self.publisher_url = self.ready["publishers"][0]
        return self

    def _control_over_tls(self) -> None:
        """Open the way in for Django that is there where unix sockets are not."""
        own, django = Certificate(self.folder, "node"), Certificate(self.folder, "django")
        tls = f"control+tls://127.0.0.1:{free_port()}?{own.options}&ca={django.cert}"
        self.control = f"{tls.removeprefix('control+').partition('?')[0]}?ca={own.cert}&{django.options}"
        self.settings |= {"control": "", "listen": f"{self.settings['listen']},{tls}"}

    def kill(self) -> None:
        """The process dies at once, as at a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """The process stops cleanly."""
        self._end(signal.SIGTERM)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It does not run: what several peers say meanwhile it then finds all at once."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    @property
    def log(self) -> str:
        """What the process wrote to stderr so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the sidecar did not stop within {STOP_SECONDS_MAX} s:\n{self.log}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def _wait_ready(self, process: subprocess.Popen[bytes] | Forked) -> dict[str, Any]:
        assert process.stdout is not None
        end = time.monotonic() + READY_SECONDS_MAX
        line = b""
        while b"\n" not in line:
            readable, _, _ = select.select([process.stdout], [], [], max(0, end - time.monotonic()))
            chunk = os.read(process.stdout.fileno(), 65536) if readable else b""
            if not chunk:
                why = "ended" if readable else f"was not ready within {READY_SECONDS_MAX} s"
                raise AssertionError(f"the sidecar {why}:\n{self.log}")
            line += chunk
        assert line.startswith(b"ready {"), line
        answer: dict[str, Any] = json.loads(line.split(b"\n")[0].removeprefix(b"ready "))
        return answer
