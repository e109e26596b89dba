"""What the demonstration's jobs cost: the time to the first price, then CPU time and memory, of all processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

from pyspark.sql import SparkSession

from fastpath.client.blocking import BlockingStream, connect
from spark.bench.serving import ROOT, TICKS, BenchError, sidecar
from spark.bench.tables import Figure
from spark.jobs.running import TOKEN_VARIABLE

PATTERNS = ("/stocks/us/*", "/bars-1s/us/*", "/bars-1m/us/*", "/movers/us/*", "/alerts/us/*")
FIRST_SECONDS_MAX = 900
STOP_SECONDS_MAX = 20
WARM_SECONDS = 60.0
"""Seconds from the first bar on, in which code is compiled."""
SECONDS = 60.0


class Run(NamedTuple):
    """One run: seconds on the clock and of CPU to the first price, then parts of a core, and bytes."""

    first_seconds: float
    first_cpu_seconds: float
    cpu: float
    resident: float
    shared_out: float


def measure(session: SparkSession | None, repeat: int) -> list[Figure]:
    """Measure the job as `make run` starts it, but beside a sidecar of its own; `session` is not used."""
    del session
    runs = [_run() for _ in range(repeat)]
    return [
        Figure("start to the first price", "s", [run.first_seconds for run in runs], 10, least=False),
        Figure("CPU time up to it", "s", [run.first_cpu_seconds for run in runs]),
        Figure("CPU afterwards", "% of a core", [run.cpu for run in runs], 25, least=False),
        Figure("memory, shared pages once", "MB", [run.shared_out for run in runs], 1000, least=False),
        Figure("memory, shared pages in each process", "MB", [run.resident for run in runs]),
    ]


def _run() -> Run:
    with sidecar() as server, connect(server.clients) as client, tempfile.TemporaryFile() as log:
        stream = client.subscribe(PATTERNS)
        began = time.monotonic()
        job = subprocess.Popen(
            [sys.executable, "-m", "spark.jobs.live", "--url", server.url],
            cwd=ROOT,
            env=os.environ | {TOKEN_VARIABLE: "", "MALLOC_ARENA_MAX": "2"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _until(stream, "/stocks/", job, log)
            first, first_cpu = time.monotonic() - began, sum(_cpu(job.pid).values())
            _until(stream, "/bars-1s/", job, log)
            time.sleep(WARM_SECONDS)
            before, since = _cpu(job.pid), time.monotonic()
            time.sleep(SECONDS)
            after, seconds = _cpu(job.pid), time.monotonic() - since
            resident, shared_out = _memory(job.pid)
        finally:
            job.send_signal(signal.SIGTERM)
            try:
                job.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
    used = sum(value - before.get(pid, 0.0) for pid, value in after.items())
    return Run(first, first_cpu, 100 * used / seconds, resident, shared_out)


def _until(stream: BlockingStream, beginning: str, job: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Wait for the first message of a kind; raises BenchError with what the job said."""
    deadline = time.monotonic() + FIRST_SECONDS_MAX
    while time.monotonic() < deadline and job.poll() is None:
        try:
            if stream.get(1).subject.startswith(beginning):
                return
        except TimeoutError:
            continue
    ended = "it still runs" if job.poll() is None else f"it ended with {job.returncode}"
    log.seek(0)
    raise BenchError(f"nothing came of {beginning}, {ended}: {log.read().decode(errors='replace').strip()}")


def _members(session: int) -> list[Path]:
    """Return the processes of a session: the job, its JVM, Spark's Python workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int((path / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found.append(path)
        except OSError:  # it ended meanwhile
            continue
    return found


def _cpu(session: int) -> dict[str, float]:
    """Return the CPU time of each process so far, in seconds."""
    found = {}
    for path in _members(session):
        try:
            words = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[path.name] = (int(words[11]) + int(words[12])) / TICKS
    return found


def _memory(session: int) -> tuple[float, float]:
    """Return two sums in megabytes: pages that several have counted in each, and divided among them."""
    resident = shared_out = 0
    for path in _members(session):
        try:
            lines = (path / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:] if line.endswith("kB")}
        resident += sizes["Rss"]
        shared_out += sizes["Pss"]
    return resident / 1000, shared_out / 1000
