"""Runs a job as a process: its command line, its session, its queries until a signal, and one line when it fails."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fastpath.java import JavaNotFound
from spark import direct
from spark.jobs.process import Stop, describe, end_java, java_errors, run_in_thread
from spark.progress import Reports
from spark.session import ConnectRefused, WorkersLack, build
from spark.support.histories import DataNotFound

URL_VARIABLE = "REALTIME_PUBLISH_URL"
TOKEN_VARIABLE = "REALTIME_PUBLISH_TOKEN"  # noqa: S105  the name of a variable
PROGRESS_SECONDS = 600
LIGHT = {
    "spark.driver.memory": "512m",
    # Batches of a few rows: compiling code for them costs more than it saves, at the start and in each batch.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # Nobody looks at Spark's pages: of jobs, stages and plans that are done, which it keeps by the thousand, few stay.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.ui.dagGraph.retainedRootRDDs": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.streaming.ui.retainedBatches": "10",
    "spark.sql.streaming.ui.retainedQueries": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # A task that waits for an absent sidecar is not waited for at the end.
    "spark.python.task.killTimeout": "500ms",
}
"""Settings of a session for queries whose batches are small."""

MESSAGE = {"subject", "content", "fields", "retained", "qos", "closure", "as_of", "version"}
"""The columns that make a message (docs/develop/spark.md)."""

Arguments = Callable[[argparse.ArgumentParser], None]
Queries = Callable[[SparkSession, argparse.Namespace, str], list[StreamingQuery]]
Work = Callable[[SparkSession, argparse.Namespace], None]


class JobError(ValueError):
    """A fault that the caller can put right, such as an argument; its text is the one line that the job ends with."""


def run(
    name: str,
    description: str,
    arguments: Arguments,
    queries: Queries,
    words: Sequence[str] | None = None,
    settings: Mapping[str, str] = LIGHT,
    doing: str = "publishing to",
) -> int:
    """Run streaming queries until a signal, or with --once until all that is there is done; the exit code.

    `arguments` adds the job's own to the common ones, `queries(session, options, checkpoint)` starts the queries and
    returns them; each keeps its position in a folder of its own inside of `checkpoint`. 0 after a signal, 1 with one
    line on stderr when a query failed. `words` is the command line, by default that of this process.
    """
    options = parse(name, description, streaming_arguments, arguments, words)

    def work(session: SparkSession, stop: Stop, scratch: str) -> None:
        with reported(name, options, stop) as reports:
            started = queries(session, options, options.checkpoint or scratch)
            stop.started(session)
            told = "all that is there" if options.once else f"a batch every {options.trigger_ms} ms"
            print(f"{name}: {doing} {options.url}, {told}", flush=True)
            watch(started, stop, reports)

    return _process(name, settings, work)


def run_batch(
    name: str,
    description: str,
    arguments: Arguments,
    work: Work,
    words: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Run `work(session, options)` once; 0, also after a signal, and 1 with one line on stderr when it failed."""
    options = parse(name, description, None, arguments, words)

    def once(session: SparkSession, stop: Stop, scratch: str) -> None:
        stop.started(session)
        with reported(name, options, stop) as reports:
            reports.state(name, "running")
            work(session, options)
            reports.state(name, "done")

    return _process(name, settings or {}, once)


def parse(
    name: str, description: str, common: Arguments | None, arguments: Arguments, words: Sequence[str] | None
) -> argparse.Namespace:
    """Parse the command line of `python -m spark.jobs.NAME`."""
    parser = argparse.ArgumentParser(
        prog=f"python -m spark.jobs.{name}",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description=description,
        epilog=f"The token is read from the environment variable {TOKEN_VARIABLE}." if common else None,
    )
    if common is not None:
        common(parser)
    arguments(parser)
    return parser.parse_args(words)


def token() -> str:
    """Return the token that the environment gives; empty where the sidecar asks for none."""
    return os.environ.get(TOKEN_VARIABLE, "")


def trigger(options: argparse.Namespace) -> dict[str, Any]:
    """Return what goes into `DataStreamWriter.trigger(**…)` for --trigger-ms and --once."""
    return {"availableNow": True} if options.once else {"processingTime": f"{options.trigger_ms} milliseconds"}


def sink(messages: DataFrame, options: argparse.Namespace, job: str) -> dict[str, str]:
    """Return the options of format `realtime` that every job's writer has; columns `as_of` and `version` are what they
    say."""
    return sink_of(messages.columns, options, job)


def sink_of(columns: Iterable[str], options: argparse.Namespace, job: str) -> dict[str, str]:
    """Return the same options for rows with these columns."""
    return {
        "url": options.url,
        "token": token(),
        "publisher": f"spark.jobs.{job}",
        "retry_seconds": str(options.retry_seconds),
        "job": job,
    } | {name: name for name in ("as_of", "version") if name in columns}


def publish(messages: DataFrame, options: argparse.Namespace, query: str, checkpoint: str) -> DataStreamWriter:
    """Return a writer that publishes each new row of `messages` exactly once; start it with `.start()`."""
    given = sink(messages, options, query)
    if options.from_driver:
        writer = messages.writeStream.foreachBatch(lambda batch, number: direct.publish(batch, number, given))
    else:
        writer = messages.writeStream.format("realtime").options(**given)
    return (
        writer.queryName(query)
        .outputMode("append")
        .option("checkpointLocation", os.path.join(checkpoint, query))
        .trigger(**trigger(options))
    )


@contextmanager
def reported(name: str, options: argparse.Namespace, stop: Stop) -> Iterator[Reports]:
    """Report to the sidecars of --url, or of the environment where a job has no such argument; end with the error."""
    reports = Reports(getattr(options, "url", None) or os.environ.get(URL_VARIABLE, ""), token())
    error = ""
    try:
        yield reports
    except Exception as failure:
        error = "" if stop.ending.is_set() else describe(failure)
        raise
    finally:
        reports.close(error, name)


def publish_batches(
    messages: DataFrame, options: argparse.Namespace, query: str, checkpoint: str, mode: str, order: Sequence[str]
) -> StreamingQuery:
    """Start a query that publishes each batch of `messages` exactly once, the rows of a subject by the columns `order`.

    For output mode `update`, which data sources written in Python do not take, and wherever rows of one subject can
    come out of several partitions. Columns that are no part of a message are left out of what is published.
    """
    several = messages.sparkSession.conf.get("spark.sql.shuffle.partitions") != "1"

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.repartition("subject") if several else batch
        rows = rows.sortWithinPartitions("subject", *order)
        rows = rows.select(*(name for name in batch.columns if name in MESSAGE))
        # The query and the batch number are known to the sink; the name tells this write from others of the batch.
        given = sink(batch, options, query) | {"transaction": query}
        if options.from_driver:
            direct.publish(rows, number, given)
        else:
            rows.write.format("realtime").mode("append").options(**given).save()

    return (
        messages.writeStream.foreachBatch(write)
        .queryName(query)
        .outputMode(mode)
        .option("checkpointLocation", os.path.join(checkpoint, query))
        .trigger(**trigger(options))
        .start()
    )


def watch(queries: Sequence[StreamingQuery], stop: Stop, reports: Reports) -> None:
    """Wait until a signal comes or all have ended; raises what one failed with. Reports how far they are each second,
    and says it now and then."""
    waited = 0
    while not stop.wait(1):
        waited += 1
        reports.tell(queries)
        for query in queries:
            if not query.isActive:
                query.awaitTermination()  # raises the query's error
        if not any(query.isActive for query in queries):
            return
        if waited % PROGRESS_SECONDS:
            continue
        for query in queries:
            progress = query.lastProgress
            if progress is not None:
                rows = progress.processedRowsPerSecond
                print(f"{query.name}: batch {progress.batchId}, {rows:.0f} rows/s", flush=True)


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return an argument type: a number above 0."""

    def number(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    return number


def streaming_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every job that runs queries."""
    parser.add_argument(
        "--url",
        default=os.environ.get(URL_VARIABLE, "127.0.0.1:8801"),
        help="the sidecar's publisher port, several with commas",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="folder that keeps the position, so that a restart goes on where it was; by default each start is a first",
    )
    parser.add_argument(
        "--trigger-ms", type=positive(int), default=300, metavar="MS", help="time from one micro-batch to the next"
    )
    parser.add_argument(
        "--retry-seconds",
        type=positive(float),
        default=60.0,
        metavar="S",
        help="how long to go on while no sidecar answers",
    )
    parser.add_argument("--once", action="store_true", help="do all that is there now, and end")
    parser.add_argument(
        "--from-driver",
        action="store_true",
        help="publish each batch from the driver instead of its tasks, exactly once as well: lighter while a batch has "
        "a few hundred rows",
    )


def _process(name: str, settings: Mapping[str, str], work: Callable[[SparkSession, Stop, str], None]) -> int:
    stop = Stop()
    return run_in_thread(lambda: _session(name, settings, work, stop))


def _session(
    name: str, settings: Mapping[str, str], work: Callable[[SparkSession, Stop, str], None], stop: Stop
) -> int:
    """Build the session, work, and end the JVM in order."""
    session = None
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as scratch:
        try:
            with java_errors(stop):
                session = build(name, **settings)
            work(session, stop, scratch)
        except Exception as error:
            if stop.ending.is_set():
                return 0  # the JVM was ended under our hands, as the signal demands
            known = isinstance(error, (JavaNotFound, ConnectRefused, WorkersLack, DataNotFound, JobError))
            print(f"{name}: {error if known else f'the job failed: {describe(error)}'}", file=sys.stderr, flush=True)
            return 1
        finally:
            end_java(session, stop)
    return 0
