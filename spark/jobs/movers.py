"""Ranks what moved most over a sliding window, gainers and losers: `python -m spark.jobs.movers --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import prices
from spark.jobs.bars import SEQ_BITS
from spark.jobs.running import JobError, positive, publish_batches, run

SUBJECT = "/movers/us/"


def transform(
    ticks: DataFrame, window_seconds: int = 60, slide_seconds: int = 5, late_seconds: int = 2, count: int = 10
) -> DataFrame:
    """Prices (`spark.jobs.prices`) to two rows for each window: `side` is gainers or losers, `movers` the ranking.

    The change is that from the first to the last price within the window, in percent to two decimals; what did not
    move is in neither. Equal changes are ranked by symbol. In a stream a window comes once, `late_seconds` after its
    end.
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
    moves = moves.withColumn("change", change)
    windows = moves.groupBy("window").agg(F.collect_list(F.struct("change", "symbol", "name", "last")).alias("all"))
    sides = F.array(
        F.struct(F.lit("gainers").alias("side"), _best(count, falling=False).alias("movers")),
        F.struct(F.lit("losers").alias("side"), _best(count, falling=True).alias("movers")),
    )
    return windows.select("window", F.explode(sides).alias("of")).select("window", "of.side", "of.movers")


def _best(count: int, falling: bool) -> Column:
    """The first `count` of the column `all` that rose, or fell, most."""
    sign = 1 if falling else -1
    moved = F.filter("all", lambda move: move["change"] * sign < 0)
    ranked = F.array_sort(
        F.transform(
            moved,
            lambda move: F.struct(
                (move["change"] * sign).alias("rank"),
                move["symbol"].alias("symbol"),
                move["name"].alias("name"),
                move["last"],
            ),
        )
    )
    return F.transform(
        F.slice(ranked, 1, count),
        lambda move: F.struct(
            move["symbol"].alias("symbol"),
            move["name"].alias("name"),
            move["last"].alias("price"),
            (move["rank"] * sign).alias("change_pct"),
        ),
    )


def messages(movers: DataFrame) -> DataFrame:
    """Rankings to messages; the `version` keeps an older window from following a newer one."""
    end = F.unix_millis("window.end")
    return movers.select(
        F.concat(F.lit(SUBJECT), "side").alias("subject"),
        F.to_json("movers").alias("content"),
        F.create_map(
            F.lit("window_start"),
            F.unix_millis("window.start").cast("string"),
            F.lit("window_end"),
            end.cast("string"),
        ).alias("fields"),
        F.col("window.end").alias("as_of"),
        end.alias("version"),
    )


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query; raises JobError."""
    if options.window_seconds % options.slide_seconds:
        raise JobError("--window-seconds is no multiple of --slide-seconds")
    ranked = transform(
        prices.read(session, options),
        options.window_seconds,
        options.slide_seconds,
        options.late_seconds,
        options.count,
    )
    rows = messages(ranked)
    return [publish_batches(rows, options, "movers", checkpoint, "append", order=("version",))]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The job's own arguments, with those of reading prices."""
    prices.arguments(parser)
    own_arguments(parser)


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """The job's own arguments."""
    parser.add_argument("--window-seconds", type=positive(int), default=60, metavar="S", help="length of the window")
    parser.add_argument("--slide-seconds", type=positive(int), default=5, metavar="S", help="from one to the next")
    parser.add_argument("--count", type=positive(int), default=10, metavar="N", help="places in each ranking")


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return run("movers", f"Publishes rankings to {SUBJECT}gainers and {SUBJECT}losers.", arguments, start, words)


if __name__ == "__main__":
    sys.exit(main())
