"""The 12 windows of 7 indicators over 15 months of minutes, held against a computation over all minutes directly."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from spark import buckets
from spark.bench.serving import BenchError
from spark.bench.tables import Figure

INDICATORS = 7
MOMENT = 1_763_000_000
MONTHS = 15
APART = 1e-9


def measure(session: SparkSession, repeat: int) -> list[Figure]:
    """Measure the windows over minutes in Parquet; the first run, which compiles, is told apart."""
    with tempfile.TemporaryDirectory() as folder:
        minutes = (MOMENT - buckets.firsts(MOMENT)["15mo"]) // 60
        _minutes(session, minutes, str(Path(folder, "minutes")))
        table = session.read.parquet(str(Path(folder, "minutes")))
        taken = []
        for _ in range(max(repeat, 3) + 1):
            began = time.perf_counter()
            found = buckets.windows(table, MOMENT)
            taken.append(time.perf_counter() - began)
        apart = _apart(session, found, str(Path(folder, "minutes")))
    if apart > APART:
        raise BenchError(f"the windows are {apart} apart from the direct computation")
    rows = f"{minutes * INDICATORS:,} minutes"
    return [
        Figure(
            f"12 horizons of {INDICATORS} indicators over {MONTHS} months", "s", taken[1:], 3, least=False, note=rows
        ),
        Figure("the first time, which compiles", "s", taken[:1]),
        Figure("largest relative difference to the direct computation", "", [apart], APART, least=False),
    ]


def _minutes(session: SparkSession, minutes: int, path: str) -> None:
    """Sixty samples in each minute, like a day's load with noise."""
    noise = (F.xxhash64("id") % 10_000) / 10_000
    name = F.concat(F.lit("indicator"), F.col("id") % INDICATORS)
    place = F.floor(F.col("id") / INDICATORS)
    mean = 5000 + 3000 * F.sin(place / 229) + noise * 400
    rows = session.range(minutes * INDICATORS, numPartitions=4).select(
        name.alias("name"),
        (F.lit(MOMENT) - 60 * (place + 1)).alias("start"),
        F.lit(60.0).alias("n"),
        mean.alias("mean"),
        (F.abs(noise) * 90_000).alias("m2"),
        (mean + 200).alias("maximum"),
    )
    rows.write.parquet(path)


def _apart(session: SparkSession, found: buckets.Told, path: str) -> float:
    """Return the greatest relative difference from windows computed one by one by their formula, over all their
    minutes."""
    table = session.read.parquet(path)
    worst = 0.0
    for window, first in buckets.firsts(MOMENT).items():
        within = table.where((F.col("start") >= first) & (F.col("start") < MOMENT))
        means = within.groupBy("name").agg((F.sum(_times("mean")) / F.sum("n")).alias("average"), F.max("maximum"))
        joined = within.join(means, "name")
        squares = F.sum(F.col("m2") + F.col("n") * F.pow(F.col("mean") - F.col("average"), 2)) / F.sum("n")
        for row in joined.groupBy("name", "average", "max(maximum)").agg(F.sqrt(squares).alias("deviation")).collect():
            told = found[row["name"]][window]
            pairs = [(told[name], row[name]) for name in ("average", "deviation")]
            pairs.append((told["maximum"], row["max(maximum)"]))
            worst = max(worst, *(abs(float(ours or 0) - theirs) / abs(theirs) for ours, theirs in pairs))
    return worst


def _times(name: str) -> Column:
    return F.col("n") * F.col(name)
