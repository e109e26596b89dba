"""The reading half of the data source `realtime`: what a sidecar has cached, as batches and as a stream.

An offset is the position of each subject, so that a batch that is run again reads the same messages, or fails because
they are not there any more. Executors import this module, so it needs only PySpark, PyArrow, msgspec and
fastpath.client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from fastpath.client.errors import PublishTimeout
from fastpath.client.publisher.reading import Head, Missing, Range, Reader
from spark.arrival import Travels
from spark.source import positions
from spark.source.casts import rules_of_task
from spark.source.columns import ColumnBuilder, Unread
from spark.source.options import SourceOptions
from spark.source.positions import Offset

if TYPE_CHECKING:
    import pyarrow as pa

TASKS = 2
"""Tasks that read a batch, unless the option `partitions` says otherwise."""

TASK_ROWS = 20_000
"""A task more for so many messages: fewer are read sooner by one."""

CALL_SECONDS = 1
"""Seconds that one call of Spark's waits for a sidecar that is away; Spark calls again."""

log = logging.getLogger("spark.realtime")


class DataLost(RuntimeError):
    """Messages that were to be read are not there any more; the text names the subject and the numbers."""


@dataclass
class Part(InputPartition):
    """The ranges that one task reads."""

    ranges: list[Range]


class _Reader(Travels):
    """The base of both readers; it travels to the executors."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._options = options
        self._columns = ColumnBuilder(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one part, in the order of each subject; raise DataLost, and what the client raises."""
        assert isinstance(partition, Part)
        rules, unread = rules_of_task(), Unread()
        with self._open(self._options.retry_seconds) as reader:
            for runs in reader.read(partition.ranges):
                found = []
                for run in runs:
                    if isinstance(run, Missing):
                        self._lost(partition.ranges[run.at].subject, run)
                    else:
                        found.append(run)
                if found:
                    yield self._columns.batch(partition.ranges, found, rules, unread)
        if unread.counts:
            log.warning("values that cannot be read are null: %s", unread)

    def _open(self, retry_seconds: float) -> Reader:
        options = self._options
        return Reader(options.url, options.token or None, retry_seconds=retry_seconds, tls=options.tls())

    def _lost(self, subject: str, lost: Missing) -> None:
        text = f"{subject}: messages {lost.first} to {lost.last} are not there any more ({lost.why})"
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{text}. Read sooner, let the sidecar cache more (FASTPATH_CACHE_MESSAGES, _SECONDS, _BYTES), "
                "or go on without them: option fail_on_data_loss=false"
            )
        log.warning("%s; the query goes on behind them", text)

    def _parts(self, ranges: Sequence[Range], heads: dict[str, Head]) -> list[Part]:
        tasks = self._options.partitions
        shares = positions.shares(ranges, heads, tasks or TASKS, 1 if tasks else TASK_ROWS)
        return [Part(share.ranges) for share in shares] or [Part([])]


class BatchReader(_Reader, DataSourceReader):
    """Reads what is cached when it runs."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts up to where the subjects stand now."""
        with self._open(self._options.retry_seconds) as reader:
            heads = reader.positions(self._options.subjects, time=self._options.time)
        start = positions.begin(self._options.start, heads)
        end = positions.advance(start, heads)
        return self._parts(positions.ranges(start, end), heads)


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes; offsets as in spark.source.positions."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(schema, options)
        self._reader: Reader | None = None
        self._heads: dict[str, Head] = {}
        self._target: dict[str, Head] | None = None
        self._after = ""
        self._away_since: float | None = None

    def initialOffset(self) -> Offset:
        """Return where the query begins."""
        options = self._options
        with self._open(options.retry_seconds) as reader:
            heads = reader.positions(options.subjects, time=options.time)
        return positions.begin(options.start, heads)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the option `max_rows` as Spark's limit."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next batch; the start when there is nothing to read."""
        if self._target is None:
            behind = any(positions.is_behind(start.get(subject), head) for subject, head in self._heads.items())
            self._look(0 if behind else self._options.wait_ms)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        heads = self._heads if self._target is None else self._target
        end = positions.advance(start, heads, rows, self._after)
        moved = [subject for subject, place in end.items() if place != start.get(subject)]
        self._after = max(moved, default="")
        return end

    def reportLatestOffset(self) -> Offset:
        """Return how far the subjects have come, as the query's progress tells it."""
        return {subject: (head.epoch, head.seq) for subject, head in self._heads.items()}

    def prepareForTriggerAvailableNow(self) -> None:
        """Note that what there is now is all that will be read."""
        self._heads = {}
        with self._open(self._options.retry_seconds) as reader:
            self._target = reader.positions(self._options.subjects)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read."""
        return self._parts(positions.ranges(start, end), self._heads)

    def commit(self, end: Offset) -> None:
        """Do nothing: nothing is kept for a query."""

    def stop(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            self._reader.close()

    def _look(self, wait_ms: int) -> None:
        """Learn what is new. While no sidecar answers there is nothing new, until `retry_seconds` are over."""
        if self._reader is None:
            self._reader = self._open(min(CALL_SECONDS, self._options.retry_seconds))
        try:
            self._heads |= self._reader.positions(self._options.subjects, wait_ms=wait_ms, news=True)
            self._away_since = None
        except PublishTimeout:
            now = time.monotonic()
            if self._away_since is None:
                self._away_since = now
            if now - self._away_since >= self._options.retry_seconds - CALL_SECONDS:
                raise
