"""Publishes prices, and bars, movers and alerts of them, in one process: `python -m spark.jobs.live --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import ticks
from spark.jobs.desk import job as desk
from spark.jobs.running import LIGHT, positive, run
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
NAME = "desk"
"""Name of the query that makes bars, movers and alerts."""


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query that publishes prices, and when it has published some, the one that reads them."""
    desk.plan_of(options)  # what is wrong is said before anything is published
    options = argparse.Namespace(**vars(options) | {"from_driver": True})
    readers = argparse.Namespace(**vars(options) | {"trigger_ms": options.readers_ms})
    started = ticks.start(session, options, checkpoint)
    # Queries that start compete for the cores: the one that the other needs goes first.
    while started[0].lastProgress is None and not started[0].awaitTermination(POLL_SECONDS):
        pass
    return [*started, *desk.start(NAME)(session, readers, checkpoint)]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ticks, and of all kinds."""
    ticks.arguments(parser)
    desk.arguments(desk.of_bars, desk.of_movers, desk.of_alerts)(parser)
    parser.add_argument(
        "--readers-ms",
        type=positive(int),
        default=2000,
        metavar="MS",
        help="time from one micro-batch to the next of bars, movers and alerts; --trigger-ms is that of prices",
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
