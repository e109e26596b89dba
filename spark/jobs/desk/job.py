"""What the jobs bars, movers, alerts and live share: the arguments of each kind, and the query that they say."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.jobs import prices, scorer
from spark.jobs.desk import query
from spark.jobs.desk.board import Plan
from spark.jobs.running import Arguments, JobError, positive, run, sink_of, trigger

INTERVALS = {"1s": 1_000, "1m": 60_000, "1d": 86_400_000}
"""Milliseconds of each; they begin at full seconds, minutes and days UTC."""


def start(name: str) -> Callable[[SparkSession, argparse.Namespace, str], list[StreamingQuery]]:
    """Return what starts the query of that name, which makes all kinds that the arguments tell of; raises JobError."""

    def started(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
        plan = plan_of(options)
        if "://" in checkpoint:
            raise JobError(f"--checkpoint: {checkpoint} is no folder of the driver's machine, where the state is kept")
        given = {kind: sink_of(columns, options, kind) for kind, columns in query.PUBLISHED.items()}
        ticks = prices.read(session, options)
        return [query.start(name, ticks, plan, given, checkpoint, trigger(options))]

    return started


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan that the arguments say, without the kinds of which there are none; raise JobError."""
    given = vars(options)
    window, slide = given.get("window_seconds", 0), given.get("slide_seconds", 1)
    if window % slide:
        raise JobError("--window-seconds is no multiple of --slide-seconds")
    intervals = {name: INTERVALS[name] for name in given.get("intervals", ())}
    limits = limits_of(options) if "zscore" in given else None
    return Plan(options.late_seconds * 1000, intervals, window * 1000, slide * 1000, limits)


def limits_of(options: argparse.Namespace) -> scorer.Limits:
    """Return the limits that the arguments say; raise JobError."""
    limits = scorer.Limits(
        change_pct=tuple(options.change_pct), zscore=tuple(options.zscore), quiet_ms=int(options.quiet_seconds * 1000)
    )
    for name, (warning, critical) in (("--change-pct", limits.change_pct), ("--zscore", limits.zscore)):
        if warning > critical:
            raise JobError(f"{name}: a warning comes before what is critical, {warning:g} is above {critical:g}")
    return limits


def of_bars(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of bars."""
    parser.add_argument(
        "--intervals", type=_intervals, default=",".join(INTERVALS), metavar="LIST", help="of 1s, 1m, 1d; with commas"
    )


def _intervals(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(INTERVALS):
        raise argparse.ArgumentTypeError(f"{text!r}: there are {', '.join(INTERVALS)}")
    return names


def of_movers(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of movers."""
    parser.add_argument("--window-seconds", type=positive(int), default=60, metavar="S", help="length of the window")
    parser.add_argument("--slide-seconds", type=positive(int), default=5, metavar="S", help="from one to the next")


def of_alerts(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of alerts."""
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


def arguments(*kinds: Arguments) -> Arguments:
    """Return what adds the arguments of these kinds, with those of reading prices."""

    def add(parser: argparse.ArgumentParser) -> None:
        for each in (prices.arguments, *kinds):
            each(parser)

    return add


def main(name: str, does: str, kind: Arguments, words: Sequence[str] | None = None) -> int:
    """Run the job that makes one kind, until a signal; 0 then, 1 when the query failed."""
    return run(name, does, arguments(kind), start(name), words)
