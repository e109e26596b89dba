"""Starts sidecars out of a process that has imported their modules, which is most of what a start takes.

It is forked before anything has run: what comes of it is what ``python -m fastpath`` is once it has its modules, with
an environment and streams of its own. Tests that are slow have fresh ones, as they may measure; so has whoever gives
another command, and what starts a sidecar without `Sidecar`.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:  # which a sidecar does not have in its memory
    import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "fastpath"]
MODULES = ("fastpath.__main__", "fastpath.engine.journal.engine", "fastpath.engine.redis.engine", "uvloop")
"""What a sidecar imports, at once or late."""

REQUEST_BYTES_MAX = 128 << 10


class Forked:
    """As much of ``subprocess.Popen`` as is used of a sidecar."""

    def __init__(self, parent: _Parent, environment: dict[str, str], stderr: int) -> None:
        self.args = COMMAND
        self.returncode: int | None = None
        self._told, told = os.pipe()
        read, write = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(read, "rb")
        try:
            parent.ask(environment, [write, stderr, told])
        finally:
            os.close(write)
            os.close(told)
        self._words = b""
        while b"\n" not in self._words:
            self._words += self._read()
        self.pid = int(self._words)

    def __del__(self) -> None:
        os.close(self._told)

    def poll(self) -> int | None:
        """Its status, once it has ended."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        status = self._status(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Nothing, once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = int(self._read())
        return self.returncode

    def _read(self) -> bytes:
        data = os.read(self._told, 100)
        assert data, "the process that forks has ended"
        return data


class _Parent:
    """The process that forks, from when it is first asked."""

    def __init__(self) -> None:
        self.fresh = True
        """None is to be forked at present."""
        self._lock = threading.Lock()
        self._asks: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, environment: dict[str, str], descriptors: list[int]) -> None:
        """Have a sidecar forked, with these as its output and standard error, and where to tell how it ended."""
        data = json.dumps(environment).encode()
        assert len(data) <= REQUEST_BYTES_MAX
        with self._lock:
            if self._asks is None:
                self._asks, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with other:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", __name__, str(other.fileno())],
                        cwd=ROOT,
                        env=os.environ | {"PYTHONUNBUFFERED": "1"},
                        stdin=subprocess.DEVNULL,
                        pass_fds=[other.fileno()],
                    )
            socket.send_fds(self._asks, [data], descriptors)

    def close(self) -> None:
        """It ends when nobody can ask it any more."""
        if self._asks is not None and self._process is not None:
            self._asks.close()
            self._process.wait()


_parent = _Parent()


def start_sidecar(command: list[str], environment: dict[str, str], stderr: IO[bytes]) -> Any:
    """A process that runs the command in the checkout, its output a pipe: forked where it may be, else started."""
    # Coverage begins where Python starts.
    if command == COMMAND and not _parent.fresh and not any(name.startswith("COVERAGE_") for name in environment):
        return Forked(_parent, environment, stderr.fileno())
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Those of slow tests are fresh. What was registered after pytest's own, as this, comes before its set-up."""
    _parent.fresh = item.get_closest_marker("slow") is not None


def pytest_unconfigure() -> None:
    """No test follows."""
    _parent.close()


def serve(asked: socket.socket) -> Callable[[], object]:
    """Fork a process for each request until nobody can ask any more; returns what is to be done, in each of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the tests
    for name in MODULES:
        importlib.import_module(name)
    children: dict[int, tuple[int, int]] = {}
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != asked.fileno():
                poll.unregister(ready)
                pid, told = children.pop(ready)
                os.write(told, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(ready)
                os.close(told)
                continue
            data, descriptors, _, _ = socket.recv_fds(asked, REQUEST_BYTES_MAX, 3)
            if not data:
                return lambda: None
            output, error, told = descriptors
            pid = os.fork()
            if not pid:
                asked.detach()
                return become(json.loads(data), output, error)
            os.write(told, b"%d\n" % pid)
            os.close(output)
            os.close(error)
            child = os.pidfd_open(pid)
            children[child] = pid, told
            poll.register(child, select.POLLIN)


def become(environment: dict[str, str], output: int, error: int) -> Callable[[], object]:
    """Make this process what a new one would be; returns its main function."""
    os.dup2(output, 1)
    os.dup2(error, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    main = importlib.import_module("fastpath.__main__")
    sys.argv = [str(main.__file__)]
    return lambda: sys.exit(main.main())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))()
