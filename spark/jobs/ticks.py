"""Replays the real daily closes of 20 stocks as a live price stream: `python -m spark.jobs.ticks --help`.

Each tick moves one stock on by one trading day. The prices are real (spark/data.py); volume, bid and ask are not, and
every message says so in its field `simulated`.
"""

from __future__ import annotations

import argparse
import bisect
import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from fastpath.java import JavaNotFound
from spark import data
from spark.jobs.process import Stop, describe, end_java, java_errors, run_in_thread
from spark.session import build

SUBJECT = "/stocks/us/"
SIMULATED = "volume,bid,ask"
STRIDES = (7, 11, 13, 17, 19, 23, 29, 31)
"""Steps from stock to stock within a round: primes that do not divide 20, so that a round meets every stock once."""
PRICE = "decimal(12,2)"
PROGRESS_SECONDS = 600
SETTINGS = {
    "spark.driver.memory": "512m",
    # Batches of a few rows: compiling code for them costs more than it saves, at the start and in each batch.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # A task that waits for an absent sidecar is not waited for at the end.
    "spark.python.task.killTimeout": "500ms",
}


def transform(ticks: DataFrame, histories: DataFrame, first_day: int = 0, sent: Column | None = None) -> DataFrame:
    """Ticks (`value`, numbered from 0) and `spark.data.histories` to messages: `subject`, `content`, `fields`.

    A round is as many ticks as there are stocks and moves each of them on by one day, in an order that changes from
    round to round. The days run from number `first_day` to the last, and then begin again there. `sent` is the time
    of emission in milliseconds since 1970 (default: the clock, read for each row).
    """
    strides = F.array(*map(F.lit, STRIDES))
    round_number = F.expr("value div stocks")
    stride = F.element_at(strides, (F.pmod(round_number, F.lit(len(STRIDES))) + 1).cast("int"))
    place = F.pmod(F.pmod("value", "stocks") * stride + round_number, F.col("stocks"))
    # Not an equality that Spark could hash by: 20 rows are compared faster than a table of them is built.
    updates = ticks.join(F.broadcast(histories), F.col("place") == place)
    days = F.size("closes")
    day = F.lit(first_day) + F.pmod(round_number, days - first_day)
    updates = updates.select("symbol", "name", "exchange", "dates", "closes", day.cast("int").alias("day"))
    price = F.round(F.get("closes", F.col("day")), 2).cast(PRICE)
    previous = F.round(F.get("closes", F.greatest(F.col("day") - 1, F.lit(0))), 2).cast(PRICE)
    chance = F.xxhash64("symbol", "day")
    updates = updates.select(
        "symbol",
        "name",
        "exchange",
        F.get("dates", F.col("day")).alias("date"),
        price.alias("price"),
        previous.alias("previous"),
        chance.alias("chance"),
    )
    return _messages(updates, sent)


def _messages(updates: DataFrame, sent: Column | None) -> DataFrame:
    """The board's message of each update; all values are text."""
    change = F.col("price") - F.col("previous")
    percent = F.coalesce(F.try_divide(change * 100, F.col("previous")), F.lit(0))
    clock = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis"))
    bid = F.greatest(F.col("price") - _cents(3), F.lit(0))
    fields = {
        "change": change,
        "change_pct": percent.cast(PRICE),
        "volume": (F.pmod("chance", F.lit(90_000)) + 1_000) * 100,
        "bid": bid.cast(PRICE),
        "ask": (F.col("price") + _cents(5)).cast(PRICE),
        "date": F.col("date"),
        "name": F.col("name"),
        "exchange": F.col("exchange"),
        "simulated": F.lit(SIMULATED),
        "sent": clock if sent is None else sent,
    }
    pairs = [part for name, value in fields.items() for part in (F.lit(name), value.cast("string"))]
    return updates.select(
        F.concat(F.lit(SUBJECT), "symbol").alias("subject"),
        F.col("price").cast("string").alias("content"),
        F.create_map(*pairs).alias("fields"),
    )


def _cents(divisor: int) -> Column:
    """0.01 to 0.03 of simulated distance to the price."""
    return ((F.pmod(F.col("chance").bitwiseXOR(divisor), F.lit(3)) + 1) / 100).cast(PRICE)


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> StreamingQuery:
    """Start the query that publishes; it runs until it is stopped."""
    closes = data.read()
    first_day = bisect.bisect_left(closes.dates, options.start_date)
    if first_day >= len(closes.dates):
        raise ValueError(f"--start-date: the closes end on {closes.dates[-1]}")
    rows = max(1, round(options.speed * len(closes.prices) * options.trigger_ms / 1000))
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1).load()
    messages = transform(ticks, data.histories(session, closes), first_day)
    return (
        messages.writeStream.format("realtime")
        .queryName("ticks")
        .outputMode("append")
        .option("url", options.url)
        .option("token", os.environ.get("REALTIME_PUBLISH_TOKEN", ""))
        .option("publisher", "spark.jobs.ticks")
        .option("retry_seconds", options.retry_seconds)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{options.trigger_ms} milliseconds")
        .start()
    )


def watch(query: StreamingQuery, stop: Stop) -> None:
    """Wait until a signal comes; raises what the query failed with. Says now and then how far it is."""
    waited = 0
    while not stop.wait(1):
        waited += 1
        if not query.isActive:
            query.awaitTermination()  # raises the query's error
            return
        if waited % PROGRESS_SECONDS == 0 and query.lastProgress is not None:
            progress = query.lastProgress
            print(f"ticks: batch {progress.batchId}, {progress.processedRowsPerSecond:.0f} rows/s", flush=True)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m spark.jobs.ticks",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Publishes the real daily closes of 20 stocks of the S&P 500, replayed at speed, to the subjects "
        f"{SUBJECT}SYMBOL of a running sidecar. Prices are real, {SIMULATED} are simulated.",
        epilog="The token to publish with is read from the environment variable REALTIME_PUBLISH_TOKEN.",
    )
    parser.add_argument("--url", default="127.0.0.1:8801", help="the sidecar's publisher port, several with commas")
    parser.add_argument(
        "--speed", type=_positive(float), default=2.5, metavar="N", help="updates per second of each stock"
    )
    parser.add_argument(
        "--trigger-ms", type=_positive(int), default=300, metavar="MS", help="time from one micro-batch to the next"
    )
    parser.add_argument(
        "--start-date",
        type=_date,
        default=date(2010, 1, 4),
        metavar="DATE",
        help="first day to replay, from 1990-01-02 on; after the last day the replay begins here again",
    )
    parser.add_argument(
        "--retry-seconds",
        type=_positive(float),
        default=60.0,
        metavar="S",
        help="how long to go on while no sidecar answers",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="folder that keeps the position, so that a restart goes on where it was; by default each "
        "start begins at the first day",
    )
    return parser.parse_args(words)


def _positive(kind: type[int] | type[float]):  # type: ignore[no-untyped-def]
    def number(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    number.__name__ = "number"
    return number


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2010-01-04") from None


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    options = arguments(words)
    stop = Stop()
    return run_in_thread(lambda: _work(options, stop))


def _work(options: argparse.Namespace, stop: Stop) -> int:
    session = None
    with tempfile.TemporaryDirectory(prefix="ticks-", ignore_cleanup_errors=True) as scratch:
        try:
            with java_errors(stop):
                session = build("ticks", **SETTINGS)
            query = start(session, options, options.checkpoint or scratch)
            stop.started(session)
            print(f"ticks: publishing to {options.url}, {options.speed:g} updates/s of each stock", flush=True)
            watch(query, stop)
        except Exception as error:
            if stop.ending.is_set():
                return 0  # the JVM was ended under our hands, as the signal demands
            known = isinstance(error, (JavaNotFound, data.DataNotFound, ValueError))
            print(f"ticks: {error if known else f'the query failed: {describe(error)}'}", file=sys.stderr, flush=True)
            return 1
        finally:
            end_java(session, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
