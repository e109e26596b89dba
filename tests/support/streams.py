"""Streams whose batches a test gives: each is a file, and the query ends when all are done."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

END_SECONDS_MAX = 90


def outcome(
    batches: Sequence[DataFrame], transform: Callable[[DataFrame], DataFrame], folder: Path, mode: str = "append"
) -> list[Row]:
    """Each row that `transform` has given after a batch for each of `batches`, and one for the watermark at the end."""
    session: SparkSession = batches[0].sparkSession
    inputs = folder / "inputs"
    for number, batch in enumerate(batches):
        rows = batch.coalesce(1).toArrow()
        _write(rows, inputs, number)
    stream = session.readStream.schema(batches[0].schema).option("maxFilesPerTrigger", 1).parquet(str(inputs))
    found: list[Row] = []
    query = (
        transform(stream)
        .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .outputMode(mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(END_SECONDS_MAX)
    finally:
        query.stop()
    return found


def _write(table: Any, folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:04}.parquet"
    pq.write_table(table, path, coerce_timestamps="us")
    # They are read in the order of their times.
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
