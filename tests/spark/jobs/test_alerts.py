"""Alerts: the state of an instrument goes from batch to batch, and what a message says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.jobs import alerts
from spark.jobs.scorer import Limits
from tests.support.prices import NOON, frame, message
from tests.support.streams import outcome

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("light")]


@pytest.mark.slow
def test_the_state_of_each_instrument_goes_from_batch_to_batch(session: SparkSession, tmp_path: Path) -> None:
    first = [message("IBM", seq, NOON + seq * 1000, "100.00" if seq % 2 else "100.10", change="0") for seq in range(40)]
    second = [
        # Out of order within the batch: 112 is the last, and critical; 100.40 is a step of ten deviations and more.
        message("IBM", 43, NOON + 43_000, "112.00", change="12.00"),
        message("IBM", 41, NOON + 41_000, "101.00", change="0"),
        message("IBM", 42, NOON + 42_000, "101.10", change="0"),
        message("T", 1, NOON, "30.00", change="-1.75"),
    ]
    third = [
        message("IBM", 44, NOON + 44_000, "112.00", change="12.00"),
        message("T", 2, NOON + 1, "30.00", change="-1.75"),
    ]
    limits = Limits(change_pct=(5.0, 10.0), zscore=(6.0, 50.0))
    rows = outcome(
        [frame(session, part) for part in (first, second, third)],
        lambda ticks: alerts.messages(alerts.transform(ticks, limits)),
        tmp_path,
    )
    told = sorted(
        (row.subject, row.fields["kind"], row.fields["level"], int(row.fields["time"]) - NOON) for row in rows
    )
    assert told == [
        ("/alerts/us/IBM", "threshold", "critical", 43_000),
        ("/alerts/us/IBM", "zscore", "critical", 43_000),
        ("/alerts/us/IBM", "zscore", "warning", 41_000),
        ("/alerts/us/T", "threshold", "warning", 0),
    ]
    (fall,) = (row for row in rows if row.subject == "/alerts/us/T")
    assert fall.content == "T at 30.00: -5.51 % since the close before"
    assert fall.fields == {
        "symbol": "T",
        "kind": "threshold",
        "level": "warning",
        "price": "30.00",
        "value": "-5.51",
        "limit": "5.00",
        "time": str(NOON),
    }
    step = next(row for row in rows if row.fields["kind"] == "zscore" and row.fields["level"] == "warning")
    assert step.content.startswith("IBM at 101.00: a step of +")
    assert step.content.endswith(" standard deviations")
