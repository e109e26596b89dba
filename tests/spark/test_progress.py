"""What a query has done, as fields; and that reports arrive, go to every node, and hold nothing up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fastpath.client.control.client import Control
from spark.progress import ERROR_CHARS_MAX, Reports, fields_of, of_progress
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

BATCH = {
    "id": "q",
    "timestamp": "2026-01-05T10:00:00.500Z",
    "batchId": 7,
    "numInputRows": 100,
    "inputRowsPerSecond": 50.04,
    "processedRowsPerSecond": 200.0,
    "durationMs": {"triggerExecution": 250},
    "eventTime": {"max": "2026-01-05T10:00:00.100Z", "watermark": "2026-01-05T09:59:50.000Z"},
    "stateOperators": [
        {"numRowsTotal": 20, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 3},
        {"numRowsTotal": 1, "memoryUsedBytes": 24, "numRowsDroppedByWatermark": 0},
    ],
    "sources": [{"endOffset": {"/p/a": [1, 5], "/p/b": [1, 7]}, "latestOffset": {"/p/a": [1, 9], "/p/b": [1, 7]}}],
    "sink": {"numOutputRows": 40},
}
T = 1767607200000
"""2026-01-05 10:00 in ms since 1970."""


def test_the_fields_of_a_batch() -> None:
    assert of_progress(BATCH) == {
        "query": "q",
        "batch": "7",
        "batch_time": str(T + 500),
        "batch_ms": "250",
        "rows": "100",
        "rows_in_per_s": "50.0",
        "rows_done_per_s": "200.0",
        "rows_out": "40",
        "watermark": str(T - 10_000),
        "newest": str(T + 100),
        "lag_ms": "650",
        "behind": "4",
        "state_rows": "21",
        "state_bytes": "1024",
        "late_rows": "3",
    }


@pytest.mark.parametrize(
    ("change", "name", "told"),
    [
        ({"inputRowsPerSecond": math.nan}, "rows_in_per_s", None),
        ({"processedRowsPerSecond": math.inf}, "rows_done_per_s", None),
        ({"sink": {"numOutputRows": -1}}, "rows_out", None),
        ({"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}, "watermark", None),
        ({"eventTime": {}}, "newest", None),
        ({"eventTime": {"max": "1970-01-01T00:00:00.000Z"}}, "newest", None),
        ({"timestamp": ""}, "batch_time", None),
        ({"eventTime": {}}, "lag_ms", None),
        ({"eventTime": {"max": "2026-01-05T10:00:09Z"}}, "lag_ms", "0"),
        ({"stateOperators": []}, "state_rows", None),
        ({"sources": [{"endOffset": 4, "latestOffset": 9}]}, "behind", None),
        ({"sources": [{"endOffset": None, "latestOffset": {"/p/a": [1, 2]}}]}, "behind", None),
        ({"sources": [{"endOffset": "{}", "latestOffset": '{"/p/a": [1, 2]}'}]}, "behind", "2"),
        ({"sources": [{"endOffset": {"topic": {"0": 1}}, "latestOffset": {"topic": {"0": 1}}}]}, "behind", None),
        ({"sources": [{"endOffset": {"/p/a": [1, 9]}, "latestOffset": {"/p/a": [2, 3]}}]}, "behind", "0"),
        ({"durationMs": {}}, "batch_ms", None),
    ],
)
def test_what_spark_does_not_know_is_left_out(change: dict[str, Any], name: str, told: str | None) -> None:
    assert of_progress(BATCH | change).get(name) == told


def listed(sidecar: Sidecar) -> dict[str, dict[str, str]]:
    with Control(sidecar.control) as control:
        return {job["job"]: job["fields"] for job in control.jobs()["jobs"]}


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    with Sidecar() as running:
        yield running


def test_every_node_is_told_and_one_that_is_away_holds_nothing_up(sidecar: Sidecar) -> None:
    with Sidecar() as other:
        reports = Reports(f"127.0.0.1:1, {sidecar.publisher_url},{other.publisher_url}")
        reports.state("rollup", "running", {"rows": "5"})
        for one in (sidecar, other):
            until(lambda one=one: listed(one).get("rollup", {}).get("rows") == "5")
        reports.state("rollup", "done")
        reports.close()
        assert until(lambda: listed(other)["rollup"]["state"] == "done"), "what is done has not stopped"


def test_the_end_is_told_with_the_error(sidecar: Sidecar) -> None:
    """Of every job of the process; of one that never began by the name of the process."""
    reports = Reports(sidecar.publisher_url)
    for job in ("a", "b"):
        reports.state(job, "running", {"batch": "3"})
    until(lambda: len(listed(sidecar)) == 2)
    reports.close("x" * 1000, "c")
    fields = until(lambda: listed(sidecar)["b"]["state"] == "failed" and listed(sidecar)["b"])
    assert (fields["error"], fields["batch"]) == ("x" * ERROR_CHARS_MAX, "3")
    assert set(listed(sidecar)) == {"a", "b"}
    reports.state("a", "running")
    Reports(sidecar.publisher_url).close("it cannot start", "c")
    assert until(lambda: listed(sidecar).get("c", {}).get("error") == "it cannot start")
    assert listed(sidecar)["a"]["state"] == "failed", "what comes after the end is dropped"


def test_without_an_address_nobody_is_told() -> None:
    reports = Reports("")
    reports.state("a", "running")
    reports.close()


@pytest.mark.spark
def test_a_real_query_is_told_of_with_its_state(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    """A windowed count over Spark's own rate source."""
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    counts = rows.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second")).count()
    query = (
        counts.writeStream.format("noop")
        .queryName("counts")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    reports = Reports(sidecar.publisher_url)
    try:

        def told() -> dict[str, str] | None:
            reports.tell([query])
            fields = listed(sidecar).get("counts", {})
            return fields if "state_rows" in fields and "watermark" in fields else None

        fields = until(told, 60)
        assert fields["state"] in ("running", "waiting")
        assert fields["query"] == str(query.id)
        assert int(fields["rows"]) == 50
        assert float(fields["rows_done_per_s"]) > 0
        assert int(fields["batch"]) >= 1
        assert int(fields["batch_ms"]) > 0
        assert fields["run"]
    finally:
        query.stop()
    assert fields_of(query)["state"] == "stopped"
    reports.tell([query])
    reports.close()
    assert until(lambda: listed(sidecar)["counts"]["state"] == "stopped")
