"""The Spark job that is killed: `rows` writes numbers, each attempt in another order, `bars` makes bars of ticks.

In the folder of failpoints a file `armed-NAME` makes the next commit that comes to the point NAME wait there, after
renaming it to `reached-NAME`: whoever armed it kills the job then.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from spark.datasource import RealtimeSource
from spark.jobs import prices, simulation, ticks
from spark.jobs.running import LIGHT
from spark.options import SinkOptions
from spark.session import build
from spark.sink.sink import StreamWriter
from spark.support import histories
from tests.support.spark import sql_bars

BATCH_ROWS = 2000
SUBJECTS = 40
FAILING = 0.1
"""Part of the tasks that raise at their first attempt, in the middle of their rows."""

TICKS = 5000
SYMBOLS = 200
TICKS_PER_MS = 10
LATE_SECONDS = 30
KEPT = ("volume", "sent", "simulated")


class FailingWriter(StreamWriter):
    """The product's writer, with two failpoints."""

    folder = ""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """As the product's, between the points `before` and `after`."""
        self._point("before")
        super().commit(messages, batchId)
        self._point("after")

    def _point(self, name: str) -> None:
        armed = Path(self.folder, f"armed-{name}")
        if armed.exists():
            armed.rename(armed.with_name(f"reached-{name}"))
            while True:
                time.sleep(1)  # until it is killed


class Failing(RealtimeSource):
    """`format("failing")`: the option `failpoints` names the folder."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return "failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The product's, with failpoints."""
        options = dict(self.options)
        folder = options.pop("failpoints")
        writer = FailingWriter(schema, SinkOptions.parse(options))
        writer.folder = folder
        return writer


def unsteady(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in an order that no other attempt has; some first attempts fail in the middle."""
    context = TaskContext.get()
    assert context is not None
    chance = random.SystemRandom()
    fails = context.attemptNumber() == 0 and chance.random() < FAILING
    for batch in batches:
        order = list(range(batch.num_rows))
        chance.shuffle(order)
        half = len(order) // 2
        yield batch.take(pa.array(order[:half], pa.int64()))
        if fails:
            raise RuntimeError("a task that fails, as was asked")
        yield batch.take(pa.array(order[half:], pa.int64()))


def rows(session: SparkSession, options: argparse.Namespace) -> list[StreamingQuery]:
    """Numbers over 40 subjects; batch b has those from b × BATCH_ROWS on."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS)
    numbers = source.option("numPartitions", 4).load().select("value").repartition(3)
    shuffled = numbers.mapInArrow(unsteady, "value long")
    messages = shuffled.select(
        F.concat(F.lit("/checked/"), F.col("value") % SUBJECTS).alias("subject"),
        F.col("value").cast("string").alias("content"),
    )
    return [_write(messages, options, "rows")]


def made_ticks(session: SparkSession, options: argparse.Namespace) -> list[StreamingQuery]:
    """Simulated ticks, ten in each millisecond of their own time, and the bars of what the sidecar then has of them."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", TICKS).option("numPartitions", 2)
    updates = simulation.updates(source.load(), histories.histories(session), SYMBOLS, ticks_per_day=500)
    # The step of an instrument tells when it was: every SYMBOLS ticks it moves on by one.
    sent = F.lit(options.base_ms) + F.col("step") * F.lit(SYMBOLS // TICKS_PER_MS)
    messages = ticks.messages(updates, sent, simulated="price,volume")
    fields = F.map_filter("fields", lambda name, _: name.isin(*KEPT))
    return [
        _write(messages.withColumn("fields", fields).drop("as_of"), options, "ticks"),
        _write(bar_messages(session, options), options, "bars"),
    ]


def bar_messages(session: SparkSession, options: argparse.Namespace) -> DataFrame:
    """The final bars of the ticks as messages."""
    source = session.readStream.format("realtime").options(url=options.url, subjects="/stocks/us/*", start="earliest")
    return transformed(source.load())


def transformed(messages: DataFrame) -> DataFrame:
    """Ticks as they were read, stream or batch, to final bars as messages: the manual's bars in SQL."""
    made: DataFrame = sql_bars.module().bars(prices.prices(messages), 1, LATE_SECONDS)
    return made.drop("start")


def _write(messages: DataFrame, options: argparse.Namespace, name: str) -> StreamingQuery:
    writer = messages.writeStream.format("failing").queryName(name)
    writer = writer.options(url=options.url, retry_seconds=120, failpoints=options.failpoints)
    writer = writer.option("checkpointLocation", str(Path(options.checkpoint, name)))
    return writer.trigger(processingTime="0 seconds").start()


def main() -> int:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rows", "bars"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--failpoints", required=True)
    parser.add_argument("--base-ms", type=int, default=0)
    options = parser.parse_args()
    # Tasks are tried three times: plain local[2] fails a query at the first.
    session = build("exactly once", **LIGHT | {"spark.master": "local[2,3]"})
    session.dataSource.register(Failing)
    started = rows(session, options) if options.what == "rows" else made_ticks(session, options)
    print("started", flush=True)
    while all(query.isActive for query in started):
        session.streams.awaitAnyTermination(1)
    for query in started:
        if query.exception() is not None:
            print(f"query {query.name} failed: {query.exception()}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
