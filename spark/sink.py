"""The PySpark data source `realtime`: writes the rows of a DataFrame to the sidecar's publisher port.

Every row of a batch is acknowledged before Spark sees the batch as written; a refused row fails it. Executors import
this module, so it needs only PySpark, PyArrow, msgspec and fastpath.client.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from fastpath.client.errors import RefusedMessage
from fastpath.client.publisher import Publisher, Row
from spark.options import InvalidOption, SinkOptions
from spark.rows import RowBuilder

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 50_000
"""So many rows are gathered, published and acknowledged together."""

FORGOTTEN = frozenset({"stale", "out_of_order"})
"""The results of rows whose numbers were used before, with an outcome that is not remembered (protocol.md 4.4)."""

_encode = msgspec.msgpack.Encoder().encode


class RowRefused(RuntimeError):
    """The sidecar refused a row; the text names the row, its subject, the code (protocol.md 4.4) and the reason."""


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote, all of them acknowledged."""

    rows: int


class RealtimeSource(DataSource):
    """`format("realtime")`; the options are those of spark.options.OPTIONS."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return "realtime"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`; raises InvalidOption or spark.rows.InvalidColumns."""
        if overwrite:
            raise InvalidOption(
                'format "realtime" only appends, what is published cannot be taken back: .mode("append")'
            )
        return BatchWriter(schema, SinkOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`; in output mode complete each trigger publishes the whole result again."""
        return StreamWriter(schema, SinkOptions.parse(self.options))


class _Writer:
    """What both writers share; it travels to the executors."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._options = options
        self._builder = RowBuilder(schema, options)
        self._write = secrets.token_hex(8)  # the same for every attempt at a task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one partition; returns when all are acknowledged.

        Raises RowRefused, spark.rows.InvalidRow, and what the publisher raises when no sidecar answers in time.
        """
        task = _task(self._write)
        rows: list[Row] = []
        done = 0
        for batch in iterator:
            rows += self._builder.rows(batch, done + len(rows) + 1)
            while len(rows) >= GROUP_ROWS:
                _publish(self._options, f"{task}:{done}", rows[:GROUP_ROWS], done)
                del rows[:GROUP_ROWS]
                done += GROUP_ROWS
        if rows:
            _publish(self._options, f"{task}:{done}", rows, done)
        return Written(done + len(rows))


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame once."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is left to do: each task returned only when its rows were acknowledged.

        With trigger(continuous=…) Spark commits epochs whose rows it gave to no task: raises InvalidOption then.
        """
        if not all(isinstance(message, Written) for message in messages):
            raise InvalidOption(
                'nothing was published: format "realtime" has no continuous processing. '
                'Use trigger(processingTime="…") instead of trigger(continuous="…")'
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing can be done: what was published stays published, and Spark will publish the batch again."""


def _task(write: str) -> str:
    """What is the same when this task is tried again: of a query also after its restart from the checkpoint."""
    context = TaskContext.get()
    if context is None:
        return write
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    return f"{f'{query}:{batch}' if query and batch else write}:{context.partitionId()}"


def _publish(options: SinkOptions, task: str, rows: list[Row], done: int) -> None:
    """Publish rows and wait for all; those of an earlier attempt with the same rows in the same order only once.

    A digest of the rows is in the publisher's name: were rows of another order numbered alike, some would be taken for
    rows that came before, and lost.
    """
    digest = hashlib.blake2b(_encode(rows), digest_size=12).hexdigest()
    refused = _send(options, rows, name=f"{options.publisher}:{task}:{digest}", first=1)
    if refused is not None and refused.code in FORGOTTEN:
        # What came of the earlier attempt is not remembered any more: better twice than never.
        refused = _send(options, rows, name=options.publisher, first=None)
    if refused is not None:
        context = TaskContext.get()
        where = f"row {done + refused.index + 1} of partition {context.partitionId() if context else 0}"
        raise RowRefused(
            f"{where}, subject {rows[refused.index][0]}, was refused by the sidecar, {refused.code}: {refused.reason}"
        )


def _send(options: SinkOptions, rows: list[Row], name: str, first: int | None) -> RefusedMessage | None:
    """Send rows and wait until each is answered; the first that was refused, preferably for being forgotten."""
    publisher = Publisher(
        options.url, token=options.token or None, publisher=name, first=first, retry_seconds=options.retry_seconds
    )
    try:
        for start in range(0, len(rows), options.batch_rows):
            publisher.send_batch(rows[start : start + options.batch_rows])
        refused = publisher.flush(raise_refused=False).refused
    finally:
        publisher.close()
    return next((one for one in refused if one.code in FORGOTTEN), refused[0] if refused else None)
