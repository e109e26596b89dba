"""Publishes prices, and of one read of them bars, movers and alerts: `python -m spark.jobs.live --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import alerts, bars, movers, prices, ticks
from spark.jobs.desk import query
from spark.jobs.desk.board import Plan
from spark.jobs.running import LIGHT, positive, run, sink_of, trigger
from spark.support import classes

SETTINGS = LIGHT | {
    # Twenty instruments: a second partition would double the tasks of each batch and share nothing worth sharing.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # Two queries with little to remember: a small young generation keeps the heap near what lives.
    "spark.driver.extraJavaOptions": " ".join(
        (
            LIGHT["spark.driver.extraJavaOptions"],
            "-Xmn48m",
            "-XX:ReservedCodeCacheSize=128m",
            "-XX:MinHeapFreeRatio=10",
            "-XX:MaxHeapFreeRatio=20",
        )
    ),
    # Else nothing collects what has grown old until the heap is full: it costs one part in a hundred of a core.
    "spark.cleaner.periodicGC.interval": "20s",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.python.factory.idleWorkerMaxPoolSize": "2",
}
POLL_SECONDS = 0.2


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query that publishes prices, and when it has published some, the one that reads them."""
    movers.check(options)
    plan = Plan(
        {name: bars.INTERVALS[name] for name in options.intervals},
        options.window_seconds * 1000,
        options.slide_seconds * 1000,
        options.late_seconds * 1000,
        alerts.limits_of(options),
    )
    options = argparse.Namespace(**vars(options) | {"from_driver": True})
    readers = argparse.Namespace(**vars(options) | {"trigger_ms": options.readers_ms})
    started = ticks.start(session, options, checkpoint)
    # Queries that start compete for the cores: the one that the other needs goes first.
    while started[0].lastProgress is None and not started[0].awaitTermination(POLL_SECONDS):
        pass
    given = {job: sink_of(columns, options, job) for job, columns in query.PUBLISHED.items()}
    return [*started, query.start(prices.read(session, options), plan, given, checkpoint, trigger(readers))]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the four jobs, but for those that say when each writes."""
    ticks.arguments(parser)
    prices.arguments(parser)
    bars.own_arguments(parser)
    movers.own_arguments(parser)
    alerts.own_arguments(parser)
    parser.add_argument(
        "--readers-ms",
        type=positive(int),
        default=2000,
        metavar="MS",
        help="time from one micro-batch to the next of bars, movers and alerts; --trigger-ms is that of ticks",
    )
    parser.set_defaults(trigger_ms=1000)


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when a query failed."""
    return run(
        "live",
        "Publishes the prices of 20 stocks of the S&P 500 as ticks does, with their bars, movers and alerts.",
        arguments,
        start,
        words,
        settings=SETTINGS | {classes.OPTION: f"{SETTINGS[classes.OPTION]} {classes.options()}".strip()},
    )


if __name__ == "__main__":
    sys.exit(main())
