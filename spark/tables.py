"""Tables of Parquet files, one for each month, each replaced as a whole: a reader sees the old one or the new one.

A table is a folder on a disk that the driver and all executors see.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FILE = "part.parquet"


def read(session: SparkSession, table: Path, schema: str, months: Iterable[str] | None = None) -> DataFrame:
    """Read the rows of a table, of all months or of those named (`2026-11`); none where nothing has been written
    yet."""
    wanted = sorted(table.glob("month=*")) if months is None else [table / f"month={month}" for month in months]
    files = [str(path / FILE) for path in wanted if (path / FILE).is_file()]
    return session.read.schema(schema).parquet(*files) if files else session.createDataFrame([], schema)


def write(table: Path, rows: DataFrame, order: Iterable[str]) -> list[str]:
    """Replace the months that `rows` has, by its column `start` (s since 1970, UTC); their names, in order.

    The rows of `rows` may come from the table itself. When it raises, each month is as it was or as it is to be.
    """
    table.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".writing-", dir=table))  # a name with which Spark reads nothing
    try:
        month = F.date_format(F.timestamp_seconds("start"), "yyyy-MM")
        ordered = rows.withColumn("month", month).repartition("month").sortWithinPartitions("month", *order)
        ordered.write.partitionBy("month").parquet(str(scratch / "new"))
        written = []
        for folder in sorted((scratch / "new").glob("month=*")):
            (part,) = folder.glob("part-*.parquet")
            kept = table / folder.name
            kept.mkdir(exist_ok=True)
            os.replace(part, kept / FILE)
            written.append(folder.name.removeprefix("month="))
        return written
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def months_of(rows: DataFrame) -> list[str]:
    """Return the months (`2026-11`) of the column `start` of some rows, in order."""
    month = F.date_format(F.timestamp_seconds("start"), "yyyy-MM")
    return sorted(row[0] for row in rows.select(month).distinct().collect())
