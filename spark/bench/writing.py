"""The rows that the sink writes in a second: exactly once, into a receiver that discards, and row by row."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.bench.serving import Server, discarding, sidecar
from spark.bench.tables import Figure

SYMBOLS = 200
ROWS = 2_000_000
WARM_ROWS = 200_000


def frame(session: SparkSession, rows: int, fields: int) -> DataFrame:
    """Return `rows` messages of 200 subjects in two partitions, with a content of some 12 bytes and so many fields."""
    symbol = F.format_string("S%03d", F.col("id") % SYMBOLS)
    columns = [
        F.concat(F.lit("/bench/us/"), symbol).alias("subject"),
        F.concat(F.lit("1"), (F.col("id") % 100_000).cast("string"), F.lit(".25")).alias("content"),
    ]
    columns += [(F.col("id") * 7 % 99_991 + n).cast("string").alias(f"field{n}") for n in range(fields)]
    return session.range(rows, numPartitions=2).select(*columns)


@contextmanager
def cached(source: DataFrame) -> Iterator[DataFrame]:
    """Keep the rows in memory: making them is not measured."""
    source.persist()
    source.count()
    try:
        yield source
    finally:
        source.unpersist(blocking=True)


def seconds(rows: DataFrame, server: Server, **options: object) -> float:
    """Write the rows and return the time it took, in seconds."""
    chosen = {"url": server.url, "transaction": secrets.token_hex(8)} | options
    if chosen.get("delivery"):
        del chosen["transaction"]
    began = time.perf_counter()
    writer = rows.write.format("realtime").mode("append")
    writer.options(**{name: str(value) for name, value in chosen.items()}).save()
    return time.perf_counter() - began


def measure(session: SparkSession, repeat: int, rows: int = ROWS) -> list[Figure]:
    """Measure each kind of writing, in turns with the same into the receiver that discards."""
    figures = []
    for fields, target in ((4, 200_000), (0, 400_000)):
        what = f"{fields} fields" if fields else "content only"
        exactly, ours, nothing, by_row, cpu = [], [], [], [], []
        with cached(frame(session, rows, fields)) as data, sidecar() as own, discarding() as none:
            for server in (own, none):
                seconds(data.limit(WARM_ROWS), server)
            for _ in range(repeat):
                before = own.cpu_seconds()
                ours.append(seconds(data, own))
                cpu.append((own.cpu_seconds() - before) / rows * 1e6)
                nothing.append(seconds(data, none))
                by_row.append(seconds(data, own, delivery="at_least_once"))
        exactly = [rows / one for one in ours]
        figures += [
            Figure(f"sink, exactly once, {what}", "rows/s", exactly, target, more={"rows": rows}),
            Figure(
                f"the same into a receiver that discards, {what}", "rows/s", [rows / one for one in nothing],
                note="what Spark and the writer can do alone",
            ),
            Figure(
                f"ratio of the two, {what}", "×", [mine / floor for mine, floor in zip(ours, nothing, strict=True)],
                note="time into the sidecar by time into the receiver, in turns",
            ),
            Figure(f"sidecar's CPU, {what}", "s per million rows", cpu),
            Figure(f"sink, row path (at least once), {what}", "rows/s", [rows / one for one in by_row]),
            Figure(
                f"row path by exactly once, {what}", "×",
                [mine / row for mine, row in zip(ours, by_row, strict=True)], 0.5,
            ),
        ]  # fmt: skip
    return figures
