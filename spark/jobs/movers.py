"""Says how much each price moved over a sliding window: `python -m spark.jobs.movers --help`.

Each instrument has its own subject, so that who may not see it gets nothing of it; who reads several ranks them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import prices
from spark.jobs.bars import SEQ_BITS
from spark.jobs.running import JobError, positive, publish_batches, run

SUBJECT = "/movers/us/"


def transform(ticks: DataFrame, window_seconds: int = 60, slide_seconds: int = 5, late_seconds: int = 2) -> DataFrame:
    """Make moves of prices (`spark.jobs.prices`): one row for each window and `symbol` with a price in it, with `name`
    (null where no price had one), `last` and `change`.

    The change is that from the first to the last price within the window, in percent to two decimals, 0 for what did
    not move. In a stream a window comes once, `late_seconds` after its end.
    """
    ticks = ticks.withWatermark("time", f"{late_seconds} seconds")
    ticks = ticks.select("*", F.window("time", f"{window_seconds} seconds", f"{slide_seconds} seconds").alias("window"))
    place = F.unix_millis("time") - F.unix_millis("window.start")
    ticks = ticks.withColumn("order", F.shiftleft(place, SEQ_BITS) + F.pmod("seq", F.lit(1 << SEQ_BITS)))
    moves = ticks.groupBy("window", "symbol").agg(
        F.min_by("price", "order").alias("first"),
        F.max_by("price", "order").alias("last"),
        F.max("name").alias("name"),
    )
    change = F.round((F.col("last") - F.col("first")) * 100 / F.col("first"), 2).cast("decimal(12,2)")
    return moves.select("window", "symbol", "name", "last", change.alias("change"))


def messages(moves: DataFrame) -> DataFrame:
    """Make messages of moves; the `version` keeps an older window from following a newer one."""
    end = F.unix_millis("window.end")
    fields = {
        "symbol": F.col("symbol"),
        "name": F.col("name"),
        "price": F.col("last"),
        "window_start": F.unix_millis("window.start"),
        "window_end": end,
    }
    pairs = [part for name, value in fields.items() for part in (F.lit(name), value.cast("string"))]
    return moves.select(
        F.concat(F.lit(SUBJECT), "symbol").alias("subject"),
        F.col("change").cast("string").alias("content"),
        F.create_map(*pairs).alias("fields"),
        F.col("window.end").alias("as_of"),
        end.alias("version"),
    )


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query; raises JobError."""
    check(options)
    ticks = prices.read(session, options)
    moves = transform(ticks, options.window_seconds, options.slide_seconds, options.late_seconds)
    return [publish_batches(messages(moves), options, "movers", checkpoint, "append", order=("version",))]


def check(options: argparse.Namespace) -> None:
    """Raise JobError where the window is no multiple of its slide."""
    if options.window_seconds % options.slide_seconds:
        raise JobError("--window-seconds is no multiple of --slide-seconds")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments, with those of reading prices."""
    prices.arguments(parser)
    own_arguments(parser)


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    parser.add_argument("--window-seconds", type=positive(int), default=60, metavar="S", help="length of the window")
    parser.add_argument("--slide-seconds", type=positive(int), default=5, metavar="S", help="from one to the next")


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return run("movers", f"Publishes to {SUBJECT}SYMBOL how much each price has moved.", arguments, start, words)


if __name__ == "__main__":
    sys.exit(main())
