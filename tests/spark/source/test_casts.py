"""Texts in the types of columns, held against Spark's own cast of the same texts in the same session."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.source.casts import Rules, cast, zone_of

ZONES = ("UTC", "America/New_York", "+05:30")

NUMBERS = [
    "0", "1", "-1", "+5", " 7 ", "\t8\r\n", "\x7f9", "007", "-0", "+", "-", "", " ", ".", "+.", "-.5", ".5", "12.",
    "12.0", "12.9", "-12.9", "1e3", "1E3", "1e-3", "1e+2", "e3", "1e", "1.5e3x", "1_000", "1,5", "1,000", "0x1F",
    "0x1p3", "-0X1.8P1d", "1d", "2f", "3D", "4F", "5L", "NaN", "nan", "+NaN", "-nan", "Infinity", "-Infinity", "inf",
    "+INF", " -inf ", "infinit", "٣", "１", "1 2", "--1", "+-1", "true", "x", "127", "128", "-128", "-129", "32767",
    "32768", "-32768", "2147483647", "2147483648", "-2147483648", "-2147483649", "127.9", "-128.9",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "00000000000000000000000000001", "9" * 40,
    "9" * 5000, "193.205", "-0.005", "0.005", "0.004999", "999.995", "999.994", "9999999.995", "9999999.994", "1e37",
    "1e38", "1e39", "0e50", "1e400", "-1e400", "1e-400", "1e99999999999", "1e-99999999999", "1e2147483647",
    "1e-2147483647", "12345678901234567890.123456789", "0." + "3" * 60, "1." + "0" * 50 + "1", "3.4028235e38",
    "3.4028236e38", "1.00000017881393432617187499", "1.00000017881393432617187500", "1.4e-45", "16777217",
    "1234567890123.5", "2.50", "000.10",
]  # fmt: skip
WORDS = [
    "t",
    "T",
    "true",
    "TRUE",
    " True ",
    "tru",
    "y",
    "Yes",
    "yes",
    "1",
    "0",
    "01",
    "f",
    "False",
    "n",
    "NO",
    "off",
    "on",
    "",
    "\tno\x7f",
    "wahr",
]
MOMENTS = [
    "2026-11-28", "2026-11-28 10:00:00", "2026-11-28T10:00:00.1234567", "2026-11-28T10:00:00Z",
    "2026-11-28 10:00:00+01:00", "2026-11-28 10:00:00 +1:00", "2026-11-28 10:00:00 Europe/Berlin",
    "2026-11-28 10:00:00 PST", "2026-11-28 10:00:00 EST", "2026-11-28 10:00:00UTC+3",
    "2026-11-28 10:00:00 GMT-03:30", "2026-11-28 10:00:00 nowhere", "2026-11-28 10:00:00+19:00",
    "2026-11-28 10:00:00+18:00", "2026-11-28 10:00:00+0130", "2026-11-28 10:00:00+1", "2026-11-28 10:00:00+01:5",
    "2026-11-28 10:00:00 z", "2026-11-28 10:00:00 europe/berlin", "2026-11-28 10:00:00 +01:00:30",
    "2026-11-28 10:00:00 UT", "2026-11-28 10:00:00 UTC", "2026-11-28 10", "2026-11-28 10:5", "2026-11-28 1:2:3",
    "2026-11-28 10:00:", "2026-11-28T", "2026-11-28 ", " 2026-11-28\n", "2026-11-28 10:00+01:00", "2026-11-28x",
    "2026-11", "2026-1-2", "2026", "+2026-01-02", "-0001-01-02", "0000-01-01", "0001-01-01", "026-01-02", "2026-",
    "2026-13-01", "2026-02-29", "2024-02-29", "1900-02-29", "2026-00-10", "2026-11-00", "2026-11-31", "20261128",
    "12026-11-28", "112026-11-28", "1112026-11-28", "11112026-11-28", "2026-11-28 24:00:00", "2026-11-28 23:59:60",
    "2026-11-28 23:60:00", "2026-11-28 10:00:00.", "2026-11-28 10:00:00.1", "2026-11-28 10:00:00.12Z",
    "2026-11-28 10:00:00.1234567890123Z", "2026-11-28 10:00:00,5", "28.11.2026", "11/28/2026", "2026/11/28",
    "2026-03-08 02:30:00", "2026-11-01 01:30:00", "1883-11-18 12:00:00", "1500-01-01 00:00:00",
    "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "294247-01-10 04:00:54.775807",
    "294247-01-10 04:00:54.775808", "-290308-12-21 19:59:05.224192", "294248-01-01", "2026-11-28  10:00:00",
    "2026-11-28 10:00:00 ", "2026-11-28 -10:00:00", "", "now", "epoch", "today", "null", "T", "10", "x",
    "2026-11-28T10:00:00+01:00[Europe/Berlin]", "2026-11-28 10:00:00 America/New_York", "2026-11-28\t10:00:00",
    "２０２６-11-28",
]  # fmt: skip

INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
FLOATS = {"float": pa.float32(), "double": pa.float64()}
DECIMALS = [(9, 2), (5, 2), (3, 3), (38, 10)]


@pytest.fixture
def sparks(session: SparkSession) -> Iterator[Any]:
    """What Spark's own cast makes of texts in a mode and a zone, null for what it reads nothing in."""
    before = {name: session.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}

    def read(texts: list[str], kind: str, rules: Rules, shown: str = "{}") -> list[Any]:
        session.conf.set("spark.sql.ansi.enabled", str(rules.ansi).lower())
        session.conf.set("spark.sql.session.timeZone", rules.zone)
        frame = session.createDataFrame([(at, text) for at, text in enumerate(texts)], "at int, text string")
        word = "try_cast" if rules.ansi else "cast"
        return [
            row.it
            for row in frame.orderBy("at").select(F.expr(shown.format(f"{word}(text AS {kind})")).alias("it")).collect()
        ]

    yield read
    for name, value in before.items():
        session.conf.set(name, value)


def held(texts: list[str], ours: list[Any], theirs: list[Any]) -> None:
    """Texts that are read differently."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            return repr(one) == repr(other)
        return bool(one == other)

    different = {
        text: (one, other) for text, one, other in zip(texts, ours, theirs, strict=True) if not same(one, other)
    }
    assert different == {}, "ours, and Spark's"


def alone(texts: list[str], kind: pa.DataType, rules: Rules) -> list[Any]:
    """Each read beside others, and by itself, is the same."""
    together = cast(texts, kind, rules)
    if not pa.types.is_floating(kind):  # in which one thing is not equal to itself
        assert [cast([text], kind, rules)[0] for text in texts[:100]] == list(together)[:100]
    return together.to_pylist()


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "not ansi"])
def test_numbers_and_words(sparks: Any, ansi: bool) -> None:
    """Made-up ones too, of what numbers are made of."""
    chance, rules = random.Random(7), Rules(ansi)
    texts = [*NUMBERS, *("".join(chance.choices("0123456789+-.eE dfx_", k=chance.randint(1, 7))) for _ in range(1000))]
    for name, kind in (INTEGERS | FLOATS).items():
        held(texts, alone(texts, kind, rules), sparks(texts, name, rules))
    for precision, scale in DECIMALS:
        kind = pa.decimal128(precision, scale)
        held(texts, alone(texts, kind, rules), sparks(texts, f"decimal({precision},{scale})", rules))
    held(WORDS, alone(WORDS, pa.bool_(), rules), sparks(WORDS, "boolean", rules))


@pytest.mark.parametrize("zone", ZONES)
def test_dates_and_times(sparks: Any, zone: str) -> None:
    """As days and microseconds, for Python has no year of five digits; a time that names no zone is the session's."""
    chance, rules = random.Random(7), Rules(zone=zone)
    texts = [
        *MOMENTS,
        *(
            "".join(chance.choice([c, c, c, c, c, *"09-: T.Z+"]) for c in "2026-11-28 10:00:00.5+01:00")
            for _ in range(1000)
        ),
    ]
    texts = [text for text in texts if not text.lstrip("-").isdecimal() or len(text) < 7]
    days = cast(texts, pa.date32(), rules).cast(pa.int32()).to_pylist()
    held(texts, days, sparks(texts, "date", rules, "unix_date({})"))
    micros = cast(texts, pa.timestamp("us", "UTC"), rules).cast(pa.int64()).to_pylist()
    held(texts, micros, sparks(texts, "timestamp", rules, "unix_micros({})"))
    bare = cast(texts, pa.timestamp("us"), rules).cast(pa.int64()).to_pylist()
    held(texts, bare, sparks(texts, "timestamp_ntz", Rules(zone="UTC"), "unix_micros(CAST({} AS timestamp))"))


def test_milliseconds_since_1970_are_read_too() -> None:
    """Ours: what has more digits than a year, where Spark reads nothing."""
    for text, ms in {"1769851800000": 1769851800000, "-1000000": -1000000, "9" * 19: None}.items():
        assert cast([text], pa.timestamp("us", "UTC"), Rules()).cast(pa.int64()).to_pylist() == [ms and ms * 1000], text
    assert cast(["1769851800000"], pa.date32(), Rules()).to_pylist()[0].isoformat() == "2026-01-31"


def test_a_time_alone_is_todays() -> None:
    """As Spark has it, in its zone; not without one."""
    [moment] = cast(["T10:30"], pa.timestamp("us", "UTC"), Rules(zone="+05:30")).to_pylist()
    assert (moment.hour, moment.minute) == (5, 0)
    assert cast(["10:30"], pa.timestamp("us"), Rules()).to_pylist() == [None]
    assert zone_of("nowhere") is None


def test_plain_columns_are_read_as_odd_ones_are() -> None:
    """What Arrow reads by itself, and what is read text by text as there is another among them."""
    for kind, texts in {
        pa.int32(): ["1", "-123456789", None],
        pa.float64(): ["1.5", "-0.1", "123456789012345.5"],
        pa.decimal128(9, 2): ["1.5", "-1234567.89", "0"],
        pa.bool_(): ["true", "false"],
    }.items():
        assert cast(texts, kind, Rules()).to_pylist() == cast([*texts, "?"], kind, Rules()).to_pylist()[:-1]
    assert cast(["193.205"], pa.decimal128(9, 2), Rules()).to_pylist() == [Decimal("193.21")]
