"""Runs ticks, bars, movers and alerts as queries of one session: `python -m spark.jobs.live --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import alerts, bars, movers, ticks
from spark.jobs.running import LIGHT, positive, run

SETTINGS = LIGHT | {
    # Twenty instruments: a second partition would double the tasks of each batch and share nothing worth sharing.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # Five queries with little to remember: a small young generation keeps the heap near what lives.
    "spark.driver.extraJavaOptions": " ".join(
        (
            LIGHT["spark.driver.extraJavaOptions"],
            "-Xmn48m",
            "-XX:ReservedCodeCacheSize=128m",
            "-XX:MinHeapFreeRatio=10",
            "-XX:MaxHeapFreeRatio=20",
        )
    ),
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "64",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.python.factory.idleWorkerMaxPoolSize": "2",
}
POLL_SECONDS = 0.2


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query that publishes prices, and when it has published some, those that read them."""
    options = argparse.Namespace(**vars(options) | {"from_driver": True})
    readers = argparse.Namespace(**vars(options) | {"trigger_ms": options.readers_ms})
    # What comes once every few seconds is not looked for more often.
    windows = argparse.Namespace(
        **vars(options) | {"trigger_ms": max(options.readers_ms, options.slide_seconds * 1000)}
    )
    started = ticks.start(session, options, checkpoint)
    # Queries that start compete for the cores: the one that the others need goes first.
    while started[0].lastProgress is None and not started[0].awaitTermination(POLL_SECONDS):
        pass
    started += bars.start(session, readers, checkpoint)
    started += alerts.start(session, readers, checkpoint)
    return started + movers.start(session, windows, checkpoint)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the four jobs."""
    ticks.arguments(parser)
    bars.arguments(parser)
    movers.own_arguments(parser)
    alerts.own_arguments(parser)
    parser.add_argument(
        "--readers-ms",
        type=positive(int),
        default=2000,
        metavar="MS",
        help="time from one micro-batch to the next of bars and alerts; --trigger-ms is that of ticks",
    )
    parser.set_defaults(trigger_ms=500, final_ms=5000)


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when a query failed."""
    return run(
        "live",
        "Publishes the prices of 20 stocks of the S&P 500 as ticks does, with their bars, movers and alerts.",
        arguments,
        start,
        words,
        settings=SETTINGS,
    )


if __name__ == "__main__":
    sys.exit(main())
