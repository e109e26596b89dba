"""Rolls audit and statistics logs up to hourly, daily and monthly tables: `python -m spark.jobs.rollup --help`.

What is in a table stays there when the logs that it was made of are gone, and a second run over the same logs changes
nothing: of a bucket that comes twice the one that saw more counts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark import buckets, tables
from spark.jobs import audit_files
from spark.jobs.running import JobError, run_batch

EVENTS = "start bigint, kind string, event string, user string, n bigint, bytes bigint, messages bigint"
EVENT_KEYS = ("kind", "event", "user")
SIZES = {"minutes": buckets.MINUTE, "hours": buckets.HOUR, "days": buckets.DAY}
ORDER = ("name", "start")

BACKFILL_SECONDS = {"minutes": 901 * buckets.MINUTE, "hours": 361 * buckets.HOUR, "days": 461 * buckets.DAY}
"""Seconds that the minutes, hours and days reach back which realtime keeps; no window asks for what is older."""


def transform(events: DataFrame, size: int = buckets.HOUR) -> DataFrame:
    """Audit events (spark/jobs/audit_files.py) to how many there were: `start`, `kind`, `event`, `user`, `n`, and the
    `bytes` and stored `messages` that they tell of; `size` in seconds."""
    start = F.col("time").cast("long")
    return (
        events.withColumn("start", start - F.pmod(start, F.lit(size)))
        .groupBy("start", "kind", "event", F.coalesce("user", F.lit("")).alias("user"))
        .agg(F.count("*").alias("n"), _total("bytes"), _total("messages"))
    )


def statistics(session: SparkSession, folder: str, out: Path) -> list[str]:
    """Add exported buckets to the tables `minutes`, `hours`, `days`, `months` of `out`; the months that they touch.

    A coarser bucket is made of the finer ones, unless it was exported itself and has seen more.
    """
    exported = buckets.read(session, folder).persist()
    touched = tables.months_of(exported)
    finer: DataFrame | None = None
    for name, size in SIZES.items():
        known = tables.read(session, out / name, buckets.SCHEMA, touched)
        several = [known, exported.where(F.col("size") == size)]
        if finer is not None:
            several.append(buckets.merge(finer, buckets.whole(size)))
        tables.write(out / name, buckets.most(*several), ORDER)
        finer = tables.read(session, out / name, buckets.SCHEMA, touched)
    assert finer is not None
    tables.write(out / "months", buckets.merge(finer, buckets.month()), ORDER)
    exported.unpersist()
    return touched


def audit(session: SparkSession, folders: Sequence[str], out: Path) -> list[str]:
    """Add the events of audit files to the tables `events_hours`, `events_days`, `events_months` of `out`.

    An hour of which some files have been deleted since has the larger count, that of when they were there.
    """
    found = transform(audit_files.read(session, *folders))
    touched = tables.months_of(found)
    known = tables.read(session, out / "events_hours", EVENTS, touched)
    best = F.max(F.struct("n", "bytes", "messages")).alias("best")
    hours = known.unionByName(found).groupBy("start", *EVENT_KEYS).agg(best)
    tables.write(out / "events_hours", hours.select("start", *EVENT_KEYS, "best.*"), ("start", *EVENT_KEYS))
    for name, start in (("events_days", buckets.whole(buckets.DAY)), ("events_months", buckets.month())):
        rows = tables.read(session, out / "events_hours", EVENTS, touched).groupBy(start.alias("start"), *EVENT_KEYS)
        tables.write(out / name, rows.agg(_sum("n"), _sum("bytes"), _sum("messages")), ("start", *EVENT_KEYS))
    return touched


def backfill(session: SparkSession, out: Path, file: Path, moment: int) -> int:
    """Write what the 12 windows of realtime reach back to, for `manage.py realtime_statistics import`; the buckets.

    `moment` is in seconds since 1970. The file is there as a whole or not at all.
    """
    count = 0
    part = file.with_name(f".{file.name}")
    with gzip.open(part, "wt", encoding="ascii") as lines:
        for name, size in SIZES.items():
            for line in _lines(session, out / name, size, moment - BACKFILL_SECONDS[name]):
                lines.write(line)
                count += 1
    os.replace(part, file)
    return count


def _lines(session: SparkSession, table: Path, size: int, since: int) -> Iterator[str]:
    sums = F.struct("name", F.array(*buckets.SUMS).alias("sums"))
    rows = tables.read(session, table, buckets.SCHEMA).where(F.col("start") >= since)
    values = F.map_from_entries(F.sort_array(F.collect_list(sums))).alias("values")
    for row in rows.groupBy("start").agg(values).orderBy("start").toLocalIterator():
        yield json.dumps({"size": size, "start": row["start"], "values": row["values"]}) + "\n"


def _total(column: str):  # type: ignore[no-untyped-def]
    return F.coalesce(F.sum(column), F.lit(0)).alias(column)


def _sum(column: str):  # type: ignore[no-untyped-def]
    return F.sum(column).alias(column)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is rolled up, and where to."""
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the tables")
    parser.add_argument("--audit", nargs="+", default=[], metavar="DIR", help="folders of the sidecars' audit")
    parser.add_argument("--statistics", metavar="DIR", help="folder of manage.py realtime_statistics export")
    parser.add_argument("--backfill", type=Path, metavar="FILE", help="what realtime can import: FILE.jsonl.gz")
    parser.add_argument("--windows", action="store_true", help="print the 12 windows as they are now, as /api/stats/")


def work(session: SparkSession, options: argparse.Namespace) -> None:
    """Do what the command line asks for; raises JobError."""
    if not (options.audit or options.statistics or options.backfill or options.windows):
        raise JobError("nothing to do: give --audit, --statistics, --backfill or --windows")
    if options.statistics:
        if not any(Path(options.statistics).glob("statistics-*.jsonl*")):
            raise JobError(f"{options.statistics} has no files of manage.py realtime_statistics export")
        print(f"rollup: statistics of {_listed(statistics(session, options.statistics, options.out))}", flush=True)
    if options.audit:
        print(f"rollup: events of {_listed(audit(session, options.audit, options.out))}", flush=True)
    if (options.backfill or options.windows) and not any((options.out / "minutes").glob("month=*")):
        raise JobError(f"{options.out} has no statistics: roll up some, with --statistics, first")
    moment = int(time.time())
    if options.backfill:
        print(f"rollup: {backfill(session, options.out, options.backfill, moment)} buckets are in {options.backfill}")
    if options.windows:
        print(json.dumps(buckets.windows(tables.read(session, options.out / "minutes", buckets.SCHEMA), moment)))


def _listed(months: list[str]) -> str:
    return ", ".join(months) or "no month"


def main(words: Sequence[str] | None = None) -> int:
    """Run once; 0, or 1 with a line that says why not."""
    return run_batch("rollup", str(__doc__).partition(":")[0] + ".", arguments, work, words)


if __name__ == "__main__":
    sys.exit(main())
