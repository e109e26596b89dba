"""What the tests of the data source `realtime` share: frames, queries, and a look at what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from tests.support.sidecar import Sidecar

BATCH_ROWS = 5


def stored(sidecar: Sidecar, subject: str) -> dict[str, Any] | None:
    """The snapshot of a subject."""
    with Control(sidecar.control) as control:
        answer: dict[str, Any] | None = control.snapshot(subject).get("message")
    return answer


def contents(sidecar: Sidecar, subject: str) -> list[str]:
    """The contents of the newest hundred messages of a subject, in their order."""
    with Control(sidecar.control) as control:
        try:
            messages = control.history(subject, limit=100)["messages"]
        except ControlRefused:
            return []  # there was none yet
    return [message["content"] for message in reversed(messages)]


def numbers(session: SparkSession, subject: str) -> DataFrame:
    """BATCH_ROWS rows in each batch of a query, numbered on and on."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS)
    rows = source.option("numPartitions", 1).load()
    return rows.select(F.lit(subject).alias("subject"), F.col("value").cast("string").alias("content"))


def start(frame: DataFrame, sidecar: Sidecar, checkpoint: Path, **options: Any) -> StreamingQuery:
    """Start a query that writes to a sidecar."""
    writer = frame.writeStream.format("realtime").option("url", sidecar.publisher_url).options(**options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="400 milliseconds").start()


def failure(query: StreamingQuery) -> str:
    """Why a query fails."""
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(60)
    return str(caught.value)


def forget_last_commit(checkpoint: Path) -> int:
    """As a driver leaves it that dies when the sink has committed and Spark has not noted it; which batch it was.

    A batch that was planned when the query was stopped is forgotten with it: Spark goes on with the newest plan alone.
    """
    commits, plans = checkpoint / "commits", checkpoint / "offsets"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    later = [plans / file.name for file in plans.iterdir() if file.name.isdecimal() and int(file.name) > last]
    for file in (commits / f"{last}", *later):
        for one in (file, file.with_name(f".{file.name}.crc")):
            one.unlink(missing_ok=True)
    return last
