"""Rankings over sliding windows: of small frames, of real closes, and in a stream."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark import data
from spark.jobs import movers
from tests.support.prices import NOON, frame, message
from tests.support.streams import outcome

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("light")]


def rankings(rows: list[Any]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """By the end of the window in seconds after noon, and the side."""
    return {
        ((int(row.fields["window_end"]) - NOON) // 1000, row.subject.rpartition("/")[2]): json.loads(row.content)
        for row in rows
    }


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


def test_gainers_and_losers(session: SparkSession) -> None:
    ranked = movers.transform(frame(session, moves(session)), window_seconds=10, slide_seconds=5)
    found = rankings(movers.messages(ranked).collect())
    assert found[10, "gainers"] == [
        {"symbol": "UP", "name": "Upper", "price": 110.0, "change_pct": 10.0},
        {"symbol": "EQUAL", "price": 101.0, "change_pct": 1.0},
        {"symbol": "LESS", "price": 202.0, "change_pct": 1.0},
    ]
    assert found[10, "losers"] == [{"symbol": "DOWN", "price": 45.0, "change_pct": -10.0}]
    # Within 5 to 15 each has one price only.
    assert (found[15, "gainers"], found[15, "losers"]) == ([], [])
    assert {end for end, _ in found} == {5, 10, 15, 20}
    short = movers.messages(movers.transform(frame(session, moves(session)), 10, 5, count=1)).collect()
    assert [row["symbol"] for row in rankings(short)[10, "gainers"]] == ["UP"]


def test_a_stream_gives_each_window_once(session: SparkSession, tmp_path: Path) -> None:
    def messages(rows: DataFrame) -> DataFrame:
        return movers.messages(movers.transform(rows, window_seconds=10, slide_seconds=5, late_seconds=2))

    rows = moves(session)
    late = message("LATE", 1, NOON + 3_000, "1")
    parts = [rows[:5], [*rows[5:], message("END", 1, NOON + 30_000, "1")], [late]]
    streamed = outcome([frame(session, part) for part in parts], messages, tmp_path)
    batch = messages(frame(session, rows)).collect()
    assert sorted(map(str, streamed)) == sorted(map(str, batch))


def test_real_closes(session: SparkSession) -> None:
    """Twenty days of March 2020, one each second: the ranking is that of the month."""
    closes = data.read()
    first = closes.dates.index(date(2020, 3, 2))
    days = {symbol: column[first : first + 20] for symbol, column in closes.prices.items()}
    rows = [
        message(symbol, day + 1, NOON + day * 1000, f"{price:.2f}")
        for symbol, column in days.items()
        for day, price in enumerate(column)
    ]
    found = rankings(movers.messages(movers.transform(frame(session, rows), 60, 60)).collect())[60, "losers"]
    changes = {
        symbol: round((round(column[-1], 2) - round(column[0], 2)) * 100 / round(column[0], 2), 2)
        for symbol, column in days.items()
    }
    worst = sorted((symbol for symbol in changes if changes[symbol] < 0), key=changes.__getitem__)[:10]
    assert [row["symbol"] for row in found] == worst
    assert [row["change_pct"] for row in found] == pytest.approx([changes[symbol] for symbol in worst], abs=0.011)
    assert found[0]["change_pct"] < -20
