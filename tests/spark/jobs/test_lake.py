"""The archiving job against a real sidecar: each message once, whatever ends the job, and no gap to what is cached."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from fastpath.client.publisher.publisher import Publisher
from spark import lake
from spark.jobs import lake as job
from spark.jobs.running import JobError, parse
from spark.lake import Archive
from spark.support import histories
from tests.support.sidecar import Sidecar
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here
from tests.support.spark.writing import forget_last_commit

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SUBJECTS = ("/stocks/us/AAPL", "/stocks/us/XOM")


class Story:
    """Real closes, published one after the other; what was published so far."""

    def __init__(self, url: str) -> None:
        closes = histories.read().prices
        self._rest = {subject: iter(closes[subject.rpartition("/")[2]]) for subject in SUBJECTS}
        self._publisher = Publisher(url)
        self.told: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._publisher.close()

    def publish(self, count: int, subjects: Iterable[str] = SUBJECTS) -> None:
        for subject in subjects:
            for _ in range(count):
                self.told[subject].append(f"{next(self._rest[subject]):.2f}")
                self._publisher.publish(subject, self.told[subject][-1], {"number": str(len(self.told[subject]))})
        self._publisher.flush()


def told(session: SparkSession, folder: Path, **more: Any) -> dict[str, list[str]]:
    """What a reader finds, in the order of the numbers."""
    found: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
    for row in lake.read(session, folder, ["/stocks/**"], **more).orderBy("seq").collect():
        assert bytes(row.fields["number"]) == str(len(found[row.subject]) + 1).encode()
        found[row.subject].append(bytes(row.content).decode())
    return found


def archive(session: SparkSession, url: str, folder: Path, checkpoint: Path, *words: str) -> None:
    """The job, until all that is there is archived."""
    given = ["--folder", str(folder), "--subjects", "/stocks/**", *words]
    options = parse("lake", "", None, job.arguments, given)
    vars(options).update(url=url, once=True, retry_seconds=20.0)
    (query,) = job.start(session, options, str(checkpoint))
    query.awaitTermination()


def test_each_message_is_archived_once_and_goes_on_in_the_cache(session: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "lake", tmp_path / "checkpoint"
    with Sidecar() as sidecar, Story(sidecar.publisher_url) as story:
        story.publish(30)
        archive(session, sidecar.publisher_url, folder, checkpoint, "--max-rows", "25")
        assert told(session, folder) == story.told
        batches = Archive(folder).log.state().batches
        assert [last >= 1 for last in batches.values()] == [True]
        # As a driver leaves it that dies after its last batch, before Spark has written that down.
        forget_last_commit(checkpoint / "lake")
        story.publish(20)
        assert told(session, folder) != story.told
        assert told(session, folder, url=sidecar.publisher_url) == story.told
        archive(session, sidecar.publisher_url, folder, checkpoint)
        assert told(session, folder) == story.told
        # Another job over the same archive begins where that one ended.
        story.publish(5, SUBJECTS[:1])
        shutil.rmtree(checkpoint)
        # As a driver leaves it that dies in its first batch.
        (checkpoint / "lake").mkdir(parents=True)
        (checkpoint / "lake" / "metadata").write_text('{"id":"4d2ee8b6-5b0b-4a3f-9f0e-3a0b7c1d2e3f"}')
        archive(session, sidecar.publisher_url, folder, checkpoint)
        assert told(session, folder) == told(session, folder, url=sidecar.publisher_url) == story.told
        assert len(Archive(folder).log.state().batches) == 2


def test_what_was_cached_by_nobody_is_missing(session: SparkSession, tmp_path: Path) -> None:
    """More was published than the cache holds while no job ran: the reader is told of which subject, and how many."""
    folder = tmp_path / "lake"
    with Sidecar(cache_messages=10) as sidecar, Story(sidecar.publisher_url) as story:
        story.publish(8)
        archive(session, sidecar.publisher_url, folder, tmp_path / "checkpoint")
        story.publish(2)
        assert told(session, folder, url=sidecar.publisher_url) == story.told
        story.publish(13, SUBJECTS[1:])
        with pytest.raises(lake.Missing, match="5 messages of /stocks/us/XOM from number 9 on"):
            lake.read(session, folder, ["/stocks/**"], url=sidecar.publisher_url)
        rows = lake.read(session, folder, ["/stocks/**"], url=sidecar.publisher_url, missing="ignore")
        assert rows.count() == 10 + 8 + 10
        assert lake.read(session, folder, SUBJECTS[:1], url=sidecar.publisher_url).count() == 10


def test_small_files_are_bounded_while_it_runs(session: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    with Sidecar() as sidecar, Story(sidecar.publisher_url) as story:
        story.publish(12, SUBJECTS[:1])
        archive(session, sidecar.publisher_url, folder, tmp_path / "checkpoint", "--max-rows", "3", "--files-max", "2")
        assert told(session, folder) == story.told
        assert len(Archive(folder).log.state().files) <= 2
        wrong = parse("lake", "", None, job.compact_arguments, ["--folder", f"{folder}e", "--compact"])
        with pytest.raises(JobError, match="no archive"):
            job.compact(session, wrong)
        words = ["--folder", str(folder), "--compact"]
        job.compact(session, parse("lake", "", None, job.compact_arguments, words))
        assert len(Archive(folder).log.state().files) == 1
        assert told(session, folder) == story.told
