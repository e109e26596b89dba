"""Runs the demonstration's queries beside a sidecar, so that the JVM writes what it has loaded (spark/support)."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from spark.bench.serving import sidecar
from spark.jobs import live, running
from spark.session import build
from spark.support import classes

SECONDS_MAX = 300
EXIT_SECONDS_MAX = 300
BATCHES = 3
"""Batches of each query, so that its classes are there."""


def run(part: Path) -> None:
    """Have the demonstration's queries publish something of each kind, and the JVM write its classes when it ends."""
    settings = live.SETTINGS | {
        classes.OPTION: f"{live.SETTINGS[classes.OPTION]} -XX:ArchiveClassesAtExit={part} {classes.QUIET}",
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint, sidecar() as server:
        words = ["--url", server.url, "--trigger-ms", "300", "--readers-ms", "500"]
        given = running.parse("live", "", running.streaming_arguments, live.arguments, words)
        session = build("classes", **settings)
        gateway: Any = session.sparkContext._gateway
        queries = live.start(session, given, checkpoint)
        deadline = time.monotonic() + SECONDS_MAX
        while any(query.isActive and _batches(query) < BATCHES for query in queries) and time.monotonic() < deadline:
            time.sleep(0.2)
        for query in queries:
            query.stop()
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # at which the JVM ends in order
        gateway.proc.wait(EXIT_SECONDS_MAX)


def _batches(query: StreamingQuery) -> int:
    """Return how many batches are done."""
    progress = query.lastProgress
    return 0 if progress is None else progress.batchId + 1


if __name__ == "__main__":
    run(Path(sys.argv[1]))
