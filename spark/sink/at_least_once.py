"""Publishes rows at least once, as they come: what `delivery` `at_least_once` does instead of staging them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
import pyarrow as pa

from fastpath.client.errors import RefusedMessage
from fastpath.client.publisher.publisher import Publisher
from spark.options import SinkOptions
from spark.sink.rows import INVALID, Row, RowBuilder, RowRefused

GROUP_ROWS = 50_000
"""Number of rows that are gathered, published and acknowledged together."""

FORGOTTEN = frozenset({"stale", "out_of_order"})
"""The results of rows whose numbers were used before, with an outcome that is not remembered (protocol.md 4.4)."""

OUTDATED = "outdated"
"""Code of a row below the version of the subject: no error, the newer row is what counts (protocol.md 4.4)."""

_encode = msgspec.msgpack.Encoder().encode


class RowPublisher:
    """Publishes the rows of one partition; ``name`` is the same for every attempt at it."""

    def __init__(self, options: SinkOptions, builder: RowBuilder, name: str, partition: int) -> None:
        self._options = options
        self._builder = builder
        self._name = name
        self._partition = partition

    def publish(self, batches: Iterable[pa.RecordBatch], number: int | None) -> int:
        """Publish all rows and wait until they are acknowledged; how many.

        ``number`` is that of the query's batch. Raises RowRefused, and what the publisher raises when no sidecar
        answers in time.
        """
        rows: list[Row] = []
        done = 0
        for batch in batches:
            table = self._builder.table(batch, number)
            for place, reason in table.refused.items():
                row = done + len(rows) + place + 1
                raise RowRefused(f"row {row} of partition {self._partition} was refused, {INVALID}: {reason}")
            rows += (row for _, row in table.rows())
            while len(rows) >= GROUP_ROWS:
                self.group(rows[:GROUP_ROWS], done)
                del rows[:GROUP_ROWS]
                done += GROUP_ROWS
        if rows:
            self.group(rows, done)
        return done + len(rows)

    def group(self, rows: list[Row], done: int) -> None:
        """Publish rows and wait for all; those of an earlier attempt with the same rows in the same order only once.

        A digest of the rows is in the publisher's name: were rows of another order numbered alike, some would be taken
        for rows that came before, and lost.
        """
        digest = hashlib.blake2b(_encode(rows), digest_size=12).hexdigest()
        refused = self._send(rows, name=f"{self._options.publisher}:{self._name}:{done}:{digest}", first=1)
        if refused is not None and refused.code in FORGOTTEN:
            # What came of the earlier attempt is not remembered any more: better twice than never.
            refused = self._send(rows, name=self._options.publisher, first=None)
        if refused is not None:
            raise RowRefused(
                f"row {done + refused.index + 1} of partition {self._partition}, subject {rows[refused.index][0]}, "
                f"was refused by the sidecar, {refused.code}: {refused.reason}"
            )

    def _send(self, rows: list[Row], name: str, first: int | None) -> RefusedMessage | None:
        """Send rows and wait until each is answered; the first that was refused, preferably for being forgotten."""
        options = self._options
        publisher = Publisher(
            options.url,
            options.token or None,
            name,
            options.window,
            retry_seconds=options.retry_seconds,
            tls=options.tls(),
            first=first,
        )
        try:
            for start in range(0, len(rows), options.batch_rows):
                publisher.send_batch(rows[start : start + options.batch_rows])
            results = publisher.flush(raise_refused=False)
        finally:
            publisher.close()
        refused = [one for one in results.refused if one.code != OUTDATED]
        if results.refused_count > len(results.refused):
            refused = refused or results.refused  # not all are known: one that counts may be among the others
        return next((one for one in refused if one.code in FORGOTTEN), refused[0] if refused else None)
