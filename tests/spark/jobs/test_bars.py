"""Bars: what they are made of, that a stream and a batch give the same bytes, and what a subscriber sees of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.jobs import bars, simulation, ticks
from spark.support import histories
from tests.support.prices import NOON, frame, message
from tests.support.streams import outcome

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("light")]


def bar(session: SparkSession, rows: Iterable[tuple[Any, ...]], interval: str = "1m") -> dict[str, Any]:
    (row,) = bars.transform(frame(session, rows), [interval]).collect()
    found: dict[str, Any] = row.asDict()
    return found


def test_a_bar(session: SparkSession) -> None:
    rows = [
        message("IBM", 3, NOON + 30_000, "99.5", volume="300"),
        message("IBM", 1, NOON, "100", volume="100"),
        message("IBM", 4, NOON + 59_999, "100.25", volume="0"),
        message("IBM", 2, NOON + 10_000, "101.00", volume="200"),
    ]
    found = bar(session, rows)
    assert {name: str(found[name]) for name in ("open", "high", "low", "close", "vwap")} == {
        "open": "100.00",
        "high": "101.00",
        "low": "99.50",
        "close": "100.25",
        "vwap": "100.0833",
    }
    assert (found["volume"], found["ticks"], found["last"]) == (600, 4, NOON + 59_999)
    assert (found["symbol"], found["interval"]) == ("IBM", "1m")
    assert [int(found[name].replace(tzinfo=UTC).timestamp() * 1000) for name in ("start", "end")] == [
        NOON,
        NOON + 60_000,
    ]


def test_at_one_time_the_sequence_number_decides_what_is_first_and_last(session: SparkSession) -> None:
    rows = [message("IBM", seq, NOON, str(seq)) for seq in (12, 9, 10, 11)]
    found = bar(session, rows)
    assert (found["open"], found["close"]) == (Decimal(9), Decimal(12))
    assert found["vwap"] == Decimal(12)  # without a volume it is the close


def test_messages_without_a_price_make_no_bar(session: SparkSession) -> None:
    rows = [message("IBM", seq, NOON, price) for seq, price in enumerate(("", "n/a", "0", "-5", "NaN", "1e400"), 1)]
    assert bars.transform(frame(session, rows)).collect() == []


def test_the_feeds_time_counts_unless_its_clock_is_far_ahead(session: SparkSession) -> None:
    rows = [
        message("A", 1, NOON, "1", sent=str(NOON - 120_000)),
        message("B", 1, NOON, "1", sent=str(NOON + 60_000)),
        message("C", 1, NOON, "1", sent=str(NOON + 60_001)),
        message("D", 1, NOON, "1", sent="soon"),
        message("E", 1, NOON, "1"),
    ]
    found = {row.symbol: row.last - NOON for row in bars.transform(frame(session, rows), ["1d"]).collect()}
    assert found == {"A": -120_000, "B": 60_000, "C": 0, "D": 0, "E": 0}


def feed(session: SparkSession, count: int) -> list[Any]:
    """Messages as a sidecar hands them on: four stocks, ticks between real closes, each 100 ms after the last."""
    numbers = session.range(count, numPartitions=1).select(F.col("id").alias("value"))
    made = simulation.updates(numbers, histories.histories(session), symbols=4, ticks_per_day=390, first_day=5000)
    rows = ticks.messages(made.withColumn("at", F.lit(NOON) + F.col("step") * 100), F.col("at"), "price,volume,bid,ask")
    sent = F.col("fields")["sent"].cast("long")
    seq = ((sent - NOON) / 100 + 1).cast("long")
    return rows.select(
        "subject", "content", "fields", F.lit(1).cast("long"), seq, F.timestamp_millis(sent).alias("time")
    ).collect()


def test_a_stream_and_a_batch_give_the_same_bytes_whatever_order_the_prices_come_in(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = sorted(feed(session, 4 * 650), key=lambda row: row.time)  # 65 s
    chance = random.Random(7)
    # What is at most two seconds late still counts: 80 ticks are two seconds of all four stocks.
    shuffled = [rows[place] for place in sorted(range(len(rows)), key=lambda place: place + chance.randrange(70))]
    parts = [shuffled[:900], shuffled[900:1800], shuffled[1800:]]
    late = message("AAPL", 9_999, NOON + 1_000, "1.00", sent=str(NOON + 1_000))
    end = message("HEARTBEAT", 1, NOON + 90_000, "1.00")

    def messages(ticks: DataFrame) -> DataFrame:
        return bars.messages(bars.transform(ticks, ["1s", "1m", "1d"], late_seconds=2), final=True)

    streamed = outcome([frame(session, part) for part in (*parts, [end], [late])], messages, tmp_path)
    batch = messages(frame(session, rows)).collect()
    minute = [row for row in batch if "1d" not in row.subject and int(row.fields["end"]) <= NOON + 88_000]
    assert sorted(map(str, streamed)) == sorted(map(str, minute))
    assert len(minute) == 4 * (65 + 1)
