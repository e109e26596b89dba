"""An archive read without Spark, and the one call that joins it with what a sidecar still has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fastpath.client import Gap, Position, blocking
from fastpath.client.publisher.publisher import Publisher
from spark import lake
from spark.lake import Archive
from spark.lake_history import Lake
from tests.support.promises import kept
from tests.support.sidecar import ROOT, Sidecar
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
BEGIN_MS = round(BEGIN.timestamp() * 1000)
MINUTE = 60_000


def archived(session: SparkSession, folder: Path, rows: Sequence[tuple[Any, ...]], batch: int = 0) -> None:
    Archive(folder).add(session.createDataFrame(list(rows), lake.SCHEMA), "q", batch)


def row(subject: str, seq: int, minutes: float, epoch: int = 7, content: bytes = b"1") -> tuple[Any, ...]:
    as_of = '{"job": "bars", "batch": 3}' if seq == 2 else None
    time = BEGIN + timedelta(minutes=minutes)
    return (
        subject,
        content,
        {"n": str(seq).encode()} if seq > 1 else None,
        epoch,
        seq,
        time,
        "c" if seq == 2 else None,
        as_of,
    )


def test_what_since_names_and_the_newest_before_it(session: SparkSession, tmp_path: Path) -> None:
    """Over two dates, several files of one date, and other subjects in the same files."""
    rows = [row("/a/b", seq, 20 * seq, content=b"\xff" if seq == 3 else b"x") for seq in range(1, 6)]
    archived(session, tmp_path, [*rows[:3], row("/a/c", 1, 0)])
    archived(session, tmp_path, [*rows[3:], row("/a/c", 2, 30)], batch=1)
    whole = Lake(tmp_path)("/a/b")
    assert [(one.epoch, one.seq, one.time) for one in whole] == [
        (7, seq, BEGIN_MS + 20 * seq * MINUTE) for seq in range(1, 6)
    ]
    assert (whole[0].content, whole[0].fields, whole[0].closure, whole[0].as_of) == ("x", {}, "", None)
    assert (whole[1].fields, whole[1].closure, whole[1].as_of) == ({"n": "2"}, "c", {"job": "bars", "batch": 3})
    assert (whole[2].content, whole[2].kind) == (b"\xff", "historical")
    for since, first in (
        (BEGIN_MS, 1),
        (BEGIN_MS + 20 * MINUTE, 1),
        (BEGIN_MS + 40 * MINUTE, 1),
        (BEGIN_MS + 61 * MINUTE, 3),
        (BEGIN_MS + 200 * MINUTE, 5),
        (Position(7, 0), 1),
        (Position(7, 1), 1),
        (Position(7, 4), 4),
        (Position(8, 0), 5),
    ):
        assert [one.seq for one in Lake(str(tmp_path))("/a/b", since)] == list(range(first, 6)), since
    assert Lake(tmp_path)("/a/other") == []


def test_no_archive(tmp_path: Path) -> None:
    assert Lake(tmp_path)("/a/b") == []
    with pytest.raises(FileNotFoundError, match="is no archive: no such folder"):
        Lake(tmp_path / "none")("/a/b")


def test_neither_spark_nor_java_is_needed() -> None:
    program = "import sys, spark.lake_history; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_the_past_out_of_an_archive_and_a_sidecar(session: SparkSession, tmp_path: Path) -> None:
    """The archive is what a job reads of the sidecar; between the two nothing is lost and nothing comes twice."""
    with Sidecar(mode="none", cache_messages=10) as sidecar, Publisher(sidecar.publisher_url) as publisher:

        def publish(numbers: range) -> None:
            publisher.send_batch([["/past/a", str(number), {"n": str(number)}] for number in numbers])
            publisher.flush()

        def archive(batch: int) -> None:
            found = session.read.format("realtime").options(url=sidecar.publisher_url, subjects="/past/*").load()
            known = {one.seq for one in Lake(tmp_path)("/past/a")}
            Archive(tmp_path).add(found.where(~found.seq.isin(known)) if known else found, "q", batch)

        for batch in range(3):
            publish(range(8 * batch + 1, 8 * batch + 9))
            archive(batch)
        publish(range(25, 30))
        with blocking.connect(sidecar.client_url) as client:
            assert len(client.history("/past/a").messages) == 10
            past = client.history("/past/a", lake=Lake(tmp_path))
            kept([one.content for one in past.messages] == [str(number) for number in range(1, 30)], past.messages)
            assert (past.gaps, past.messages[0].fields, past.messages[0].kind) == ([], {"n": "1"}, "historical")
            assert past.snapshot is not None
            assert past.snapshot.content == "29"
            moment = past.messages[4].time
            late = client.history("/past/a", since=datetime.fromtimestamp(moment / 1000, UTC), lake=Lake(tmp_path))
            kept(late.messages == [one for one in past.messages if one.time >= moment], late.messages)
            assert late.gaps == []

            publish(range(30, 45))  # more than the cache holds, and none of it archived
            torn = client.history("/past/a", since=past.position, lake=Lake(tmp_path))
            assert torn.gaps == [Gap(30, 34)]
            assert [one.seq for one in torn.messages] == list(range(35, 45))
