"""A sidecar and the job that writes into it, and how each of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.sidecar import ROOT, Sidecar

PROGRESS_SECONDS = 180.0
"""In which a batch more must be committed, a restart of Spark included."""

POLL_SECONDS = 0.05


class NoProgress(RuntimeError):
    """The job does not get on."""


class World:
    """One sidecar with a journal, and one job; ``restarts`` counts the job's starts."""

    def __init__(self, folder: Path, what: str, base_ms: int = 0) -> None:
        self.folder = folder
        self.what = what
        self.base_ms = base_ms
        self.failpoints = folder / "failpoints"
        self.failpoints.mkdir()
        self.restarts = -1
        self.sidecar = Sidecar(
            journal="interval",
            data=folder / "journal",
            cache_messages=10_000_000,
            cache_bytes=16 << 30,
            cache_seconds=86_400,
            log_level="warning",
        )
        self.failures: list[str] = []
        """Why queries ended by themselves."""
        self._job: subprocess.Popen[bytes] | None = None
        self._log = folder / "job.log"

    def __enter__(self) -> Self:
        self.sidecar.start()
        self.start_job()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_job()
        self.sidecar.stop()

    def start_job(self) -> None:
        """Start the job, where its checkpoint says."""
        self.restarts += 1
        command = [sys.executable, "-m", "tests.exactly_once.job", self.what, "--url", self.sidecar.publisher_url]
        command += ["--checkpoint", str(self.folder / "checkpoint"), "--failpoints", str(self.failpoints)]
        with self._log.open("ab") as log:
            self._job = subprocess.Popen(
                [*command, "--base-ms", str(self.base_ms)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill_job(self) -> None:
        """The driver, its JVM and all Python workers, at once."""
        job, self._job = self._job, None
        if job is None:
            return
        for number in [job.pid, *_descendants(job.pid)]:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        job.wait()

    def kill_workers(self) -> int:
        """The Python workers that run tasks; how many died. Spark starts others and tries the tasks again."""
        assert self._job is not None
        killed = 0
        for number in _descendants(self._job.pid):
            with suppress(OSError):
                command = Path(f"/proc/{number}/cmdline").read_bytes()
                parent = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
                if b"pyspark.daemon" in command and b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes():
                    os.kill(number, signal.SIGKILL)
                    killed += 1
        return killed

    def kill_sidecar(self) -> None:
        """As at a crash; it is back at the same address at once."""
        self.sidecar.kill()
        self.sidecar.start()

    def at_point(self, name: str) -> None:
        """The driver dies at a failpoint."""
        (self.failpoints / f"armed-{name}").touch()
        reached = self.failpoints / f"reached-{name}"
        self.wait(reached.exists, f"nobody came to the point {name}")
        self.kill_job()
        reached.unlink()

    def batches(self, query: str | None = None) -> int:
        """How many batches Spark has noted as committed."""
        query = query or ("rows" if self.what == "rows" else "ticks")
        commits = self.folder / "checkpoint" / query / "commits"
        numbers = [int(file.name) for file in commits.glob("*") if file.name.isdecimal()]
        return max(numbers, default=-1) + 1

    def wait(self, condition: Callable[[], bool], why: str) -> None:
        """Poll; a job that was killed or has ended is started again, as its supervisor would. Raises NoProgress."""
        end = time.monotonic() + PROGRESS_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise NoProgress(f"{why}; the job's log ends with\n{self._log.read_text()[-3000:]}")
            if self._job is None or self._job.poll() is not None:
                if self._job is not None:
                    self.failures.append(self._why())
                self.kill_job()
                self.start_job()
            time.sleep(POLL_SECONDS)

    def _why(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        told = [line for line in lines if line.startswith("query ") or "Error: " in line]
        return " / ".join(told[-3:])[:600]

    def advance(self, batches: int, query: str | None = None) -> None:
        """Wait for so many more batches."""
        wanted = self.batches(query) + batches
        self.wait(lambda: self.batches(query) >= wanted, f"no batch {wanted} of {query or self.what} was committed")


def _descendants(of: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found: list[int] = []
    waiting = [of]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found
