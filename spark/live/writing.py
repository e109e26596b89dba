"""Starts a query that publishes in real-time mode, after all that can be checked before its first row."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fastpath.client.errors import ClientError, ConnectionRejected
from fastpath.client.publisher.connection import address
from fastpath.client.publisher.publisher import Publisher
from spark.live import compiling
from spark.live.columns import prepared
from spark.live.options import LiveOptions
from spark.live.promise import LiveRefused, Promise, at_least_once, promise_of

PYSPARK_MIN = (4, 1)
TRIGGER = "5 minutes"
TRIGGER_MS_LOW = 60_000
"""Milliseconds of a trigger below which a warning is due: between batches nothing flows for tenths of a second."""

PROBE_SECONDS = 5.0
MIN_BATCH = "spark.sql.streaming.realTimeMode.minBatchDuration"

log = logging.getLogger("spark.realtime")


def write(frame: DataFrame, *, trigger: str = TRIGGER, output_mode: str = "update", **options: Any) -> StreamingQuery:
    """Start a query that publishes each row within milliseconds of its record's arrival in Kafka.

    ``trigger`` is how long a batch takes, as Spark writes durations; ``options`` are those of the sink that
    docs/develop/spark-live.md lists, with Spark's own ``checkpointLocation`` and ``queryName``. What holds, once or at
    least once, is told to the log ``spark.realtime`` before the start. Raises LiveRefused, spark.options.InvalidOption,
    spark.sink.rows.InvalidColumns, each with one line.
    """
    session = _session(frame)
    given = LiveOptions.parse(options)
    _check_mode(output_mode)
    check_trigger(session, trigger)
    promise = promised(frame, **options)
    made = prepared(frame, given.sink, once=promise.once)
    check_sidecar(given)
    writer = compiling.new_writer(
        session.sparkContext, made.settings | java_settings(session, given, once=promise.once)
    )
    log.log(logging.INFO if promise.once else logging.WARNING, "%s", promise.words)
    stream = made.frame.writeStream.outputMode(output_mode).options(**given.spark).trigger(realTime=trigger)
    stream._jwrite.foreach(writer)
    return stream.start()


def promised(frame: DataFrame, **options: Any) -> Promise:
    """Return what holds of a query that ``write`` starts with the same; raise as ``write`` does."""
    _session(frame)
    given = LiveOptions.parse(options)
    promise = promise_of(frame)
    if given.delivery == "exactly_once" and not promise.once:
        raise LiveRefused(f"delivery exactly_once cannot be had for this query: {promise.words}")
    if given.delivery == "at_least_once" and promise.once:
        return at_least_once("as delivery says")
    return promise


def _session(frame: DataFrame) -> SparkSession:
    """Return the frame's session; raise LiveRefused where it cannot run a query in real-time mode."""
    if not hasattr(frame, "_jdf"):
        raise LiveRefused(
            "over Spark Connect no Java writer can be given to a query: start it in a driver, such as by spark-submit"
        )
    found = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if found < PYSPARK_MIN:
        raise LiveRefused(
            f"PySpark {pyspark.__version__} has no real-time mode: install {'.'.join(map(str, PYSPARK_MIN))} or newer"
        )
    return frame.sparkSession


def _check_mode(output_mode: str) -> None:
    if output_mode.lower() != "update":
        raise LiveRefused(f"real-time mode has output mode update alone, not {output_mode}: leave output_mode out")


def check_trigger(session: SparkSession, trigger: str) -> None:
    """Raise LiveRefused for what is no duration, or too short for Spark; warn of one that is felt."""
    java = session.sparkContext._jvm
    assert java is not None
    try:
        wanted = int(java.org.apache.spark.sql.streaming.Trigger.RealTime(trigger).batchDurationMs())
    except (Py4JJavaError, PySparkException):
        raise LiveRefused(f"trigger {trigger!r} is no duration: give one such as {TRIGGER!r}") from None
    shortest = str(session.conf.get(MIN_BATCH, "5000"))
    least = int(java.org.apache.spark.network.util.JavaUtils.timeStringAsMs(shortest))
    if wanted < least:
        raise LiveRefused(f"trigger {trigger!r} is under the {least / 1000:g} s that {MIN_BATCH} asks for")
    if wanted < TRIGGER_MS_LOW:
        log.warning(
            "with trigger %r nothing flows for some tenths of a second each %g s, between two batches: give a minute "
            "or more",
            trigger,
            wanted / 1000,
        )


def check_sidecar(given: LiveOptions) -> None:
    """Raise LiveRefused where the sidecar refuses the token; warn where none answers: rows wait for it."""
    faults = []
    for url in given.sink.url.split(","):
        publisher = Publisher(
            url,
            given.sink.token or None,
            timeout_seconds=min(PROBE_SECONDS, given.timeout_seconds),
            retry_seconds=0,
            tls=given.sink.tls(),
        )
        try:
            publisher.connect()
            return
        except ConnectionRejected as error:
            raise LiveRefused(f"the sidecar {url} does not let this query publish: {error}") from None
        except ClientError as error:
            faults.append(str(error))
        finally:
            publisher.close()
    log.warning(
        "no sidecar answers at %s: rows wait for it for %g s (%s)", given.sink.url, given.retry_seconds, faults[-1]
    )


def java_settings(session: SparkSession, given: LiveOptions, *, once: bool) -> Mapping[str, Any]:
    """Return what LiveWriter.java has to know beside the columns; all texts but the lists."""
    sink = given.sink
    if sink.ca_file:
        sink.tls()
    found = [address(url) for url in sink.url.split(",")]
    hadoop = {
        name.removeprefix("spark.hadoop."): value
        for name, value in session.sparkContext.getConf().getAll()
        if name.startswith("spark.hadoop.")
    }
    return {
        "once": str(once).lower(),
        "url": sink.url,
        "hosts": [host for host, _, _ in found],
        "ports": [port for _, port, _ in found],
        "tls": [tls or bool(sink.ca_file) for _, _, tls in found],
        "ca_file": sink.ca_file,
        "token": sink.token,
        "query": "",
        "dead_letter": sink.dead_letter,
        "hadoop": hadoop,
        "frame_bytes": str(given.frame_bytes),
        "linger_us": str(round(given.linger_ms * 1000)),
        "window": str(given.window),
        "buffer_bytes": str(given.buffer_bytes),
        "retry_ms": str(round(given.retry_seconds * 1000)),
        "timeout_ms": str(round(given.timeout_seconds * 1000)),
    }
