"""Publishes an alert where the price of an instrument is out of bounds: `python -m spark.jobs.alerts --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery

from spark.jobs import prices, scorer
from spark.jobs.running import JobError, positive, publish, run

SUBJECT = "/alerts/us/"
STATE_MS_MAX = 7 * 86_400_000
"""Milliseconds by which others' prices are newer than an instrument's last before what is known of it is forgotten."""
OUTPUT = "symbol string, kind string, level string, price double, value double, limit double, time long"


class Watch(StatefulProcessor):
    """Judges the prices of each instrument in the order of their times (spark.jobs.scorer)."""

    def __init__(self, limits: scorer.Limits) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Make the state, as Spark asks before the first rows."""
        # Not with a time to live: that needs processing time, for which Spark runs empty batches without end.
        self._state = handle.getValueState("instrument", scorer.SCHEMA)
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Yield the alerts that a batch of one instrument's prices raises."""
        state = self._known()
        if state is None:
            state = scorer.InstrumentState()
        found = []
        for row in sorted(rows, key=lambda row: (row.ms, row.seq)):
            if not state.time:
                self._handle.registerTimer(row.ms + STATE_MS_MAX)
            state, alerts = scorer.judge(state, self._limits, row.ms, row.price, row.previous)
            found += alerts
        self._state.update(tuple(state))
        return iter([Row(symbol=key[0], **alert._asdict()) for alert in found])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """End the state, or set the instrument's one timer on where prices have come meanwhile."""
        state = self._known()
        if state is not None and state.time + STATE_MS_MAX > timerValues.getCurrentWatermarkInMs():
            self._handle.registerTimer(state.time + STATE_MS_MAX)
        else:
            self._state.clear()
        return iter(())

    def _known(self) -> scorer.InstrumentState | None:
        values = self._state.get() if self._state.exists() else None
        return None if values is None else scorer.InstrumentState(*values)

    def close(self) -> None:
        """Do nothing, as nothing is held open."""


def transform(ticks: DataFrame, limits: scorer.Limits | None = None, late_seconds: int = 2) -> DataFrame:
    """Make alerts of prices (`spark.jobs.prices`); columns `OUTPUT`, `time` in milliseconds since 1970.

    Prices of one batch are judged in the order of their times; one that is older than a judged one is not judged.
    """
    wanted = ticks.withWatermark("time", f"{late_seconds} seconds").select(
        "symbol",
        "time",
        F.unix_millis("time").alias("ms"),
        "seq",
        F.col("price").cast("double").alias("price"),
        F.col("previous").cast("double").alias("previous"),
    )
    return wanted.groupBy("symbol").transformWithState(
        statefulProcessor=Watch(limits or scorer.Limits()),
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="EventTime",
    )


def messages(alerts: DataFrame) -> DataFrame:
    """Make messages of alerts, with one line of text for people."""
    price = F.col("price").cast(prices.PRICE).cast("string")
    value = F.round("value", 2).cast("decimal(18,2)").cast("string")
    limit = F.round("limit", 2).cast("decimal(18,2)").cast("string")
    sign = F.when(F.col("value") >= 0, "+").otherwise("")
    text = F.when(
        F.col("kind") == scorer.THRESHOLD,
        F.concat("symbol", F.lit(" at "), price, F.lit(": "), sign, value, F.lit(" % since the close before")),
    ).otherwise(
        F.concat("symbol", F.lit(" at "), price, F.lit(": a step of "), sign, value, F.lit(" standard deviations"))
    )
    fields = {
        "symbol": F.col("symbol"),
        "kind": F.col("kind"),
        "level": F.col("level"),
        "price": price,
        "value": value,
        "limit": limit,
        "time": F.col("time").cast("string"),
    }
    return alerts.select(
        F.concat(F.lit(SUBJECT), "symbol").alias("subject"),
        text.alias("content"),
        F.create_map(*(part for name, field in fields.items() for part in (F.lit(name), field))).alias("fields"),
        F.timestamp_millis("time").alias("as_of"),
    )


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query; raises JobError."""
    limits = limits_of(options)
    alerts = messages(transform(prices.read(session, options), limits, options.late_seconds))
    return [publish(alerts, options, "alerts", checkpoint).start()]


def limits_of(options: argparse.Namespace) -> scorer.Limits:
    """Return the limits that the arguments say; raise JobError."""
    limits = scorer.Limits(
        change_pct=tuple(options.change_pct), zscore=tuple(options.zscore), quiet_ms=int(options.quiet_seconds * 1000)
    )
    for name, (warning, critical) in (("--change-pct", limits.change_pct), ("--zscore", limits.zscore)):
        if warning > critical:
            raise JobError(f"{name}: a warning comes before what is critical, {warning:g} is above {critical:g}")
    return limits


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments, with those of reading prices."""
    prices.arguments(parser)
    own_arguments(parser)


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    limits = scorer.Limits()
    for name, default, what in (
        ("--change-pct", limits.change_pct, "change since the close before in percent"),
        ("--zscore", limits.zscore, "standard deviations of a step"),
    ):
        parser.add_argument(
            name,
            type=positive(float),
            nargs=2,
            default=default,
            metavar=("WARNING", "CRITICAL"),
            help=f"{what} that raises an alert",
        )
    parser.add_argument(
        "--quiet-seconds",
        type=positive(float),
        default=limits.quiet_ms / 1000,
        metavar="S",
        help="after an alert, none of its kind for the instrument for so long, except a critical one after a warning",
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return run("alerts", f"Publishes alerts to {SUBJECT}SYMBOL.", arguments, start, words)


if __name__ == "__main__":
    sys.exit(main())
