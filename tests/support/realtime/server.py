"""A real web server process for tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from tests.support.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]
STOP_SECONDS_MAX = max(60.0, PATIENCE_SECONDS)
"""Six of its children after each other may take ten seconds each where the machine is short of CPU."""

DRAIN_SECONDS = 10
"""What a program has said is read by then; one that it has left behind may hold its output open for longer."""


class Program:
    """``with Program(argv, ready=r"…") as program:`` runs a command until the block ends."""

    running: ClassVar[set[Program]] = set()
    """Those of this process, whose output a failing test shows."""

    def __init__(
        self,
        argv: list[str],
        environment: dict[str, str],
        ready: str,
        ready_seconds: float = 2 * PATIENCE_SECONDS,
        *,
        folder: Path = ROOT,
        base: Mapping[str, str] = os.environ,
    ) -> None:
        self._argv = argv
        self._folder = folder
        self._environment = dict(base) | {"PYTHONUNBUFFERED": "1"} | environment
        self._ready = re.compile(ready)
        self._ready_seconds = ready_seconds
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._argv,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.running.add(self)
        try:
            until(lambda: self._ready.search(self.output) or self.process.poll() is not None, self._ready_seconds)
            found = self._ready.search(self.output)
            assert found is not None, self.output
            self.found = found
        except BaseException:
            self.process.kill()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.running.discard(self)
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not stop within {STOP_SECONDS_MAX} s:\n{self.output}") from None
        finally:
            self._reader.join(DRAIN_SECONDS)

    def wait(self, seconds: float = 3 * PATIENCE_SECONDS) -> int:
        """The status with which it ends; then all that it has said is in ``output``, which a thread reads."""
        status = self.process.wait(seconds)
        self._reader.join(DRAIN_SECONDS)
        return status

    @property
    def output(self) -> str:
        """Everything so far, both streams."""
        return "".join(self._lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self._lines.extend(lines)


class WebServer(Program):
    """The project under Daphne on a free port, with a sidecar's addresses; ``module`` daphne is Daphne as it comes."""

    def __init__(self, listen: str, module: str = "realtime.web", **environment: str) -> None:
        argv = [sys.executable, "-m", module, "-b", "127.0.0.1", "-p", "0", "realtime.asgi:application"]
        super().__init__(argv, {"FASTPATH_LISTEN": listen} | environment, r"Listening on TCP address [\d.]+:(\d+)")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.found[1])

    @property
    def url(self) -> str:
        """The address of the relay."""
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def memory_bytes(self) -> int:
        """What it has resident."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
