"""The query of the desk through a real sidecar: what it publishes is there once, whatever a crash has left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from fastpath.client.control.client import Control
from spark.jobs.desk import query
from spark.jobs.desk.board import Plan
from tests.support.prices import NOON, frame, message
from tests.support.sidecar import Sidecar
from tests.support.spark.writing import forget_last_commit

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("light")]

PLAN = Plan(late=2_000, intervals={"1s": 1_000}, window=10_000, slide=5_000)
NAME = "desk"
END_SECONDS_MAX = 120


def add(session: SparkSession, folder: Path, number: int, seconds: range) -> None:
    """A batch: two prices in each of these seconds after noon."""
    rows = [
        message("IBM", 2 * second + half + 1, NOON + second * 1000 + half * 500, f"{100 + second}.{half}0")
        for second in seconds
        for half in (0, 1)
    ]
    folder.mkdir(exist_ok=True)
    pq.write_table(frame(session, rows).toArrow(), folder / f"{number}.parquet", coerce_timestamps="us")


def run(session: SparkSession, options: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    """All that is there, until the query ends."""
    schema = frame(session, []).schema
    prices = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "inputs"))
    started = query.start(NAME, prices, PLAN, options, str(folder / "checkpoint"), {"availableNow": True})
    assert started.awaitTermination(END_SECONDS_MAX)


def stored(sidecar: Sidecar, subject: str) -> list[dict[str, Any]]:
    """The cached messages of a subject, the oldest first."""
    with Control(sidecar.control) as control:
        found = control.history(subject, limit=100)["messages"]
    return sorted(found, key=lambda one: int(one["seq"]))


def test_a_batch_that_runs_again_is_stored_once(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    """As after a kill before the state was written, and after one between the state and Spark's note."""
    options = {
        job: {"url": sidecar.publisher_url, "token": "", "job": job} | {name: name for name in columns}
        for job, columns in query.PUBLISHED.items()
    }
    inputs, place = tmp_path / "inputs", tmp_path / "checkpoint" / NAME
    for number, seconds in enumerate((range(6), range(6, 12))):
        add(session, inputs, number, seconds)
    run(session, options, tmp_path)
    finals = [row["fields"]["start"] for row in stored(sidecar, "/bars-1s/us/IBM")]
    assert finals == [str(NOON + 1000 * second) for second in range(9)]
    assert [row["fields"]["window_end"] for row in stored(sidecar, "/movers/us/IBM")] == [str(NOON + 5_000)]

    for number, lost in enumerate((True, False), 2):
        last = forget_last_commit(place)
        if lost:
            (place / query.FOLDER / f"{last}.json").unlink()
        add(session, inputs, number, range(6 * number, 6 * number + 6))
        run(session, options, tmp_path)
        told = stored(sidecar, "/bars-1s/us/IBM")
        assert [row["fields"]["start"] for row in told] == [
            str(NOON + 1000 * second) for second in range(6 * number + 3)
        ]
        assert {row["as_of"]["job"] for row in told} == {"bars_final"}
    ends = [int(row["fields"]["window_end"]) - NOON for row in stored(sidecar, "/movers/us/IBM")]
    assert ends == [5_000, 10_000, 15_000, 20_000]

    for path in (place / query.FOLDER).glob("*.json"):
        path.unlink()
    add(session, inputs, 9, range(60, 61))
    with pytest.raises(StreamingQueryException, match="begin with a new checkpoint"):
        run(session, options, tmp_path)
