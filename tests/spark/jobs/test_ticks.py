"""The closes that are replayed, and the pure transformation of ticks to messages."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from realtime.demo import instruments as demo
from spark.jobs import running, simulation, ticks
from spark.support import histories as data
from spark.support.histories import INSTRUMENTS

pytestmark = pytest.mark.spark
DAYS = [date(2022, 12, 23), date(2022, 12, 27), date(2022, 12, 28)]
SMALL = data.Closes(DAYS, {"AAPL": [100.004, 101.5, 98.26], "XYZ": [0.004, 0.01, 0.03]})


def messages(session: SparkSession, closes: data.Closes, count: int, first_day: int = 0) -> list[Any]:
    numbers = session.range(count, numPartitions=1).select(F.col("id").alias("value"))
    result = ticks.transform(numbers, data.histories(session, closes), first_day, sent=F.lit(1700000000000))
    assert result.columns == ["subject", "content", "fields", "as_of"]
    return result.collect()


def test_an_instrument_has_one_name() -> None:
    """That of the ticks is that of the board: neither side may import the other's list."""
    assert {symbol: (name, exchange) for symbol, name, exchange in demo.INSTRUMENTS} == data.INSTRUMENTS


def test_the_file_holds_what_it_is_said_to_hold() -> None:
    closes = data.read()
    assert len(closes.prices) == 20
    assert set(closes.prices) == set(data.INSTRUMENTS)
    assert {len(column) for column in closes.prices.values()} == {8313}
    assert (closes.dates[0], closes.dates[-1], len(closes.dates)) == (date(1990, 1, 2), date(2022, 12, 28), 8313)
    assert (closes.prices["AAPL"][0], closes.prices["XOM"][-1]) == (0.264, 106.627)


def test_closes_as_a_table(session: SparkSession) -> None:
    frame = data.closes(session)
    assert frame.count() == 20 * 8313
    last = frame.where("symbol = 'AAPL' and date = date'2022-12-28'").collect()
    assert [(row.date, row.symbol, row.close) for row in last] == [(DAYS[-1], "AAPL", 125.674)]


def test_an_absent_file_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FILE", Path("datasets", "absent.csv.gz"))
    with pytest.raises(data.DataNotFound, match=r"skfolio is installed without .*pip install --no-deps"):
        data.read()


def test_a_message_is_that_of_the_board(session: SparkSession) -> None:
    second_day = {row.subject: row for row in messages(session, SMALL, 4)[2:]}
    apple = second_day["/stocks/us/AAPL"]
    assert apple.content == "101.50"
    fields = dict(apple.fields)
    assert int(fields["volume"]) % 100 == 0
    assert 0 < float(fields["ask"]) - 101.5 < 0.04
    assert 0 < 101.5 - float(fields["bid"]) < 0.04
    assert {name: fields[name] for name in fields if name not in ("volume", "bid", "ask")} == {
        "change": "1.50",
        "change_pct": "1.50",
        "date": "2022-12-27",
        "name": "Apple",
        "exchange": "NASDAQ",
        "simulated": "volume,bid,ask",
        "sent": "1700000000000",
    }
    # Rounded to cents the first close is 0: no percentage of it exists.
    assert second_day["/stocks/us/XYZ"].fields["change_pct"] == "0.00"
    assert second_day["/stocks/us/XYZ"].fields["name"] == "XYZ"


def test_it_is_the_same_each_time(session: SparkSession) -> None:
    assert messages(session, SMALL, 12) == messages(session, SMALL, 12)


def test_after_the_last_day_it_begins_again_at_the_first_one_asked_for(session: SparkSession) -> None:
    rows = [row for row in messages(session, SMALL, 10, first_day=1) if row.subject.endswith("AAPL")]
    assert [row.fields["date"] for row in rows] == [str(DAYS[day]) for day in (1, 2, 1, 2, 1)]
    assert [row.fields["change"] for row in rows] == ["1.50", "-3.24", "1.50", "-3.24", "1.50"]


def test_a_round_moves_every_stock_once_in_an_order_that_changes(session: SparkSession) -> None:
    closes = data.read()
    # One tick at a time: a join does not promise the order of its rows.
    numbers = session.range(60, numPartitions=1).select(F.col("id").alias("value"))
    moved = ticks.transform(numbers, data.histories(session, closes), sent=F.lit(0))
    moved = moved.withColumn("day", F.col("fields")["date"]).collect()
    assert len(moved) == 60
    assert set(Counter(row.subject for row in moved).values()) == {3}
    assert Counter(row.day for row in moved) == {str(day): 20 for day in closes.dates[:3]}


def test_the_clock_is_read_when_the_row_is_emitted(session: SparkSession) -> None:
    numbers = session.range(1).select(F.col("id").alias("value"))
    first, second = (
        int(ticks.transform(numbers, data.histories(session, SMALL)).collect()[0].fields["sent"]) for _ in range(2)
    )
    assert 1_700_000_000_000 < first <= second


def test_a_message_is_as_of_the_time_it_is_sent(session: SparkSession) -> None:
    numbers = session.range(2).select(F.col("id").alias("value"))
    rows = ticks.transform(numbers, data.histories(session, SMALL))
    times = rows.select(F.col("fields")["sent"], F.unix_millis("as_of").cast("string")).collect()
    assert [sent == as_of for sent, as_of in times] == [True, True]


def test_simulated_ticks_are_the_same_however_they_are_cut(session: SparkSession) -> None:
    histories = data.histories(session)

    def made(numbers: DataFrame, seed: int = 7) -> list[Any]:
        values = numbers.select(F.col("id").alias("value"))
        return sorted(simulation.updates(values, histories, symbols=41, ticks_per_day=4, seed=seed).collect())

    whole = made(session.range(820, numPartitions=3))
    assert whole == sorted(made(session.range(300)) + made(session.range(300, 820)))
    assert whole != made(session.range(820), seed=8)
    assert Counter(row.symbol for row in whole) == dict.fromkeys(
        [*INSTRUMENTS, *(f"{symbol}.1" for symbol in INSTRUMENTS), "AAPL.2"], 20
    )


def test_simulated_ticks_begin_each_day_at_the_real_close(session: SparkSession) -> None:
    closes = data.read()
    numbers = session.range(20 * 8 * 3).select(F.col("id").alias("value"))
    rows = simulation.updates(numbers, data.histories(session), symbols=20, ticks_per_day=8, first_day=8000).collect()
    for row in rows:
        day = 8000 + row.step // 8
        before, after = closes.prices[row.symbol][day], closes.prices[row.symbol][day + 1]
        assert row.date == str(closes.dates[day])
        assert float(row.previous) == pytest.approx(before, abs=0.006)
        if row.step % 8 == 0:
            assert row.price == row.previous
        assert min(before, after) * 0.98 - 0.01 <= float(row.price) <= max(before, after) * 1.02 + 0.01
    assert len({row.price for row in rows if row.symbol == "MSFT"}) > 20


def parse(words: list[str]) -> Namespace:
    return running.parse("ticks", "", running.streaming_arguments, ticks.arguments, words)


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--speed", "4", "--start-date", "1990-01-02"]).start_date == date(1990, 1, 2)
    for words in (["--speed", "0"], ["--start-date", "yesterday"], ["--trigger-ms", "x"]):
        with pytest.raises(SystemExit):
            parse(words)
        assert words[0] in capsys.readouterr().err
