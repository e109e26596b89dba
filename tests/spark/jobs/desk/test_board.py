"""What the board makes of prices: the bytes that the jobs bars, movers and alerts make, in any order, over restarts."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from spark.jobs import alerts, bars, movers, scorer
from spark.jobs.desk import messages, query
from spark.jobs.desk.board import FORGOTTEN_MS, Board, Kept, Made, Plan
from spark.jobs.desk.windows import Price
from tests.support.prices import NOON, frame, message

LENGTHS = {"1s": 1_000, "1m": 60_000}
PLAN = Plan(LENGTHS, window=10_000, slide=5_000, late=2_000)


def price(symbol: str, ms: int, cents: int, seq: int = 0, **given: Any) -> Price:
    known = {"name": None, "previous": None, "volume": 0, "simulated_price": False, "simulated_volume": False} | given
    return Price(symbol=symbol, cents=cents, ms=NOON + ms, seq=seq or ms + 1, **known)


def told(table: pa.Table) -> list[tuple[Any, ...]]:
    """The messages of a table, as one can compare them."""
    return [
        (row["subject"], row["content"], tuple(sorted(row["fields"])), row["as_of"], row["version"])
        for row in table.to_pylist()
    ]


def through_spark(rows: DataFrame) -> list[tuple[Any, ...]]:
    """The same of the rows that a job's `messages` gives."""
    found = []
    for row in rows.collect():
        known = row.asDict()
        fields = tuple(sorted((name, value) for name, value in known["fields"].items() if value is not None))
        as_of = round(known["as_of"].timestamp() * 1000)
        found.append((known["subject"], known["content"], fields, as_of, known.get("version")))
    return found


def all_of(made: Iterable[Made]) -> Made:
    """The outcomes of several batches as one."""
    whole = Made()
    for one in made:
        whole.moving += one.moving
        whole.final += one.final
        whole.moves += one.moves
        whole.alerts += one.alerts
    return whole


def feed(seed: int, seconds: int = 70) -> list[tuple[Any, ...]]:
    """Four prices a second of each of three stocks, some without a volume, one with a name now and then."""
    chance, seq, rows = random.Random(seed), defaultdict(int), []
    cents = {"IBM": 10_000, "T": 1_733, "ODD": 3}
    for step in range(seconds * 4):
        for symbol in cents:
            cents[symbol] = max(1, cents[symbol] + chance.randrange(-9, 10))
            seq[symbol] += 1
            fields = {"sent": str(NOON + step * 250 + chance.randrange(200)), "change": "0.01"}
            if chance.random() < 0.9:
                fields |= {"volume": str(chance.randrange(1, 999_983)), "simulated": "volume,bid"}
            if chance.random() < 0.1:
                fields["name"] = chance.choice(["One", "Two"])
            rows.append(message(symbol, seq[symbol], NOON + step * 250, f"{cents[symbol] / 100:.2f}", **fields))
    return rows


@pytest.mark.spark
@pytest.mark.usefixtures("light")
def test_it_makes_the_bytes_of_the_jobs(session: SparkSession) -> None:
    """Of the same prices, which come to it in several batches and a little out of order."""
    ticks = frame(session, feed(3)).cache()
    prices = query.rows(ticks.toArrow())
    chance = random.Random(5)
    shuffled = [prices[at] for at in sorted(range(len(prices)), key=lambda at: at + chance.randrange(20))]
    board = Board(PLAN)
    end = price("END", 100_000, 1)
    made = all_of(board.take(part) for part in (shuffled[:100], shuffled[100:500], shuffled[500:], [end]))

    def ended(rows: list[tuple[Any, ...]], field: str) -> list[tuple[Any, ...]]:
        return sorted(row for row in rows if int(dict(row[2])[field]) <= NOON + 98_000)

    wanted = ended(through_spark(bars.messages(bars.transform(ticks, ["1s", "1m"]), final=True)), "end")
    assert len(wanted) > 3 * 70
    assert sorted(told(messages.bars(made.final, final=True))) == wanted
    wanted = ended(through_spark(movers.messages(movers.transform(ticks, 10, 5))), "window_end")
    assert len(wanted) >= 3 * 15
    assert sorted(told(messages.moves(made.moves, 10_000))) == wanted
    last = {row[0]: row for row in told(messages.bars(made.moving, final=False))}
    moving = through_spark(bars.messages(bars.transform(ticks, ["1m"]), final=False))
    newest = {row[0]: row for row in sorted(moving, key=lambda row: row[4])}
    assert {subject: last[subject] for subject in newest} == newest


@pytest.mark.spark
@pytest.mark.usefixtures("light")
def test_alerts_read_as_those_of_the_job(session: SparkSession) -> None:
    raised = [
        ("IBM", scorer.Alert("threshold", "critical", 112.0, 12.004999, 10.0, NOON)),
        ("T", scorer.Alert("threshold", "warning", 17.33, -5.125, 5.0, NOON + 1)),
        ("T", scorer.Alert("zscore", "warning", 17.4, 5.005, 5.0, NOON + 2)),
        ("T", scorer.Alert("zscore", "critical", 17.4, -8.5, 8.0, NOON + 3)),
    ]
    rows = session.createDataFrame([(symbol, *alert) for symbol, alert in raised], alerts.OUTPUT)
    assert told(messages.alerts(raised)) == through_spark(alerts.messages(rows))


PRICES = st.lists(
    st.builds(
        lambda symbol, ms, cents, volume, seq: price(symbol, ms, cents, seq, volume=volume, previous=100),
        st.sampled_from(["A", "B"]),
        st.integers(0, 30_000),
        st.integers(1, 500),
        st.integers(0, 9),
        st.integers(1, 10_000),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(PRICES, min_size=1, max_size=4), seed=st.integers(0, 9))
def test_a_restart_and_the_order_within_a_batch_change_nothing(batches: Sequence[list[Price]], seed: int) -> None:
    chance = random.Random(seed)
    whole, kept = Board(PLAN), msgspec.json.encode(Kept())
    for batch in batches:
        board = Board(PLAN, msgspec.json.decode(kept, type=Kept))
        shuffled = sorted(batch)
        chance.shuffle(shuffled)
        made, again = whole.take(sorted(batch)), board.take(shuffled)
        for table in (
            lambda made: messages.bars(made.moving, final=False),
            lambda made: messages.bars(made.final, final=True),
            lambda made: messages.moves(made.moves, PLAN.window),
            lambda made: messages.alerts(made.alerts),
        ):
            if len({(one.symbol, one.ms, one.seq) for one in batch}) == len(batch):
                assert table(made).equals(table(again))
        kept = msgspec.json.encode(whole.kept)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(PRICES, min_size=1, max_size=4))
def test_each_bar_and_window_ends_once_and_in_order(batches: Sequence[list[Price]]) -> None:
    board = Board(PLAN)
    made = all_of(board.take(batch) for batch in [*batches, [price("END", 200_000, 1)]])
    ends = [(row.symbol, row.interval, row.start) for row in made.final]
    assert len(set(ends)) == len(ends)
    assert {(row.symbol, row.interval, row.start) for row in made.moving if row.symbol != "END"} == set(ends)
    windows = [(move.symbol, move.end) for move in made.moves]
    assert len(set(windows)) == len(windows)
    for symbol in ("A", "B"):
        own = [end for name, end in windows if name == symbol]
        assert own == sorted(own)


def test_what_is_too_late_is_left_out_and_what_is_not_counts() -> None:
    board = Board(PLAN)
    board.take([price("A", 10_000, 100), price("B", 2_000, 50)])
    made = board.take([price("A", 7_500, 90), price("A", 8_500, 110)])
    # The second from 7 to 8 has ended by 8; the minute has not.
    assert [(row.interval, row.start - NOON) for row in made.moving] == [("1m", 0), ("1s", 8_000)]
    minute = made.moving[0].bar
    assert (minute.ticks, minute.low, minute.high, minute.close) == (3, 90, 110, 100)


def test_an_instrument_without_prices_for_a_week_is_forgotten() -> None:
    board = Board(PLAN)
    board.take([price("A", 0, 100), price("B", 0, 100)])
    board.take([price("B", 60_000, 100)])
    assert set(board.kept.instruments) == {"A", "B"}
    board.take([price("B", FORGOTTEN_MS + 2_000, 100)])
    assert set(board.kept.instruments) == {"B"}


def test_alerts_are_raised_in_order_and_none_for_what_is_late() -> None:
    board = Board(PLAN)
    made = board.take([price("A", 1, 112_00, previous=100_00), price("A", 0, 100_00, previous=100_00)])
    assert [(symbol, alert.level, alert.time - NOON) for symbol, alert in made.alerts] == [("A", "critical", 1)]
    board.take([price("B", 60_000, 100_00)])
    assert board.take([price("A", 50_000, 1_00, previous=100_00)]).alerts == []
