"""How many prices the job bars takes in a second, of 200 instruments, published exactly once into a sidecar."""

from __future__ import annotations

import argparse
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.bench.serving import Server, sidecar
from spark.bench.tables import Figure
from spark.jobs import bars
from spark.jobs.prices import PRICE
from spark.jobs.running import publish_batches

SYMBOLS = 200
BATCH_ROWS = 50_000
BATCHES = 8
PER_MS = 50


def measure(session: SparkSession, repeat: int) -> list[Figure]:
    """Measure bars of 1 s and 1 min that move (update mode), and final ones (append)."""
    figures = []
    for mode, what in (("update", "that move (update mode)"), ("append", "final (append)")):
        rates = []
        for _ in range(repeat):
            with sidecar() as server:
                rates.append(_rate(session, server, mode))
        figures.append(Figure(f"bars {what}, {SYMBOLS} symbols", "rows/s", rates, 45_000))
    return figures


def _rate(session: SparkSession, server: Server, mode: str) -> float:
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).option("numPartitions", 2)
    ticks = source.load().select(
        F.concat(F.lit("S"), F.col("value") % SYMBOLS).alias("symbol"),
        (F.lit(100) + F.col("value") % 977 / 100).cast(PRICE).alias("price"),
        F.timestamp_millis(F.lit(1_700_000_000_000) + F.expr(f"value div {PER_MS}")).alias("time"),
        F.col("value").alias("seq"),
        F.lit(100).cast("long").alias("volume"),
        F.lit(False).alias("simulated_price"),
        F.lit(False).alias("simulated_volume"),
    )
    messages = bars.messages(bars.transform(ticks, ("1s", "1m")), final=mode == "append")
    options = argparse.Namespace(url=server.url, retry_seconds=60, trigger_ms=0, once=False)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        query = publish_batches(messages, options, f"bench_{mode}", checkpoint, mode, order=("start",))
        try:
            while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < BATCHES):
                session.streams.awaitAnyTermination(1)
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            told = [one for one in query.recentProgress if one["numInputRows"]][2:]
        finally:
            query.stop()
    return sum(one["numInputRows"] for one in told) / sum(one["durationMs"]["triggerExecution"] for one in told) * 1000
