"""The rows that the source reads in a second: a batch, and a streaming query that reads what is there."""

from __future__ import annotations

import tempfile
import time

from pyspark.sql import SparkSession

from spark.bench.serving import Server, sidecar
from spark.bench.tables import Figure
from spark.bench.writing import frame, seconds

ROWS = 1_000_000
BATCH_ROWS = 200_000
CACHE = {"cache_messages": 1_000_000, "cache_bytes": 8 << 30, "cache_seconds": 86_400}


def measure(session: SparkSession, repeat: int, rows: int = ROWS) -> list[Figure]:
    """Measure reading all that the cache holds into Spark's sink that drops everything."""
    figures = []
    for fields, targets in ((0, (800_000, 350_000)), (4, (None, None))):
        what = f"{fields} fields" if fields else "content only"
        batch, stream, cpu = [], [], []
        with sidecar(**CACHE) as server:
            seconds(frame(session, rows, fields), server)
            _batch(session, server)
            for _ in range(repeat):
                before = server.cpu_seconds()
                batch.append(rows / _batch(session, server))
                cpu.append((server.cpu_seconds() - before) / rows * 1e6)
                stream.append(_stream(session, server, rows))
        figures += [
            Figure(f"batch read, {what}", "rows/s", batch, targets[0]),
            Figure(f"streaming read, {what}", "rows/s", stream, targets[1], note=f"{BATCH_ROWS:,} rows a batch"),
            Figure(f"sidecar's CPU of a batch read, {what}", "s per million rows", cpu),
        ]
    return figures


def _batch(session: SparkSession, server: Server) -> float:
    reader = session.read.format("realtime").options(url=server.url, subjects="/bench/us/*")
    began = time.perf_counter()
    reader.load().write.format("noop").mode("append").save()
    return time.perf_counter() - began


def _stream(session: SparkSession, server: Server, rows: int) -> float:
    """Return rows a second over all batches but the first, which starts the workers."""
    reader = session.readStream.format("realtime").options(url=server.url, subjects="/bench/us/*", start="earliest")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = reader.option("max_rows", BATCH_ROWS).load().writeStream.format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        told = [one for one in query.recentProgress if one["numInputRows"]]
    assert sum(one["numInputRows"] for one in told) == rows
    later = told[1:]
    return (
        sum(one["numInputRows"] for one in later) / sum(one["durationMs"]["triggerExecution"] for one in later) * 1000
    )
