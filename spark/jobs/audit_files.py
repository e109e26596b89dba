"""Reads the files of the sidecar's audit (docs/operate/audit.md) as a DataFrame of events."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.jobs.running import JobError

FILES = "audit-*.jsonl*"
SCHEMA = (
    "time timestamp, kind string, event string, node string, worker int, connection string, user string, "
    "address string, subject string, error string, reason string, bytes bigint, messages bigint"
)
"""The keys that a job looks at."""


def read(session: SparkSession, *folders: str) -> DataFrame:
    """Read all events of the files in these folders; a line that is none, such as one that is broken off, is left out.

    `line` rises with the lines of a file: events of the same millisecond have an order. Raises JobError where a folder
    has no such file.
    """
    for folder in folders:
        if not any(Path(folder).glob(FILES)):
            raise JobError(f"{folder} has no {FILES}: is FASTPATH_AUDIT on, and FASTPATH_AUDIT_FOLDER this folder?")
    lines = session.read.schema(SCHEMA).option("pathGlobFilter", FILES).json(list(folders))
    events = lines.where(F.col("time").isNotNull() & F.col("event").isNotNull())
    return events.withColumn("line", F.monotonically_increasing_id())
