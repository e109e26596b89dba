"""The manual's bars in SQL: a stream and a batch give the same, which is what the job `bars` makes of the prices."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.jobs.desk import messages, query
from spark.jobs.desk.board import Board, Plan
from tests.support.prices import NOON, frame, message
from tests.support.spark import sql_bars
from tests.support.streams import outcome

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("light")]

FIELDS = ("open", "high", "low", "volume", "ticks", "start", "end")


def feed(seconds: int) -> list[tuple[Any, ...]]:
    """Four prices a second of each of two stocks."""
    chance = random.Random(7)
    return [
        message(symbol, step + 1, NOON + step * 250, f"{chance.randrange(100, 999) / 100:.2f}", volume=str(step * 10))
        for step in range(seconds * 4)
        for symbol in ("IBM", "T")
    ]


def told(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows as one can compare them."""
    return sorted(
        (row["subject"].rpartition("/")[2], row["content"], *(str(row["fields"][name]) for name in FIELDS))
        for row in rows
    )


def test_a_stream_gives_what_a_batch_gives_whatever_order_the_prices_come_in(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = feed(15)
    chance = random.Random(7)
    shuffled = [rows[place] for place in sorted(range(len(rows)), key=lambda place: place + chance.randrange(12))]
    end = message("END", 1, NOON + 30_000, "1.00")
    late = message("IBM", 9_999, NOON + 1_000, "1.00")
    made = sql_bars.module()

    def bars(ticks: DataFrame) -> DataFrame:
        found: DataFrame = made.bars(ticks, 1)
        return found

    parts = (shuffled[:50], shuffled[50:], [end], [late])
    streamed = told(outcome([frame(session, part) for part in parts], bars, tmp_path))
    assert streamed == told(bars(frame(session, rows)).collect())
    assert len(streamed) == 2 * 15
    board = Board(Plan(late=2_000, intervals={"1s": 1_000}))
    ended = board.take(query.rows(frame(session, [*rows, end]).toArrow())).final
    assert streamed == told(
        [row | {"fields": dict(row["fields"])} for row in messages.bars(ended, final=True).to_pylist()]
    )
