"""From a row's acceptance through Spark to the acceptance of what Spark made of it, at 1,000 messages a second."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from fastpath.client.blocking import connect
from fastpath.client.publisher.publisher import Publisher
from spark.bench.serving import BenchError, Server, sidecar
from spark.bench.tables import Figure

EVERY_SECONDS = 0.02
ROWS = 20
SUBJECTS = 50
WARM_SECONDS = 15.0
SECONDS = 20.0
WAIT_SECONDS = 60.0


def measure(session: SparkSession, repeat: int) -> list[Figure]:
    """Measure three ways back into the sidecar."""
    kinds: list[tuple[str, Callable[[DataFrame, Server], object], float | None, float]] = [
        ("exactly once", _exactly_once, 220, 450),
        ("foreachBatch", _for_each, None, 350),
        ("live bars (update mode, foreachBatch)", _bars, None, 500),
    ]
    figures = []
    for name, start, p50, p99 in kinds:
        runs = [_run(session, start) for _ in range(repeat)]
        what = f"row accepted → Spark → row accepted, {name}"
        figures += [
            Figure(f"{what}, p50", "ms", [_quantile(run, 0.5) for run in runs], p50, least=False),
            Figure(f"{what}, p99", "ms", [_quantile(run, 0.99) for run in runs], p99, least=False),
        ]
    return figures


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def _run(session: SparkSession, start: Callable[[DataFrame, Server], StreamingQuery]) -> list[float]:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint, sidecar() as server:
        source = session.readStream.format("realtime").option("url", server.url).option("subjects", "/in/*")
        frame = source.option("start", "latest").option("wait_ms", 200).load()
        query = start(frame, server).option("checkpointLocation", checkpoint).start()  # type: ignore[attr-defined]
        try:
            with _publishing(server):
                return _listen(server, query)
        finally:
            query.stop()


def _listen(server: Server, query: StreamingQuery) -> list[float]:
    """Return the ages of what comes out, when the first has come and the warm-up is over."""
    ages = []
    with connect(server.clients) as client:
        began = 0.0
        deadline = time.monotonic() + WAIT_SECONDS
        for message in client.subscribe("/out/**"):
            moment = time.monotonic()
            began = began or moment
            if moment > began + WARM_SECONDS:
                ages.append(float(message.time - int(message.fields["since"])))
            if moment > began + WARM_SECONDS + SECONDS:
                break
            if not began and moment > deadline:
                raise BenchError(f"nothing comes out of Spark: {query.exception()}")
    return ages


@contextmanager
def _publishing(server: Server) -> Iterator[None]:
    """Publish 1,000 messages a second, until the block ends."""
    stop = threading.Event()

    def run() -> None:
        publisher = Publisher(server.url)
        number = 0
        due = time.monotonic()
        while not stop.is_set():
            rows = [
                (f"/in/S{n % SUBJECTS}", str(100 + n % 7), {"volume": "1"}, None) for n in range(number, number + ROWS)
            ]
            publisher.send_batch(rows)
            number += ROWS
            due += EVERY_SECONDS
            stop.wait(max(0.0, due - time.monotonic()))
        publisher.flush()
        publisher.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _out(symbol: str, since: Column) -> list[Column]:
    return [
        F.concat(F.lit("/out/"), symbol).alias("subject"),
        F.lit("").alias("content"),
        since.cast("string").alias("since"),
    ]


def _echo(frame: DataFrame) -> DataFrame:
    symbol = F.element_at(F.split("subject", "/"), -1)
    return frame.select(symbol.alias("symbol"), F.unix_millis("time").alias("at")).select(*_out("symbol", F.col("at")))


def _exactly_once(frame: DataFrame, server: Server):  # type: ignore[no-untyped-def]
    return _echo(frame).writeStream.format("realtime").option("url", server.url)


def _for_each(frame: DataFrame, server: Server):  # type: ignore[no-untyped-def]
    return _echo(frame).writeStream.foreachBatch(_writer(server))


def _bars(frame: DataFrame, server: Server):  # type: ignore[no-untyped-def]
    ticks = frame.select(
        F.element_at(F.split("subject", "/"), -1).alias("symbol"),
        F.col("content").cast("string").cast("decimal(12,2)").alias("price"),
        "time",
        F.unix_millis("time").alias("at"),
        "seq",
    )
    order = F.struct("time", "seq")
    bars = (
        ticks.withWatermark("time", "2 seconds")
        .groupBy(F.window("time", "1 second"), "symbol")
        .agg(
            F.min_by("price", order).alias("open"),
            F.max("price").alias("high"),
            F.min("price").alias("low"),
            F.max_by("price", order).alias("close"),
            F.max("at").alias("at"),
        )
    )
    shown = bars.select(*_out("symbol", F.col("at")), "open", "high", "low", "close")
    return shown.writeStream.outputMode("update").foreachBatch(_writer(server))


def _writer(server: Server) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        del batch
        frame.write.format("realtime").mode("append").option("url", server.url).option(
            "delivery", "at_least_once"
        ).save()

    return write
