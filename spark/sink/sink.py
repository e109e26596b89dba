"""The writing half of the data source `realtime`: stages the rows of a DataFrame at the sidecar, and commits them once.

A task stages the rows of its partition under a number that no other attempt has; the driver then has those of the
attempts that count published, as one batch of a transaction (protocol.md 6.5). Executors import this module, so it
needs only PySpark, PyArrow, msgspec and fastpath.client.
"""

from __future__ import annotations

import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fastpath.client.errors import ClientError
from fastpath.client.publisher.transactions import Attempt, Committed, Committer, Stager
from spark.arrival import Travels
from spark.options import InvalidOption, SinkOptions
from spark.sink import dead_letters
from spark.sink.at_least_once import RowPublisher
from spark.sink.frames import Frame, compressed, frames, row_at
from spark.sink.rows import INVALID, RowBuilder, RowRefused, Table, planned

ATTEMPTS = 1 << 53
"""Numbers of attempts are drawn below it: Spark's own begin anew with every driver, and two attempts with the same
number would be taken for one."""

log = logging.getLogger("spark.realtime")

DROP_SECONDS = 2
"""Seconds for which it is tried to drop what is staged and not wanted; the sidecar drops it after its time in any
case."""


@dataclass
class Written(WriterCommitMessage):
    """The outcome of a task: what it has staged; published already, where there is no transaction."""

    rows: int
    transaction: str = ""
    batch: int = 0
    partition: int = 0
    attempt: int = 0
    letters: int = 0


class Place(NamedTuple):
    """The partition of a batch of a transaction that a task writes; ``number`` is that of the query's batch."""

    transaction: str
    batch: int
    partition: int
    number: int | None


class _Writer(Travels, ABC):
    """The base of both writers; it travels to the executors."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._options = options
        self._builder = planned(schema, options)
        self._write = secrets.token_hex(16)  # the same for every task of a write, not for every batch of a query

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one partition; returns when all are staged.

        Raises RowRefused, and what the client raises when no sidecar answers in time or has room.
        """
        place = self._place()
        builder = self._builder.in_session(_case_counts())
        if self._options.delivery == "at_least_once":
            name = f"{place.transaction}:{place.batch}:{place.partition}"
            publisher = RowPublisher(self._options, builder, name, place.partition)
            return Written(publisher.publish(iterator, place.number))
        task = Task(self._options, place)
        try:
            return task.stage(iterator, builder)
        except BaseException:
            task.drop()
            raise

    def _place(self) -> Place:
        context = TaskContext.get()
        if context is None:
            return Place(self._write, 0, 0, None)
        query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        number = int(batch) if query and batch else None
        transaction = self._transaction(query if batch else None)
        if self._options.delivery == "at_least_once":
            transaction = query or self._write
        # What is named after the write alone has one batch.
        return Place(transaction, 0 if transaction == self._write else number or 0, context.partitionId(), number)

    @abstractmethod
    def _transaction(self, query: str | None) -> str:
        """Return the name under which the rows of a batch are committed."""

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Have what the tasks staged published, all of it or, where it was before, nothing.

        Raises RowRefused for rows that the sidecar took when they were staged and refused when it published them.
        """
        written = [message for message in messages if isinstance(message, Written) and message.transaction]
        if not written:
            return
        transaction, batch = written[0].transaction, written[0].batch
        attempts = [(one.partition, one.attempt, one.rows) for one in written if one.rows]
        shown = [(one.partition, one.attempt) for one in written if not one.rows]
        if attempts:
            options = self._options
            with Committer(
                options.url, options.token or None, retry_seconds=options.retry_seconds, tls=options.tls()
            ) as committer:
                done = committer.commit(transaction, batch, attempts, once=transaction == self._write)
            if not set(attempts) <= {tuple(winner) for winner in done.winners}:
                self._tell_others_count(transaction, batch)
            shown += [(partition, attempt) for partition, attempt, _ in done.winners]
            self._settle(transaction, batch, done)
        if self._options.dead_letter:
            dead_letters.publish(self._options.dead_letter, transaction, batch, shown)

    def _tell_others_count(self, transaction: str, batch: int) -> None:
        """Tell that the batch was committed with what another write had staged; a query's, when it ran before."""

    def _settle(self, transaction: str, batch: int, done: Committed) -> None:
        if not done.refused_rows:
            return
        if self._options.dead_letter:
            dead_letters.refused_late(self._options.dead_letter, transaction, batch, done)
            return
        partition, _, subject, code, reason = done.refused[0]
        raise RowRefused(
            f"{done.refused_rows} rows were refused by the sidecar when they were published, the first of them of "
            f"partition {partition}, subject {subject}, {code}: {reason}"
        )

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what is staged, as far as it is known: Spark does not tell of every task."""
        for message in messages:
            if isinstance(message, Written) and message.transaction:
                place = Place(message.transaction, message.batch, message.partition, None)
                Task(self._options, place, message.attempt).drop()


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame once; within foreachBatch as part of the query's batch, where a transaction is named."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what was staged; raises RowRefused and fastpath.client.errors.ClientError."""
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        self._abort(messages)

    def _tell_others_count(self, transaction: str, batch: int) -> None:
        log.warning(
            "batch %d of transaction %s was committed by an earlier write, of this one nothing was published: as it "
            "should be where a job or a batch runs again; another write needs a name of its own",
            batch,
            transaction,
        )

    def _transaction(self, query: str | None) -> str:
        named = self._options.transaction
        if not named:
            return self._write
        return f"{query}:{named}" if query else named


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish what was staged of this batch; raises RowRefused and fastpath.client.errors.ClientError.

        With trigger(continuous=…) Spark commits epochs whose rows it gave to no task: raises InvalidOption then.
        """
        if not all(isinstance(message, Written) for message in messages):
            raise InvalidOption(
                "nothing was published: this format has no continuous processing. "
                'Use trigger(processingTime="…") instead of trigger(continuous="…")'
            )
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what was staged; Spark will stage the batch again."""
        self._abort(messages)

    def _transaction(self, query: str | None) -> str:
        named = self._options.transaction
        return f"{query or self._write}:{named}" if named else query or self._write


def _case_counts() -> bool:
    """Return True if the session of this task tells columns apart whose names differ in case alone; Spark's default is
    no."""
    task = TaskContext.get()
    return task is not None and (task.getLocalProperty("spark.sql.caseSensitive") or "").lower() == "true"


def rotated(url: str, partition: int) -> list[str]:
    """Return the addresses, beginning with another one for each partition: nodes that share a Redis share the work."""
    addresses = url.split(",")
    start = partition % len(addresses)
    return addresses[start:] + addresses[:start]


class Task:
    """One attempt at a partition."""

    def __init__(self, options: SinkOptions, place: Place, attempt: int | None = None) -> None:
        self._options = options
        self._place = place
        transaction, batch, partition, _ = place
        self._attempt = Attempt(
            transaction, batch, partition, secrets.randbelow(ATTEMPTS) if attempt is None else attempt
        )
        self._letters = dead_letters.Letters(options.dead_letter, *self._attempt) if options.dead_letter else None

    def stage(self, batches: Iterator[pa.RecordBatch], builder: RowBuilder) -> Written:
        """Stage all rows; raises as `_Writer.write`."""
        options = self._options
        first = 1
        with Stager(
            rotated(options.url, self._place.partition),
            options.token or None,
            self._attempt,
            options.window,
            retry_seconds=options.retry_seconds,
            tls=options.tls(),
        ) as stager:
            for batch in batches:
                table = builder.table(batch, self._place.number)
                for place, reason in table.refused.items():
                    self._refuse_here(table, first, place, reason)
                for frame in frames(table, options.batch_rows):
                    runs = compressed(frame.runs) if options.compression == "zlib" else frame.runs
                    stager.stage(frame.rows, runs, (first, frame))
                    self._refuse(stager)
                first += batch.num_rows
            rows = stager.flush()
            self._refuse(stager)
        if self._letters is not None:
            self._letters.close()
        return Written(rows, *self._attempt, letters=self._letters.rows if self._letters is not None else 0)

    def drop(self) -> None:
        """Drop what is staged of this attempt, if the sidecar can be reached at once."""
        options = self._options
        try:
            if self._letters is not None:
                self._letters.close()
                dead_letters.drop(options.dead_letter, *self._attempt)
            transaction, batch, partition, attempt = self._attempt
            with Committer(
                options.url, options.token or None, DROP_SECONDS, retry_seconds=0, tls=options.tls()
            ) as committer:
                committer.abort(transaction, batch, partition, attempt)
        except (ClientError, OSError):
            return

    def _refuse_here(self, table: Table, first: int, place: int, reason: str) -> None:
        """Refuse a row that was found to make no message before anything was sent."""
        if self._letters is None:
            raise RowRefused(
                f"row {first + place} of partition {self._place.partition} was refused, {INVALID}: {reason}"
            )
        self._letters.add(first + place, None, table.contents[place], table.fields(place), INVALID, reason)

    def _refuse(self, stager: Stager) -> None:
        """Refuse the rows that the sidecar refused since this was called last."""
        for (first, frame), refused in stager.collect():
            for index, code, reason in refused:
                self._refuse_row(first, frame, index, code, reason)

    def _refuse_row(self, first: int, frame: Frame, index: int, code: str, reason: str) -> None:
        number = first + frame.places[index]
        subject, content, fields = row_at(frame.runs, index)
        if self._letters is None:
            raise RowRefused(
                f"row {number} of partition {self._place.partition}, subject {subject}, was refused by the sidecar, "
                f"{code}: {reason}"
            )
        self._letters.add(number, subject, content, fields, code, reason)
