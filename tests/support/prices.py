"""Prices as the feed publishes them, as rows for the jobs that read them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.jobs.prices import prices

NOON = 1_700_049_600_000
"""2023-11-15 12:00:00 UTC in milliseconds."""

_MESSAGE = "subject string, content string, fields map<string,string>, epoch long, seq long, time timestamp"


def message(symbol: str, seq: int, ms: int, price: str, **fields: str) -> tuple[Any, ...]:
    """One message of the feed, stored at `ms`."""
    return f"/stocks/us/{symbol}", price, fields, 1, seq, datetime.fromtimestamp(ms / 1000, UTC)


def frame(session: SparkSession, messages: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Messages as the jobs get them."""
    return prices(session.createDataFrame(list(messages), _MESSAGE))
