"""What the board makes of prices: bars, moves and alerts, in any order, over restarts, and their messages."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark.jobs import scorer
from spark.jobs.desk import messages, query
from spark.jobs.desk.board import FORGOTTEN_MS, Board, Kept, Made, Plan
from spark.jobs.desk.windows import Price
from tests.support.prices import NOON, frame, message

LENGTHS = {"1s": 1_000, "1m": 60_000}
PLAN = Plan(late=2_000, intervals=LENGTHS, window=10_000, slide=5_000, limits=scorer.Limits())


def price(symbol: str, ms: int, cents: int, seq: int = 0, **given: Any) -> Price:
    known = {"name": None, "previous": None, "volume": 0, "simulated_price": False, "simulated_volume": False} | given
    return Price(symbol=symbol, cents=cents, ms=NOON + ms, seq=seq or ms + 1, **known)


def all_of(made: Iterable[Made]) -> Made:
    """The outcomes of several batches as one."""
    whole = Made()
    for one in made:
        whole.moving += one.moving
        whole.final += one.final
        whole.moves += one.moves
        whole.alerts += one.alerts
    return whole


def recomputed(prices: Iterable[Price], length: int) -> dict[tuple[str, int], list[Price]]:
    """The prices of each symbol and interval, by time and number: what its bar is made of."""
    found = defaultdict(list)
    for one in sorted(prices, key=lambda one: (one.ms, one.seq)):
        found[one.symbol, one.ms - one.ms % length].append(one)
    return found


def test_a_bar() -> None:
    rows = [
        price("IBM", 30_000, 99_50, volume=300),
        price("IBM", 0, 100_00, volume=100, simulated_volume=True),
        price("IBM", 59_999, 100_25),
        price("IBM", 10_000, 101_00, volume=200),
    ]
    made = Board(Plan(late=0, intervals={"1m": 60_000})).take([*rows, price("END", 120_000, 1)])
    wanted = {
        "open": "100.00",
        "high": "101.00",
        "low": "99.50",
        "close": "100.25",
        "vwap": "100.0833",
        "volume": "600",
        "ticks": "4",
        "start": str(NOON),
        "end": str(NOON + 60_000),
        "symbol": "IBM",
        "interval": "1m",
        "simulated": "vwap,volume",
    }
    (final,) = messages.bars(made.final, final=True).to_pylist()
    assert (final["subject"], final["content"], dict(final["fields"])) == (
        "/bars-1m/us/IBM",
        "100.25",
        wanted | {"final": "1"},
    )
    known = {name: final[name] for name in ("retained", "qos", "as_of", "version")}
    assert known == {"retained": False, "qos": "guaranteed", "as_of": NOON + 59_999, "version": None}
    moving, _ = messages.bars(sorted(made.moving, reverse=True), final=False).to_pylist()
    assert dict(moving["fields"]) == wanted | {"final": "0"}
    assert (moving["retained"], moving["qos"], moving["version"]) == (True, "standard", NOON + 59_999)


def test_at_one_time_the_sequence_number_decides_what_is_first_and_last() -> None:
    made = Board(PLAN).take([price("IBM", 0, seq * 100, seq) for seq in (12, 9, 10, 11)])
    (bar,) = (row.bar for row in made.moving if row.interval == "1m")
    assert (bar.open, bar.close) == (9_00, 12_00)
    assert messages.vwap(bar.turnover, bar.volume, bar.close) == "12.0000", "without a volume it is the close"


@pytest.mark.spark
@pytest.mark.usefixtures("light")
def test_what_is_read_of_messages(session: SparkSession) -> None:
    """The feed's time counts unless its clock is far ahead; what has no price is none."""
    rows = [
        message("A", 1, NOON, "1", sent=str(NOON - 120_000)),
        message("B", 1, NOON, "1", sent=str(NOON + 60_000), change="0.25", volume="7", name="Bee"),
        message("C", 1, NOON, "1", sent=str(NOON + 60_001), simulated="price,volume"),
        message("D", 1, NOON, "1", sent="soon", volume="-3"),
        message("E", 1, NOON, "1"),
        *(message("N", seq, NOON, none) for seq, none in enumerate(("", "n/a", "0", "-5", "NaN", "1e400"), 1)),
    ]
    assert query.rows(frame(session, rows).toArrow()) == [
        price("A", -120_000, 1_00, 1),
        price("B", 60_000, 1_00, 1, previous=75, volume=7, name="Bee"),
        price("C", 0, 1_00, 1, simulated_price=True, simulated_volume=True),
        price("D", 0, 1_00, 1),
        price("E", 0, 1_00, 1),
    ]


def test_a_move_is_from_the_first_to_the_last_price_of_its_window() -> None:
    """Each instrument has a message of its own, and what did not move says so."""
    rows = [
        price("UP", 1_000, 100_00),
        price("UP", 9_000, 110_00, name="Upper"),
        price("DOWN", 9_000, 45_00),
        price("DOWN", 1_000, 50_00),
        price("STILL", 2_000, 7_00),
        price("STILL", 12_000, 8_00),
    ]
    board = Board(Plan(late=2_000, window=10_000, slide=5_000))
    made = board.take(rows).moves + board.take([price("END", 30_000, 1_00)]).moves
    told: dict[int, dict[str, tuple[str, str, str | None]]] = defaultdict(dict)
    for row in messages.moves(made, 10_000).to_pylist():
        fields = dict(row["fields"])
        end = int(fields["window_end"])
        assert row["subject"] == f"/movers/us/{fields['symbol']}"
        assert (row["as_of"], row["version"], int(fields["window_start"])) == (end, end, end - 10_000)
        told[(end - NOON) // 1000][fields["symbol"]] = row["content"], fields["price"], fields.get("name")
    still = {"UP": ("0.00", "110.00", "Upper"), "DOWN": ("0.00", "45.00", None), "STILL": ("0.00", "8.00", None)}
    assert told == {
        5: {"UP": ("0.00", "100.00", None), "DOWN": ("0.00", "50.00", None), "STILL": ("0.00", "7.00", None)},
        10: {"UP": ("10.00", "110.00", "Upper"), "DOWN": ("-10.00", "45.00", None), "STILL": ("0.00", "7.00", None)},
        15: still,
        20: {"STILL": ("0.00", "8.00", None)},
    }


def test_what_an_alert_says() -> None:
    raised = [
        ("IBM", scorer.Alert("threshold", "critical", 112.0, 12.004999, 10.0, NOON)),
        ("T", scorer.Alert("zscore", "warning", 17.4, 5.005, 5.0, NOON + 2)),
        ("T", scorer.Alert("zscore", "critical", 17.4, -8.5, 8.0, NOON + 3)),
    ]
    rows = messages.alerts(raised).to_pylist()
    assert [(row["subject"], row["content"], row["as_of"]) for row in rows] == [
        ("/alerts/us/IBM", "IBM at 112.00: +12.00 % since the close before", NOON),
        ("/alerts/us/T", "T at 17.40: a step of +5.01 standard deviations", NOON + 2),
        ("/alerts/us/T", "T at 17.40: a step of -8.50 standard deviations", NOON + 3),
    ]
    assert dict(rows[0]["fields"]) == {
        "symbol": "IBM",
        "kind": "threshold",
        "level": "critical",
        "price": "112.00",
        "value": "12.00",
        "limit": "10.00",
        "time": str(NOON),
    }


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
@given(batch=PRICES, seed=st.integers(0, 9))
def test_a_bar_is_made_of_the_prices_of_its_interval(batch: list[Price], seed: int) -> None:
    """In two batches of any order, none too late."""
    shuffled = list(batch)
    random.Random(seed).shuffle(shuffled)
    board = Board(Plan(late=60_000, intervals=LENGTHS))
    made = all_of(board.take(part) for part in (shuffled[::2], shuffled[1::2], [price("END", 200_000, 1)]))
    for interval, length in LENGTHS.items():
        bars = {(row.symbol, row.start): row.bar for row in made.final if row.interval == interval}
        own = recomputed(batch, length)
        assert bars.keys() == own.keys()
        for place, bar in bars.items():
            cents = [one.cents for one in own[place]]
            if len({(one.ms, one.seq) for one in own[place]}) == len(cents):
                assert (bar.open, bar.close) == (cents[0], cents[-1])
            assert (bar.high, bar.low, bar.ticks) == (max(cents), min(cents), len(cents))
            assert bar.volume == sum(one.volume for one in own[place])
            assert bar.turnover == sum(one.cents * one.volume for one in own[place])


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
