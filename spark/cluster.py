"""A standalone Spark cluster on this machine, to try a job on several workers: `python -m spark.cluster --help`.

For trying: it listens on 127.0.0.1 only and asks nobody who they are, so every user of this machine may run programs
on it as the one who started it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

import pyspark

from fastpath.java import JavaNotFound
from fastpath.stop_signal import stop_on_signals
from spark.java import find_java_home

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 5.0
DAEMON_MEMORY = "128m"
"""Memory of the master's and each worker's own process; executors come on top."""

_MASTER = re.compile(r"Starting Spark master at (spark://\S+:\d+)")
_REGISTERED = re.compile(r"Successfully registered with master")


class ClusterFailed(RuntimeError):
    """A process of the cluster did not start; the text has its last lines."""


class Cluster:
    """``with Cluster(workers=2) as cluster:``; ``cluster.url`` is the master's, for `spark.master`.

    Each worker has `cores` and gives executors `memory_mb`. Raises ClusterFailed, fastpath.java.JavaNotFound.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory_mb: int = 1024) -> None:
        self.url = ""
        self._workers = workers
        self._offer = ["--cores", str(cores), "--memory", f"{memory_mb}m"]
        self._processes: list[subprocess.Popen[str]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="spark-cluster-", ignore_cleanup_errors=True)

    def __enter__(self) -> Self:
        try:
            self.url = self._start("master.Master", ["--port", "0"], _MASTER)
            for folder in self.folders:
                self._start("worker.Worker", [*self._offer, "--work-dir", str(folder), self.url], _REGISTERED)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):  # the workers first: they end their executors
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    @property
    def folders(self) -> list[Path]:
        """The folders where the workers keep what their executors print, until the cluster ends."""
        return [Path(self._folder.name) / f"worker-{number}" for number in range(self._workers)]

    @property
    def pids(self) -> list[int]:
        """The processes of the cluster: the master's, then the workers', whose children the executors are."""
        return [process.pid for process in self._processes]

    @property
    def alive(self) -> bool:
        """True while all of the cluster's processes run."""
        return all(process.poll() is None for process in self._processes)

    def _start(self, name: str, arguments: Sequence[str], ready: re.Pattern[str]) -> str:
        """Start one and wait for the line that says it is up; what the line's group holds."""
        home = Path(pyspark.__file__).parent
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        environment |= {
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
        }
        process = subprocess.Popen(
            [
                str(home / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{name}",
                *["--host", HOST, "--webui-port", "0"],
                *arguments,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # a Ctrl-C in the terminal is for us, who end them in order
        )
        self._processes.append(process)
        assert process.stderr is not None
        lines = _Lines(process.stderr, ready)
        lines.done.wait(START_SECONDS_MAX)
        if lines.found is None:
            raise ClusterFailed(f"{name} did not start:\n" + "".join(lines.kept))
        return lines.found


class _Lines(threading.Thread):
    """Reads a process' lines until the end, so that it never waits for us; ``found`` when the one looked for came."""

    def __init__(self, lines: IO[str], ready: re.Pattern[str]) -> None:
        super().__init__(daemon=True)
        self.found: str | None = None
        self.kept: list[str] = []
        self.done = threading.Event()
        self._lines, self._ready = lines, ready
        self.start()

    def run(self) -> None:
        """Look for the line, then drop what comes."""
        with self._lines as lines:
            for line in lines:
                if self.found is None:
                    self.kept = [*self.kept[-19:], line]
                    match = self._ready.search(line)
                    if match is not None:
                        self.found = match.group(match.lastindex or 0)
                        self.done.set()
        self.done.set()


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal."""
    parser = argparse.ArgumentParser(
        prog="python -m spark.cluster", formatter_class=argparse.ArgumentDefaultsHelpFormatter, description=__doc__
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many workers")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="cores of each")
    parser.add_argument("--memory-mb", type=int, default=1024, metavar="MB", help="memory of each for executors")
    options = parser.parse_args(words)
    try:
        with stop_on_signals() as stopped, Cluster(options.workers, options.cores, options.memory_mb) as cluster:
            print(cluster.url, flush=True)  # noqa: T201 - what the program is for
            while not stopped.wait(1):
                if not cluster.alive:
                    print("a process of the cluster has ended", file=sys.stderr, flush=True)  # noqa: T201
                    return 1
    except (ClusterFailed, JavaNotFound) as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
