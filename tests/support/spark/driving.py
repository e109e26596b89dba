"""Runs live_job.py as a process that can be killed, and hears what a sidecar delivers of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fastpath.client.blocking import connect
from tests.support.kafka import connector_jars
from tests.support.spark.processes import members
from tests.support.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]


class Job:
    """``with Job(master=…, …) as job:`` runs the driver until the block ends; ``kill()`` and ``start()`` in between."""

    def __init__(self, log: Path, **asked: Any) -> None:
        self._log = log
        self._asked = {"kind": "live", "trigger": "5 minutes", "jars": connector_jars()} | asked
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            sys.stderr.write(f"the job said:\n{self.said[-6000:]}\n")

    def start(self) -> Self:
        """Start it, and wait until its query is started."""
        before = self.said.count("\nstarted")
        with self._log.open("ab") as log:
            log.write(b"\n")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spark.live_job", json.dumps(self._asked)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(lambda: self.said.count("\nstarted") > before or self._ended(), 18 * PATIENCE_SECONDS)
        return self

    def kill(self) -> None:
        """The driver, its JVM and its Python workers die at once."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
            self._process = None

    def cpu_seconds(self) -> float:
        """What the driver, its JVM and its Python workers have used of the cores."""
        assert self._process is not None
        found = 0
        for pid in members(self._process.pid):
            try:
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            found += int(words[11]) + int(words[12])
        return found / os.sysconf("SC_CLK_TCK")

    @property
    def said(self) -> str:
        """What it has printed, over all its lives."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _ended(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the job ended:\n{self.said[-6000:]}")
        return False


class Ear(threading.Thread):
    """Subscribes to a pattern; ``heard`` has of each message its subject, its content and when it came, in seconds."""

    def __init__(self, url: str, pattern: str) -> None:
        super().__init__(daemon=True)
        self.heard: list[tuple[str, str, float]] = []
        self._client = connect(url).__enter__()
        self._stream = self._client.subscribe(pattern)
        self.start()

    def run(self) -> None:
        """Listen until the client is closed."""
        heard = self.heard
        for message in self._stream:
            heard.append((message.subject, str(message.content), time.time()))

    def close(self) -> None:
        """Hear nothing more."""
        self._client.__exit__(None, None, None)


def executors(workers: list[int]) -> list[int]:
    """The executors that these workers of a cluster have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            words = (path / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent in workers and b"CoarseGrainedExecutorBackend" in words:
            found.append(int(path.name))
    return sorted(found)
