"""Batches that are published from the driver: stored once, also when their query changes the way it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.jobs import running
from tests.support.sidecar import Sidecar
from tests.support.spark.writing import BATCH_ROWS, contents, failure, forget_last_commit, numbers
from tests.support.waiting import until

pytestmark = pytest.mark.spark


def test_a_replayed_batch_is_stored_once_from_the_driver_and_from_tasks(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path
) -> None:
    """Both ways name a batch alike, so that either goes on from the checkpoint of the other."""
    commits, last = tmp_path / "n" / "commits", 0
    for words in (["--from-driver"], [], ["--from-driver"]):
        options = running.parse(
            "n", "", running.streaming_arguments, lambda _: None, ["--url", sidecar.publisher_url, *words]
        )
        query = running.publish(numbers(session, "/t/n"), options, "n", str(tmp_path)).start()
        until(lambda query=query, wanted=last + 1: (commits / str(wanted)).exists() or not query.isActive, 60)
        assert query.exception() is None  # asked now: a batch that is stopped in Python's commit counts as failed
        query.stop()
        last = forget_last_commit(tmp_path / "n")
    got = contents(sidecar, "/t/n")
    assert got == [str(number) for number in range(len(got))]
    assert len(got) >= BATCH_ROWS * 3


def test_a_refused_row_fails_the_batch_from_the_driver_too(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path
) -> None:
    options = running.parse(
        "n", "", running.streaming_arguments, lambda _: None, ["--url", sidecar.publisher_url, "--from-driver"]
    )
    rows = numbers(session, "/t/n").withColumn(
        "subject", F.when(F.col("content") == "3", "no subject").otherwise("/t/n")
    )
    query = running.publish(rows, options, "n", str(tmp_path)).start()
    assert "row 4 of partition 0, subject no subject, was refused by the sidecar, invalid" in failure(query)
    assert contents(sidecar, "/t/n") == []
