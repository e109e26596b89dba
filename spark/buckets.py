"""Mergeable buckets of statistics: coarser ones out of finer ones, and the 12 windows over 15 months.

A bucket is a row `name`, `start` (s since 1970), `n`, `mean`, `m2` (sum of squared differences from the mean) and
`maximum`: what realtime keeps (docs/operate/figures.md), so that several become one without a loss.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime
from math import fsum, sqrt

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "name string, start bigint, n double, mean double, m2 double, maximum double"
SUMS = ("n", "mean", "m2", "maximum")
MINUTE, HOUR, DAY = 60, 3600, 86400

MINUTES = {"1min": 1, "5min": 5, "15min": 15}
HOURS = {"1h": 60, "5h": 300, "15h": 900}
DAYS = {"1d": 24, "5d": 120, "15d": 360}
MONTHS = {"1mo": 1, "5mo": 5, "15mo": 15}
"""The windows in the order in which they are told: each holds all before it."""

Told = dict[str, dict[str, dict[str, float | None]]]


def read(session: SparkSession, folder: str) -> DataFrame:
    """Read the buckets of the files that `manage.py realtime_statistics export` wrote to `folder`: with their `size`
    (s).

    A line that is broken off is left out.
    """
    lines = (
        session.read.schema("size int, start bigint, values map<string, array<double>>")
        .option("pathGlobFilter", "statistics-*.jsonl*")
        .json(folder)
        .where(F.col("size").isNotNull() & F.col("start").isNotNull())
    )
    parts = lines.select("size", "start", F.explode("values").alias("name", "sums")).where(F.size("sums") == len(SUMS))
    return parts.select(
        "size", "name", "start", *(F.get("sums", F.lit(at)).alias(name) for at, name in enumerate(SUMS))
    )


def merge(buckets: DataFrame, start: Column) -> DataFrame:
    """Merge the buckets where `start` (s since 1970) is the same: exactly what all their samples together are."""
    parts = F.sort_array(F.collect_list(F.struct(*SUMS)))  # in one order, so that it is the same bits each time
    together = buckets.groupBy("name", start.alias("start")).agg(parts.alias("parts"))
    together = together.select("name", "start", "parts", _sum(lambda part: part["n"]).alias("n"))
    mean = _sum(lambda part: part["n"] * part["mean"]) / F.col("n")
    together = together.select("*", mean.alias("mean"))
    away = _sum(lambda part: part["m2"] + part["n"] * F.pow(part["mean"] - F.col("mean"), 2))
    return together.select(
        "name", "start", "n", "mean", away.alias("m2"), F.array_max("parts.maximum").alias("maximum")
    )


def whole(size: int) -> Column:
    """Return the beginning of the minute, hour or day (UTC) of a row's `start`; `size` is in seconds."""
    return F.col("start") - F.pmod("start", F.lit(size))


def month() -> Column:
    """Return the beginning of the calendar month of a row's `start`, in the session's time zone, which is UTC."""
    return F.unix_timestamp(F.date_trunc("month", F.timestamp_seconds("start")))


def most(*several: DataFrame) -> DataFrame:
    """Return of a bucket that is in several frames the one with the most samples: whoever has seen less was away."""
    every = several[0].select("name", "start", *SUMS)
    for one in several[1:]:
        every = every.unionByName(one.select("name", "start", *SUMS))
    best = every.groupBy("name", "start").agg(F.max(F.struct(*SUMS)).alias("best"))
    return best.select("name", "start", "best.*")


def firsts(moment: int) -> dict[str, int]:
    """Return where each window that ends at `moment` begins (both s since 1970), as docs/operate/figures.md says it."""
    found = {name: moment - MINUTE * count for name, count in MINUTES.items()}
    found |= {name: moment // MINUTE * MINUTE - MINUTE * count for name, count in HOURS.items()}
    found |= {name: moment // HOUR * HOUR - HOUR * count for name, count in DAYS.items()}
    return found | {name: _months_before(moment, count) for name, count in MONTHS.items()}


def windows(buckets: DataFrame, moment: int) -> Told:
    """Return maximum, average and standard deviation of each name over each window, as `/api/stats/` answers them.

    `buckets` are minutes; one that begins in a window belongs to it. The windows lie in one another, so each bucket is
    added up once, in the smallest window that it is in; a first pass finds the means and a second the squares about
    them, so that no difference of large sums is taken.
    """
    begins = firsts(moment)
    segment = F.when(F.col("start") >= begins["1min"], 0)
    for place, name in enumerate(list(begins)[1:], 1):
        segment = segment.when(F.col("start") >= begins[name], place)
    within = buckets.where((F.col("start") >= begins["15mo"]) & (F.col("start") < moment))
    within = within.withColumn("segment", segment)
    total, sums = F.sum("n").alias("n"), F.sum(F.col("n") * F.col("mean")).alias("sums")
    found = within.groupBy("name", "segment").agg(total, sums, F.max("maximum").alias("maximum")).toArrow()
    means = pc.divide(found["sums"], found["n"])
    centres = pa.table({"name": found["name"], "segment": found["segment"], "centre": means})
    centred = within.join(F.broadcast(buckets.sparkSession.createDataFrame(centres)), ["name", "segment"])
    square = F.col("m2") + F.col("n") * F.pow(F.col("mean") - F.col("centre"), 2)
    squares = {
        (row["name"], row["segment"]): row["m2"]
        for row in centred.groupBy("name", "segment").agg(F.sum(square).alias("m2")).toArrow().to_pylist()
    }
    parts: dict[str, list[tuple[int, float, float, float, float]]] = {}
    for row, mean in zip(found.to_pylist(), means.to_pylist(), strict=True):
        square = squares[row["name"], row["segment"]]
        parts.setdefault(row["name"], []).append((row["segment"], row["n"], mean, square, row["maximum"]))
    return {
        name: {window: _told([sums for at, *sums in of if at <= place]) for place, window in enumerate(begins)}
        for name, of in sorted(parts.items())
    }


def _sum(of):  # type: ignore[no-untyped-def]
    return F.aggregate("parts", F.lit(0.0), lambda total, part: total + of(part))


def _told(parts: list[list[float]]) -> dict[str, float | None]:
    if not parts:
        return {"maximum": None, "average": None, "deviation": None}
    count = fsum(part[0] for part in parts)
    mean = fsum(part[0] * part[1] for part in parts) / count
    squares = fsum(part[2] + part[0] * (part[1] - mean) ** 2 for part in parts)
    return {"maximum": max(part[3] for part in parts), "average": mean, "deviation": sqrt(max(squares, 0) / count)}


def _months_before(moment: int, months: int) -> int:
    """Return the beginning of the same day so many months before, or of the last of that month if it is shorter."""
    today = datetime.fromtimestamp(moment, UTC).date()
    year, place = divmod(today.year * 12 + today.month - 1 - months, 12)
    last = calendar.monthrange(year, place + 1)[1]
    return (date(year, place + 1, min(today.day, last)) - date(1970, 1, 1)).days * DAY
