"""Turns bars, moves and alerts into rows of Arrow, each of which is a message."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
from pyspark.sql import types as t

from spark.jobs.desk.board import Row
from spark.jobs.desk.windows import CENTS, Move
from spark.jobs.scorer import THRESHOLD, Alert

SCHEMA = t.StructType(
    [
        t.StructField("subject", t.StringType()),
        t.StructField("content", t.StringType()),
        t.StructField("fields", t.MapType(t.StringType(), t.StringType())),
        t.StructField("retained", t.BooleanType()),
        t.StructField("qos", t.StringType()),
        t.StructField("as_of", t.LongType()),
        t.StructField("version", t.LongType()),
    ]
)
ARROW = pa.schema(
    [
        ("subject", pa.string()),
        ("content", pa.string()),
        ("fields", pa.map_(pa.string(), pa.string())),
        ("retained", pa.bool_()),
        ("qos", pa.string()),
        ("as_of", pa.int64()),
        ("version", pa.int64()),
    ]
)
PLAIN = ("subject", "content", "fields", "retained", "qos")
"""The columns that all messages have."""
_FINE = Decimal("0.0001")
_HUNDREDTH = Decimal("0.01")


def bars(rows: Iterable[Row], final: bool) -> pa.Table:
    """Return messages of bars.

    One that moves becomes the snapshot and is not cached, and has a version, so that an older state of it cannot follow
    a newer one; a final one is cached, and does not become the snapshot.
    """
    found = []
    for symbol, interval, start, end, bar in rows:
        fields = {
            "open": money(bar.open),
            "high": money(bar.high),
            "low": money(bar.low),
            "close": money(bar.close),
            "vwap": vwap(bar.turnover, bar.volume, bar.close),
            "volume": str(bar.volume),
            "ticks": str(bar.ticks),
            "start": str(start),
            "end": str(end),
            "final": "1" if final else "0",
            "symbol": symbol,
            "interval": interval,
        }
        if bar.simulated_price:
            fields["simulated"] = "open,high,low,close,vwap,volume"
        elif bar.simulated_volume:
            fields["simulated"] = "vwap,volume"
        quality = "guaranteed" if final else "standard"
        version = None if final else bar.last_ms
        subject = f"/bars-{interval}/us/{symbol}"
        found.append((subject, money(bar.close), fields, not final, quality, bar.last_ms, version))
    return _table(found)


def moves(rows: Iterable[Move], window: int) -> pa.Table:
    """Return messages of moves within windows of `window` ms, one of each instrument: who may not see it gets nothing.

    The version keeps an older window from following a newer one.
    """
    found = []
    for symbol, name, first, last, end in rows:
        fields = {"symbol": symbol, "price": money(last), "window_start": str(end - window), "window_end": str(end)}
        if name is not None:
            fields["name"] = name
        change = rounded(Decimal((last - first) * 100) / first)
        found.append((f"/movers/us/{symbol}", change, fields, True, "guaranteed", end, end))
    return _table(found)


def alerts(rows: Iterable[tuple[str, Alert]]) -> pa.Table:
    """Return messages of alerts, with one line of text for people."""
    found = []
    for symbol, alert in rows:
        price, value, limit = (rounded(Decimal(repr(one))) for one in (alert.price, alert.value, alert.limit))
        if alert.kind == THRESHOLD:
            text = f"{symbol} at {price}: {'+' if alert.value >= 0 else ''}{value} % since the close before"
        else:
            text = f"{symbol} at {price}: a step of {'+' if alert.value >= 0 else ''}{value} standard deviations"
        fields = {"symbol": symbol, "kind": alert.kind, "level": alert.level, "price": price}
        fields |= {"value": value, "limit": limit, "time": str(alert.time)}
        found.append((f"/alerts/us/{symbol}", text, fields, True, "guaranteed", alert.time, None))
    return _table(found)


def money(cents: int) -> str:
    """Return cents as a price with two digits."""
    return f"{cents // CENTS}.{cents % CENTS:02}"


def vwap(turnover: int, volume: int, close: int) -> str:
    """Return the average price weighted by volume, to a hundredth of a cent; the close without a volume."""
    average = Decimal(turnover) / CENTS / volume if volume else Decimal(close) / CENTS
    return str(average.quantize(_FINE, ROUND_HALF_UP))


def rounded(value: Decimal) -> str:
    """Return two digits behind the point; never a zero with a sign."""
    return str(value.quantize(_HUNDREDTH, ROUND_HALF_UP) + 0)


def _table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ARROW)
