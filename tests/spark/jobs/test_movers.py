"""Moves over sliding windows: of small frames, of real closes, and in a stream."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.jobs import movers
from spark.support import histories
from tests.support.prices import NOON, frame, message
from tests.support.streams import outcome

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("light")]


def found(rows: list[Any]) -> dict[int, dict[str, tuple[str, dict[str, str]]]]:
    """By the end of the window in seconds after noon, and the symbol: the content, and the fields that tell most."""
    told: dict[int, dict[str, tuple[str, dict[str, str]]]] = defaultdict(dict)
    for row in rows:
        end = int(row.fields["window_end"])
        symbol = row.subject.removeprefix("/movers/us/")
        assert (row.fields["symbol"], row.version) == (symbol, end)
        told[(end - NOON) // 1000][symbol] = row.content, {name: row.fields[name] for name in ("name", "price")}
    return told


def moves(session: SparkSession) -> list[tuple[Any, ...]]:
    return [
        message("UP", 1, NOON + 1_000, "100"),
        message("UP", 2, NOON + 9_000, "110", name="Upper"),
        message("DOWN", 2, NOON + 9_000, "45"),
        message("DOWN", 1, NOON + 1_000, "50"),
        message("LESS", 1, NOON + 2_000, "200"),
        message("LESS", 2, NOON + 8_000, "202"),
        message("EQUAL", 1, NOON + 2_000, "100"),
        message("EQUAL", 2, NOON + 8_000, "101"),
        message("STILL", 1, NOON + 2_000, "7"),
        message("STILL", 2, NOON + 12_000, "8"),
    ]


def test_each_instrument_has_a_message_of_its_own(session: SparkSession) -> None:
    """And no message tells of two; what did not move says so."""
    rows = movers.messages(
        movers.transform(frame(session, moves(session)), window_seconds=10, slide_seconds=5)
    ).collect()
    told = found(rows)
    assert told[10] == {
        "UP": ("10.00", {"name": "Upper", "price": "110.00"}),
        "DOWN": ("-10.00", {"name": None, "price": "45.00"}),
        "LESS": ("1.00", {"name": None, "price": "202.00"}),
        "EQUAL": ("1.00", {"name": None, "price": "101.00"}),
        "STILL": ("0.00", {"name": None, "price": "7.00"}),
    }
    # Within 5 to 15 each has one price only.
    assert {symbol: change for symbol, (change, _) in told[15].items()} == dict.fromkeys(
        ("UP", "DOWN", "LESS", "EQUAL", "STILL"), "0.00"
    )
    assert set(told) == {5, 10, 15, 20}
    for row in rows:
        others = {"UP", "DOWN", "LESS", "EQUAL", "STILL"} - {row.fields["symbol"]}
        assert not any(other in f"{row.content} {row.fields}" for other in others)


def test_a_stream_gives_each_window_once(session: SparkSession, tmp_path: Path) -> None:
    def messages(rows: DataFrame) -> DataFrame:
        return movers.messages(movers.transform(rows, window_seconds=10, slide_seconds=5, late_seconds=2))

    rows = moves(session)
    late = message("LATE", 1, NOON + 3_000, "1")
    # What is late is known from the batch after the one that moved the watermark.
    ends = [message("END", 1, NOON + 30_000, "1"), message("END", 2, NOON + 31_000, "1")]
    parts = [rows[:5], [*rows[5:], ends[0]], [ends[1]], [late]]
    streamed = outcome([frame(session, part) for part in parts], messages, tmp_path)
    batch = messages(frame(session, rows)).collect()
    assert sorted(map(str, streamed)) == sorted(map(str, batch))


def test_real_closes(session: SparkSession) -> None:
    """Twenty days of March 2020, one each second: the moves are those of the month."""
    closes = histories.read()
    first = closes.dates.index(date(2020, 3, 2))
    days = {symbol: column[first : first + 20] for symbol, column in closes.prices.items()}
    rows = [
        message(symbol, day + 1, NOON + day * 1000, f"{price:.2f}")
        for symbol, column in days.items()
        for day, price in enumerate(column)
    ]
    told = found(movers.messages(movers.transform(frame(session, rows), 60, 60)).collect())[60]
    assert set(told) == set(days)
    for symbol, column in days.items():
        change = round((round(column[-1], 2) - round(column[0], 2)) * 100 / round(column[0], 2), 2)
        assert float(told[symbol][0]) == pytest.approx(change, abs=0.011)
    assert min(float(change) for change, _ in told.values()) < -20
