"""How many prices bars, movers and alerts take in a second, of 200 instruments, published exactly once."""

from __future__ import annotations

import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.bench.serving import Server, sidecar
from spark.bench.tables import Figure
from spark.jobs.desk import query
from spark.jobs.desk.board import Plan
from spark.jobs.prices import PRICE
from spark.jobs.scorer import Limits

SYMBOLS = 200
BATCH_ROWS = 50_000
BATCHES = 8
PER_MS = 50
PLANS = {
    "bars": Plan(2_000, {"1s": 1_000, "1m": 60_000}),
    "bars, movers and alerts": Plan(2_000, {"1s": 1_000, "1m": 60_000}, 60_000, 5_000, Limits()),
}


def measure(session: SparkSession, repeat: int) -> list[Figure]:
    """Measure bars of 1 s and 1 min, alone and with movers and alerts."""
    figures = []
    for what, plan in PLANS.items():
        rates = []
        for _ in range(repeat):
            with sidecar() as server:
                rates.append(_rate(session, server, plan))
        figures.append(Figure(f"{what}, {SYMBOLS} symbols", "prices/s", rates, 45_000 if what == "bars" else None))
    return figures


def _rate(session: SparkSession, server: Server, plan: Plan) -> float:
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).option("numPartitions", 2)
    ticks = source.load().select(
        F.concat(F.lit("S"), F.col("value") % SYMBOLS).alias("symbol"),
        F.lit(None).cast("string").alias("name"),
        (F.lit(100) + F.col("value") % 977 / 100).cast(PRICE).alias("price"),
        F.lit(100).cast(PRICE).alias("previous"),
        F.timestamp_millis(F.lit(1_700_000_000_000) + F.expr(f"value div {PER_MS}")).alias("time"),
        F.col("value").alias("seq"),
        F.lit(100).cast("long").alias("volume"),
        F.lit(False).alias("simulated_price"),
        F.lit(False).alias("simulated_volume"),
    )
    given = {
        kind: {"url": server.url, "job": kind} | {column: column for column in columns}
        for kind, columns in query.PUBLISHED.items()
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        started = query.start("bench", ticks, plan, given, checkpoint, {"processingTime": "0 seconds"})
        try:
            while started.isActive and (started.lastProgress is None or started.lastProgress["batchId"] < BATCHES):
                session.streams.awaitAnyTermination(1)
            if started.exception() is not None:
                raise RuntimeError(str(started.exception()))
            told = [one for one in started.recentProgress if one["numInputRows"]][2:]
        finally:
            started.stop()
    return sum(one["numInputRows"] for one in told) / sum(one["durationMs"]["triggerExecution"] for one in told) * 1000
