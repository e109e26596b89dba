"""The PySpark data source `realtime`: writes the rows of a DataFrame to the sidecar's publisher port.

Every row of a batch is acknowledged before Spark sees the batch as written; a refused row fails it. Executors import
this module, so it needs only PySpark, PyArrow and fastpath.client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from fastpath.client.publisher import Publisher
from spark.options import InvalidOption, SinkOptions
from spark.rows import RowBuilder

if TYPE_CHECKING:
    import pyarrow as pa

FLUSH_ROWS = 50_000
"""After so many rows their acknowledgements are awaited: until then their subjects are kept, for errors."""


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

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one partition; returns when all are acknowledged.

        Raises RowRefused, spark.rows.InvalidRow, and what the publisher raises when no sidecar answers in time.
        """
        publisher = _publisher(self._options)
        try:
            return Written(self._publish(publisher, iterator))
        except BaseException:
            # It may hold rows of this batch, which the next one must not send.
            _forget(publisher)
            raise

    def _publish(self, publisher: Publisher, iterator: Iterator[pa.RecordBatch]) -> int:
        flushed = 0
        subjects: list[str] = []
        for batch in iterator:
            rows = self._builder.rows(batch, flushed + len(subjects) + 1)
            subjects += [row[0] for row in rows]
            for start in range(0, len(rows), self._options.batch_rows):
                publisher.send_batch(rows[start : start + self._options.batch_rows])
            if len(subjects) >= FLUSH_ROWS:
                flushed += _flush(publisher, subjects, flushed)
        return flushed + _flush(publisher, subjects, flushed)


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


_publishers: dict[SinkOptions, Publisher] = {}
"""Of this worker process, which does one task at a time: the next batch uses the same connection."""


def _publisher(options: SinkOptions) -> Publisher:
    publisher = _publishers.get(options)
    if publisher is None:
        publisher = Publisher(
            options.url, token=options.token or None, publisher=options.publisher, retry_seconds=options.retry_seconds
        )
        _publishers[options] = publisher
    return publisher


def _forget(publisher: Publisher) -> None:
    for options, known in list(_publishers.items()):
        if known is publisher:
            del _publishers[options]
    publisher.close()


def _flush(publisher: Publisher, subjects: list[str], flushed: int) -> int:
    """Wait for the acknowledgement of the rows with these subjects, and forget them; answers how many they were."""
    try:
        publisher.flush()
    except RefusedMessage as refused:
        context = TaskContext.get()
        where = f"row {flushed + refused.index + 1} of partition {context.partitionId() if context else 0}"
        raise RowRefused(
            f"{where}, subject {subjects[refused.index]}, was refused by the sidecar, {refused.code}: {refused.reason}"
        ) from None
    count = len(subjects)
    subjects.clear()
    return count
