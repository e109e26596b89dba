"""Publishes the batches of a query from the driver, exactly once, without a Python worker: for batches of few rows.

Spark calls a data source written in Python through workers, several times in each batch; where a batch has a few rows
that is nearly all it costs. Rows, checks and transactions are those of `spark.sink`, so a query may go on from the
checkpoint of one that wrote through the data source.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark.options import SinkOptions
from spark.sink.sink import BatchWriter, Place


class DriverWriter(BatchWriter):
    """Writes one batch of a query in this process; ``transaction`` and ``batch`` are what it is known by."""

    def __init__(self, schema: StructType, options: SinkOptions, transaction: str, batch: int) -> None:
        super().__init__(schema, options)
        self._known = Place(transaction, batch, 0, batch)

    def _place(self) -> Place:
        return self._known


def publish(batch: DataFrame, number: int, options: Mapping[str, str]) -> None:
    """Publish all rows of a batch within foreachBatch, in their order; all of them pass through the driver's memory.

    `options` are those of format `realtime`; with `transaction` this write is one of several of the batch. Raises
    what `spark.sink` raises.
    """
    named = options.get("transaction", "")
    query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    publish_table(batch.toArrow(), batch.schema, f"{query}:{named}" if named else str(query), number, options)


def publish_table(
    rows: pa.Table, schema: StructType, transaction: str, number: int, options: Mapping[str, str]
) -> None:
    """Publish rows that the driver has, in their order, as batch `number` of a transaction; none: nothing is done.

    `schema` is what Spark calls the columns of `rows`; raises what `spark.sink` raises.
    """
    if rows.num_rows:
        writer = DriverWriter(schema, SinkOptions.parse(options), transaction, number)
        writer.commit([writer.write(iter(rows.to_batches()))])
