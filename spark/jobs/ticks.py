"""Replays the real daily closes of 20 stocks as a live price stream: `python -m spark.jobs.ticks --help`.

Each tick moves one stock on by one trading day. The prices are real; volume, bid and ask are not, and
every message says so in its field `simulated`. With --simulated there are many ticks in a day, made up between the
closes (spark/jobs/simulation.py), for as many instruments as wanted; then the prices are named there as well.
"""

from __future__ import annotations

import argparse
import bisect
import sys
from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import simulation
from spark.jobs.running import JobError, positive, publish, run
from spark.support import histories as data

SUBJECT = "/stocks/us/"
SIMULATED = "volume,bid,ask"
STRIDES = (7, 11, 13, 17, 19, 23, 29, 31)
"""Steps from stock to stock within a round: primes that do not divide 20, so that a round meets every stock once."""
PRICE = "decimal(12,2)"


def transform(ticks: DataFrame, histories: DataFrame, first_day: int = 0, sent: Column | None = None) -> DataFrame:
    """Make of ticks (`value`, numbered from 0) and `support.histories` messages: `subject`, `content`, `fields`.

    A round is as many ticks as there are stocks and moves each of them on by one day, in an order that changes from
    round to round. The days run from number `first_day` to the last, and then begin again there. `sent` is the time of
    emission in milliseconds since 1970 (default: the clock, read for each row).
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
    date = F.get("dates", F.col("day"))
    chance = F.xxhash64("symbol", date)
    updates = updates.select(
        "symbol",
        "name",
        "exchange",
        date.cast("string").alias("date"),
        price.alias("price"),
        previous.alias("previous"),
        chance.alias("chance"),
    )
    return messages(updates, sent)


def messages(updates: DataFrame, sent: Column | None = None, simulated: str = SIMULATED) -> DataFrame:
    """Make the board's message of each update; all values are text. `simulated` names the fields that are made up."""
    change = F.col("price") - F.col("previous")
    percent = F.coalesce(F.try_divide(change * 100, F.col("previous")), F.lit(0))
    clock = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("long")
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
        "simulated": F.lit(simulated),
        "sent": F.col("sent"),
    }
    pairs = [part for name, value in fields.items() for part in (F.lit(name), value.cast("string"))]
    return updates.withColumn("sent", clock if sent is None else sent).select(
        F.concat(F.lit(SUBJECT), "symbol").alias("subject"),
        F.col("price").cast("string").alias("content"),
        F.create_map(*pairs).alias("fields"),
        F.timestamp_millis("sent").alias("as_of"),
    )


def _cents(divisor: int) -> Column:
    """Return 0.01 to 0.03 of simulated distance to the price."""
    return ((F.pmod(F.col("chance").bitwiseXOR(divisor), F.lit(3)) + 1) / 100).cast(PRICE)


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query that publishes; raises JobError."""
    closes = data.read()
    first_day = bisect.bisect_left(closes.dates, options.start_date)
    if first_day >= len(closes.dates):
        raise JobError(f"--start-date: the closes end on {closes.dates[-1]}")
    instruments = options.symbols if options.simulated else len(closes.prices)
    rows = max(1, round(options.speed * instruments * options.trigger_ms / 1000))
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1).load()
    if options.simulated:
        histories = data.histories(session, closes)
        made = simulation.updates(ticks, histories, instruments, options.ticks_per_day, options.seed, first_day)
        rows_out = messages(made, simulated=f"price,{SIMULATED}")
    else:
        # Each batch sends the closes to its tasks anew: without the days before the first, half of what it costs.
        unused = max(0, first_day - 1)
        rows_out = transform(ticks, data.histories(session, closes.since(unused)), first_day - unused)
    return [publish(rows_out, options, "ticks", checkpoint).start()]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    parser.add_argument(
        "--speed", type=positive(float), default=2.5, metavar="N", help="updates per second of each stock"
    )
    parser.add_argument(
        "--start-date",
        type=_date,
        default=date(2010, 1, 4),
        metavar="DATE",
        help="first day to replay, from 1990-01-02 on; after the last day the replay begins here again",
    )
    parser.add_argument("--simulated", action="store_true", help="make up the prices between the closes of two days")
    parser.add_argument("--symbols", type=positive(int), default=20, metavar="N", help="instruments with --simulated")
    parser.add_argument(
        "--ticks-per-day", type=positive(int), default=390, metavar="N", help="ticks of a day with --simulated"
    )
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="another one makes up other prices")


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2010-01-04") from None


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return run(
        "ticks",
        "Publishes the real daily closes of 20 stocks of the S&P 500, replayed at speed, to the subjects "
        f"{SUBJECT}SYMBOL of a running sidecar. Prices are real, {SIMULATED} are simulated.",
        arguments,
        start,
        words,
    )


if __name__ == "__main__":
    sys.exit(main())
