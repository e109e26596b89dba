"""A job whose tasks fail once each when part of their rows is staged, and give them in another order when tried again.

`python -m tests.support.spark.retried_job URL FOLDER`: writes ROWS rows of SUBJECTS subjects with a session that tries
tasks again; each attempt that fails leaves a file in the folder.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F

from spark.session import build

ROWS = 4_000
SUBJECTS = 50


def disturbed(folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Shuffle the rows, each attempt in its own way; the first one fails in its midst."""
    context = TaskContext.get()
    assert context is not None
    attempt = context.attemptNumber()
    draw = random.Random(attempt)
    for number, batch in enumerate(batches):
        if attempt == 0 and number == 5:
            Path(folder, str(context.partitionId())).touch()
            raise RuntimeError("the first attempt fails here")
        places = list(range(batch.num_rows))
        draw.shuffle(places)
        yield batch.take(pa.array(places))


def main(url: str, folder: str) -> None:
    """Write."""
    settings = {"spark.master": "local[2,3]", "spark.driver.memory": "512m"}
    session = build("retried", **settings, **{"spark.sql.execution.arrow.maxRecordsPerBatch": "200"})
    frame = session.range(ROWS, numPartitions=2).select(
        F.concat(F.lit("/t/"), F.col("id") % SUBJECTS).alias("subject"), F.col("id").cast("string").alias("content")
    )
    disturbed_frame = frame.mapInArrow(partial(disturbed, folder), frame.schema)
    disturbed_frame.write.format("realtime").mode("append").options(url=url, batch_rows=100).save()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
