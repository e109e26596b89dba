"""Makes bars of the prices, open, high, low, close, VWAP and volume: `python -m spark.jobs.bars --help`.

The bar that still moves is published at each change, as a message that is not cached; the final one once, when the
watermark has passed its end, as a message that is cached and does not become the snapshot. So the snapshot of
`/bars-1m/us/SYMBOL` is the bar of this minute, and its history are the bars before it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import prices
from spark.jobs.running import positive, publish_batches, run

INTERVALS = {"1s": 1_000, "1m": 60_000, "1d": 86_400_000}
"""Milliseconds of each; they begin at full seconds, minutes and days UTC."""
VWAP = f"decimal(18,{prices.DECIMALS + 2})"
SEQ_BITS = 36
"""A millisecond within a day has 27 bits: both together are a positive long."""
WATERMARK = "spark.watermarkDelayMs"
"""Marks a column as one of event time, as Spark marks its own windows: by it state is dropped and rows are late."""


def transform(ticks: DataFrame, intervals: Sequence[str] = tuple(INTERVALS), late_seconds: int = 2) -> DataFrame:
    """Make bars of prices (`spark.jobs.prices`): one row per `symbol`, `interval` and `start`, all intervals in one
    pass.

    `open` and `close` are the first and last price by time and then sequence number, whatever order the rows come in,
    so that a stream and a batch give the same. `vwap` is weighted by volume, and the close where there is none. In a
    stream a bar ends `late_seconds` after its `end`; prices that come later for it are dropped.
    """
    ticks = ticks.withWatermark("time", f"{late_seconds} seconds")
    lengths = F.array(*(F.struct(F.lit(name).alias("name"), F.lit(INTERVALS[name]).alias("ms")) for name in intervals))
    ticks = ticks.select("*", F.explode(lengths).alias("length"), F.unix_millis("time").alias("ms"))
    start = F.col("ms") - F.pmod("ms", "length.ms")
    ticks = ticks.select(
        "*",
        F.col("length.name").alias("interval"),
        F.timestamp_millis(start).alias("start"),
        # Windows of several lengths in one aggregation, which F.window has not: one state instead of three queries.
        F.timestamp_millis(start + F.col("length.ms")).alias("end", metadata={WATERMARK: late_seconds * 1000}),
        # One long instead of a struct of two: a hash table can hold it in place.
        (F.shiftleft(F.col("ms") - start, SEQ_BITS) + F.pmod("seq", F.lit(1 << SEQ_BITS))).alias("order"),
    )
    turnover = F.sum((F.col("price") * F.col("volume")).cast(f"decimal(38,{prices.DECIMALS})"))
    bars = ticks.groupBy("symbol", "interval", "start", "end").agg(
        F.min_by("price", "order").alias("open"),
        F.max("price").alias("high"),
        F.min("price").alias("low"),
        F.max_by("price", "order").alias("close"),
        F.sum("volume").alias("volume"),
        turnover.alias("turnover"),
        F.count("*").alias("ticks"),
        F.max("ms").alias("last"),
        F.max(F.col("simulated_price").cast("int")).alias("simulated_price"),
        F.max(F.col("simulated_volume").cast("int")).alias("simulated_volume"),
    )
    vwap = F.coalesce(F.try_divide("turnover", F.col("volume")), "close")
    return bars.withColumn("vwap", F.round(vwap, prices.DECIMALS + 2).cast(VWAP))


def messages(bars: DataFrame, final: bool) -> DataFrame:
    """Make messages of bars. The bar that moves has a `version`, so that an older state of it cannot follow a newer
    one."""
    fields = {
        **{name: F.col(name) for name in ("open", "high", "low", "close", "vwap", "volume", "ticks")},
        "start": F.unix_millis("start"),
        "end": F.unix_millis("end"),
        "final": F.lit("1" if final else "0"),
        "symbol": F.col("symbol"),
        "interval": F.col("interval"),
        "simulated": _simulated(),
    }
    pairs = [part for name, value in fields.items() for part in (F.lit(name), value.cast("string"))]
    return bars.select(
        F.concat(F.lit("/bars-"), "interval", F.lit("/us/"), "symbol").alias("subject"),
        F.col("close").cast("string").alias("content"),
        F.create_map(*pairs).alias("fields"),
        F.lit(not final).alias("retained"),
        F.lit("guaranteed" if final else "standard").alias("qos"),
        F.timestamp_millis("last").alias("as_of"),
        *([] if final else [F.col("last").alias("version")]),
        "start",
    )


def _simulated() -> Column:
    """Return the fields that rest on values which the feed calls simulated; null when none does."""
    return F.when(F.col("simulated_price") == 1, "open,high,low,close,vwap,volume").when(
        F.col("simulated_volume") == 1, "vwap,volume"
    )


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start both queries: `bars` for those that move, `bars_final` for those that do not any more."""
    bars = transform(prices.read(session, options), options.intervals, options.late_seconds)
    final = argparse.Namespace(**vars(options) | {"trigger_ms": options.final_ms or options.trigger_ms})
    return [
        publish_batches(messages(bars, final=False), options, "bars", checkpoint, "update", order=("start",)),
        publish_batches(messages(bars, final=True), final, "bars_final", checkpoint, "append", order=("start",)),
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments, with those of reading prices."""
    prices.arguments(parser)
    own_arguments(parser)
    parser.add_argument(
        "--final-ms",
        type=positive(int),
        metavar="MS",
        help="time from one micro-batch to the next of the final bars; by default that of --trigger-ms",
    )


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments that do not say when it writes."""
    parser.add_argument(
        "--intervals", type=_intervals, default=",".join(INTERVALS), metavar="LIST", help="of 1s, 1m, 1d; with commas"
    )


def _intervals(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(INTERVALS):
        raise argparse.ArgumentTypeError(f"{text!r}: there are {', '.join(INTERVALS)}")
    return names


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when a query failed."""
    return run("bars", "Publishes the bars of all prices to /bars-INTERVAL/us/SYMBOL.", arguments, start, words)


if __name__ == "__main__":
    sys.exit(main())
