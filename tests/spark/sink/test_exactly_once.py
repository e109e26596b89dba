"""What is written again is stored once: replayed batches, writes in foreachBatch, with a sidecar that dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fastpath.client.blocking import connect
from tests.support.certificates import Certificate
from tests.support.sidecar import Sidecar
from tests.support.spark.writing import BATCH_ROWS, contents, failure, forget_last_commit, numbers, start, stored
from tests.support.waiting import until

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _no_query_stays(session: SparkSession) -> Iterator[None]:
    yield
    for query in session.streams.active:
        query.stop()


def write(frame: DataFrame, sidecar: Sidecar, **options: Any) -> None:
    frame.write.format("realtime").mode("append").options(url=sidecar.publisher_url, **options).save()


def letters(folder: Path) -> list[dict[str, Any]]:
    """The dead letters that can be seen."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def staged_batches(folder: Path) -> list[int]:
    """Of which batches a query has staged letters: a stop may come between its tasks and its commit."""
    return [int(file.name.split("-")[5]) for file in (folder / "_staged").iterdir()]


def test_a_replayed_batch_is_stored_once_even_if_its_rows_come_in_another_order(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path
) -> None:
    query = start(numbers(session, "/t/n"), sidecar, tmp_path)
    until(lambda: (tmp_path / "commits" / "1").exists(), 180)
    query.stop()
    last = forget_last_commit(tmp_path)
    before = contents(sidecar, "/t/n")
    query = start(numbers(session, "/t/n").repartition(2), sidecar, tmp_path)
    until(lambda: (tmp_path / "commits" / f"{last + 2}").exists(), 60)
    query.stop()
    got = contents(sidecar, "/t/n")
    assert got[: len(before)] == before
    assert sorted(map(int, got)) == list(range(len(got)))
    assert len(got) >= BATCH_ROWS * (last + 3)


def test_named_writes_of_a_batch_in_foreach_batch_are_each_stored_once(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path
) -> None:
    failures = ["both writes of this batch are done"]

    def twice(batch: DataFrame, number: int) -> None:
        write(batch, sidecar, transaction="plain")
        write(batch.withColumn("subject", F.lit("/t/more")), sidecar, transaction="more", as_of="at", job="twice")
        if number == 1 and failures:
            raise ValueError(failures.pop())

    def run() -> Any:
        frame = numbers(session, "/t/n").withColumn("at", F.lit(1000).cast("long"))
        writer = frame.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path))
        return writer.trigger(processingTime="400 milliseconds").start()

    assert "both writes of this batch are done" in failure(run())
    query = run()
    until(lambda: (tmp_path / "commits" / "2").exists(), 60)
    query.stop()
    for subject in ("/t/n", "/t/more"):
        got = contents(sidecar, subject)
        assert got == [str(number) for number in range(len(got))]
        assert len(got) >= BATCH_ROWS * 3
    with connect(sidecar.client_url) as client, client.subscribe("/t/more") as stream:
        as_of = stream.get(30).as_of
    assert as_of == {"time": 1000, "batch": (len(got) - 1) // BATCH_ROWS, "job": "twice"}


def test_a_write_with_a_name_is_stored_once(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.sql("select '/t/x' subject, '1' content")
    for _ in range(2):
        write(frame, sidecar, transaction="load-2026-11-22")
    assert contents(sidecar, "/t/x") == ["1"]
    for _ in range(2):
        write(frame, sidecar)
    assert contents(sidecar, "/t/x") == ["1"] * 3


def test_rows_that_are_refused_become_dead_letters(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    frame = session.range(30, numPartitions=1).select(
        F.when(F.col("id") == 17, "a/b").when(F.col("id") == 18, "").otherwise("fine").alias("name"),
        F.encode(F.repeat(F.lit("x"), F.when(F.col("id") == 20, 2 << 20).otherwise(1)), "utf-8").alias("content"),
        F.lit(1.5).alias("price"),
    )
    folder = tmp_path / "dead"
    options = {"subject": "/t/{name}", "batch_rows": 7, "dead_letter": str(folder), "transaction": "once"}
    for _ in range(2):
        write(frame, sidecar, **options)
    assert not list((folder / "_staged").iterdir())
    assert len(contents(sidecar, "/t/fine")) == 27
    found = sorted(letters(folder), key=lambda letter: letter["row"])
    assert [(letter["row"], letter["code"], letter["partition"]) for letter in found] == [
        (18, "invalid", 0),
        (19, "invalid", 0),
        (21, "too_large", 0),
    ]
    assert found[0]["reason"].startswith("its column `name` is 'a/b'")
    assert (found[2]["subject"], found[2]["fields"]) == ("/t/fine", {"price": "1.5"})
    assert len(found[2]["content"]["base64"]) > 2 << 20


def test_rows_that_are_refused_when_they_are_published(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    # Each row alone is taken; together they have more fields than a snapshot gathers.
    frame = session.range(5, numPartitions=1).select(
        F.lit("/t/wide").alias("subject"),
        F.lit("").alias("content"),
        F.map_from_arrays(
            F.transform(F.sequence(F.lit(1), F.lit(256)), lambda n: F.concat(F.col("id"), F.lit("-"), n)),
            F.array_repeat(F.lit("v"), 256),
        ).alias("fields"),
    )
    with pytest.raises(
        PySparkException, match="1 rows were refused by the sidecar when they were published, the first"
    ):
        write(frame, sidecar, batch_rows=1)
    other = frame.withColumn("subject", F.lit("/t/other"))
    write(other, sidecar, batch_rows=1, dead_letter=str(tmp_path / "dead"))
    (file,) = (tmp_path / "dead").glob("*-late.jsonl")
    assert json.loads(file.read_text())["subject"] == "/t/other"
    assert len(contents(sidecar, "/t/other")) == 4


def test_dead_letters_of_a_query_stand_there_once(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    frame = numbers(session, "/t/n").withColumn(
        "subject", F.when(F.col("content") % BATCH_ROWS == 0, "no-slash").otherwise("/t/n")
    )
    folder = tmp_path / "dead"
    first = last = -1
    for _ in range(2):
        query = start(frame, sidecar, tmp_path / "checkpoint", dead_letter=str(folder))
        until(lambda: (tmp_path / "checkpoint" / "commits" / "1").exists(), 180)
        query.stop()
        first, last = last, forget_last_commit(tmp_path / "checkpoint")
    assert all(batch > first for batch in staged_batches(folder)), "what is committed is nowhere else"
    rows = [int(letter["content"]) for letter in letters(folder)]
    assert sorted(rows)[: last + 1] == [number * BATCH_ROWS for number in range(last + 1)]
    assert len(set(rows)) == len(rows)


def test_a_query_goes_on_when_the_sidecar_is_killed(session: SparkSession, tmp_path: Path) -> None:
    with Sidecar(journal="interval", data=tmp_path / "data") as sidecar:
        query = start(numbers(session, "/t/n"), sidecar, tmp_path / "checkpoint")
        for enough in (5, 15, 30):
            until(lambda enough=enough: len(contents(sidecar, "/t/n")) >= enough, 60)
            sidecar.kill()
            sidecar.start()
        until(lambda: len(contents(sidecar, "/t/n")) >= 45, 60)
        assert query.isActive
        query.stop()
        got = contents(sidecar, "/t/n")
        assert got == [str(number) for number in range(len(got))]


def test_rows_below_the_version_of_their_subject_change_nothing(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.sql("select '/t/x' subject, '5' content, 5L v")
    write(frame, sidecar, version="v")
    older = session.sql("select '/t/x' subject, '4' content, 4L v union all select '/t/y', '4', 4L")
    write(older, sidecar, version="v")
    write(older, sidecar, version="v", delivery="at_least_once")
    assert stored(sidecar, "/t/x")["content"] == "5"
    assert contents(sidecar, "/t/y") == ["4", "4"]


def test_over_tls_and_compressed(session: SparkSession, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    frame = session.range(1000).select(F.lit("/t/x").alias("subject"), F.col("id").alias("content"))
    with Sidecar(listen=certificate.url("publishers")) as sidecar:
        url = f"tls://{sidecar.publisher_url}"
        writer = frame.write.format("realtime").mode("append").options(url=url, window=1, compression="zlib")
        writer.options(ca_file=str(certificate.cert), batch_rows=100).save()
        with pytest.raises(PySparkException, match="certificate"):
            writer.options(ca_file="", retry_seconds=0).save()
        assert sorted(map(int, contents(sidecar, "/t/x")))[-1] == 999
