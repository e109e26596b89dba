"""Publishes the batches of a query from the driver, exactly once, without a Python worker: for batches of few rows.

Spark calls a data source written in Python through workers, several times in each batch; where a batch has a few rows
that is nearly all it costs. Rows, checks and transactions are those of `spark.sink`, so a query may go on from the
checkpoint of one that wrote through the data source.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    given = SinkOptions.parse(options)
    query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    transaction = f"{query}:{given.transaction}" if given.transaction else str(query)
    writer = DriverWriter(batch.schema, given, transaction, number)
    rows = batch.toArrow()
    if rows.num_rows:
        writer.commit([writer.write(iter(rows.to_batches()))])
