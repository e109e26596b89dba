"""Reads the prices of `/stocks/us/*` that the feed publishes, as rows with a price, a volume and a time."""

from __future__ import annotations

import argparse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.jobs.running import token

SUBJECTS = "/stocks/us/*"
AHEAD_MAX = "INTERVAL 1 MINUTE"
"""A feed's clock may be ahead of the sidecar's by so much; beyond it the sidecar's time counts."""
DECIMALS = 2
PRICE = f"decimal(18,{DECIMALS})"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a job that reads prices."""
    parser.add_argument("--subjects", default=SUBJECTS, help="the prices to read, patterns with commas")
    parser.add_argument(
        "--start",
        metavar="WHERE",
        help="where a first start begins to read: latest, earliest (what the cache still has), or an ISO time; by "
        "default latest, and earliest with --once",
    )
    parser.add_argument(
        "--late-seconds",
        type=_seconds,
        default=2,
        metavar="S",
        help="how much later than the newest price one may come and still count",
    )


def read(session: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Read the prices of a running sidecar as a stream; columns as of `prices`."""
    messages = (
        session.readStream.format("realtime")
        .option("url", options.url)
        .option("token", token())
        .option("subjects", options.subjects)
        .option("start", options.start or ("earliest" if options.once else "latest"))
        .option("retry_seconds", options.retry_seconds)
        .load()
    )
    return prices(messages)


def prices(messages: DataFrame) -> DataFrame:
    """Make prices of messages (`subject`, `content`, `fields`, `epoch`, `seq`, `time`).

    The rows have `symbol` (the last segment of the subject), `name`, `price` (in cents and above 0; a message without
    such a price is left out), `previous` (the close before it, if the feed says so), `volume` (0 where the feed gives
    none), `time` (the feed's own, its field `sent` in milliseconds since 1970, else the sidecar's), `seq`, and whether
    the feed calls its prices or its volumes simulated.
    """
    price = F.col("content").cast("string").try_cast(PRICE)
    volume = F.greatest(_field("volume").try_cast("bigint"), F.lit(0))
    simulated = F.split(F.coalesce(_field("simulated"), F.lit("")), ",")
    # A clock that is far ahead would move everybody's watermark, and end bars that have not begun.
    sent = F.timestamp_millis(_field("sent").try_cast("bigint"))
    sent = F.when(sent <= F.col("time") + F.expr(AHEAD_MAX), sent)
    return messages.select(
        F.substring_index("subject", "/", -1).alias("symbol"),
        _field("name").alias("name"),
        price.alias("price"),
        (price - _field("change").try_cast(PRICE)).cast(PRICE).alias("previous"),
        F.coalesce(volume, F.lit(0)).alias("volume"),
        F.coalesce(sent, "time").alias("time"),
        "seq",
        F.array_contains(simulated, "price").alias("simulated_price"),
        F.array_contains(simulated, "volume").alias("simulated_volume"),
    ).where("price > 0")


def _field(name: str) -> Column:
    """Return a field as text; null where the message has none of that name."""
    return F.col("fields")[name].cast("string")


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds")
    return int(text)
