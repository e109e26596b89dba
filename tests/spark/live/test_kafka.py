"""Kafka, Spark in real-time mode, a sidecar and a subscriber, while what is between them is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from spark.cluster import Cluster
from tests.support.kafka import Broker, Feed
from tests.support.promises import kept
from tests.support.sidecar import Sidecar
from tests.support.spark.driving import Ear, Job, executors
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

KILLS = int(os.environ.get("LIVE_KILLS", "2"))
"""How often each is killed: `LIVE_KILLS=20 make test-slow ARGS="tests/spark/live"`."""

AWAY_SECONDS = 60
AWAY = {"mode": "none", "journal": "interval", "cache_messages": 10_000, "cache_seconds": 3600}
"""Settings with which all that comes within a moment is still there when the subscriber is back."""
PARTITIONS = 4
LONG = 30 * PATIENCE_SECONDS
SUBJECT = "concat('/k/', partition)"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Stored:
    """What a subscriber has got, against what was written."""

    def __init__(self, ear: Ear, feed: Feed) -> None:
        self._ear, self._feed = ear, feed

    def all_is_there(self) -> bool:
        return len({content for _, content, _ in list(self._ear.heard)}) >= self._feed.written

    def grows(self) -> None:
        """Wait until more has come than now."""
        now = len(self._ear.heard)
        until(lambda: len(self._ear.heard) > now, LONG)

    def check(self, record: object, **counts: int) -> None:
        """Each record once, and those of a partition in their order; the counts go into the test's report."""
        heard = list(self._ear.heard)
        numbers = Counter(int(content.split()[0]) for _, content, _ in heard)
        counts |= {
            "written": self._feed.written,
            "missing": self._feed.written - len(numbers),
            "doubled": sum(count - 1 for count in numbers.values()),
        }
        record("live", counts)  # type: ignore[operator]
        print(f"\n{counts}")  # noqa: T201 - what the run was for
        kept((counts["missing"], counts["doubled"]) == (0, 0), f"each record's row is stored once: {counts}")
        for partition in range(PARTITIONS):
            got = [int(content.split()[0]) for subject, content, _ in heard if subject == f"/k/{partition}"]
            kept(got == sorted(got), f"rows of partition {partition} come in its order")


@pytest.mark.timeout(200 + 300 * KILLS)
def test_executors_that_are_killed(broker: Broker, tmp_path: Path, record_property: object) -> None:
    with (
        Sidecar(mode="none", journal="interval", data=tmp_path / "data") as sidecar,
        Cluster(workers=2, cores=2, memory_mb=512) as cluster,
        Feed(broker, "executors", PARTITIONS) as feed,
    ):
        ear = Ear(sidecar.client_url, "/k/*")
        asked = {"master": cluster.url, "servers": broker.servers, "topic": "executors", "subject": SUBJECT}
        with Job(tmp_path / "job", url=sidecar.publisher_url, checkpoint=str(tmp_path / "c"), **asked) as job:
            stored = Stored(ear, feed)
            for kill in range(KILLS):
                feed.begin(1000, rate=200)
                stored.grows()
                found = until(lambda: executors(cluster.pids), LONG)
                os.kill(found[kill % len(found)], signal.SIGKILL)
                feed.end()
                until(stored.all_is_there, LONG)
            stored.check(record_property, executors_killed=KILLS, queries_failed=job.said.count("\nfailed"))
        ear.close()


@pytest.mark.timeout(200 + 300 * KILLS)
def test_drivers_that_are_killed(broker: Broker, tmp_path: Path, record_property: object) -> None:
    with (
        Sidecar(mode="none", journal="interval", data=tmp_path / "data") as sidecar,
        Feed(broker, "drivers", PARTITIONS) as feed,
    ):
        ear = Ear(sidecar.client_url, "/k/*")
        asked = {"master": f"local[{PARTITIONS}]", "servers": broker.servers, "topic": "drivers", "subject": SUBJECT}
        job = Job(
            tmp_path / "job", url=sidecar.publisher_url, checkpoint=str(tmp_path / "c"), trigger="5 seconds", **asked
        )
        with job:
            stored = Stored(ear, feed)
            for _ in range(KILLS):
                feed.begin(1000, rate=200)
                stored.grows()
                job.kill()
                feed.end()
                job.start()
                until(stored.all_is_there, LONG)
            stored.check(record_property, drivers_killed=KILLS)
        ear.close()


@pytest.mark.timeout(900)
def test_a_sidecar_that_is_away_and_a_stream_that_is_idle(
    broker: Broker, tmp_path: Path, record_property: object
) -> None:
    """It is killed while rows come, and is away for a minute of them; then while none do. The start says what holds."""
    with (
        Sidecar(**AWAY, data=tmp_path / "data") as sidecar,
        Feed(broker, "away", PARTITIONS) as feed,
    ):
        ear = Ear(sidecar.client_url, "/k/*")
        asked = {"master": f"local[{PARTITIONS}]", "servers": broker.servers, "topic": "away", "subject": SUBJECT}
        with Job(tmp_path / "job", url=sidecar.publisher_url, checkpoint=str(tmp_path / "c"), **asked) as job:
            stored = Stored(ear, feed)
            assert "each record's row is stored once" in job.said
            feed.begin(2000, rate=400)
            stored.grows()
            sidecar.kill()
            feed.end()
            feed.begin(AWAY_SECONDS * 100, rate=100)
            feed.end()
            sidecar.start()
            until(stored.all_is_there, LONG)
            sidecar.kill()
            sidecar.start()
            feed.write(1)  # the last row of a stream that rests is not kept back for another
            until(stored.all_is_there, LONG)
            stored.check(record_property, sidecars_killed=2, queries_failed=job.said.count("\nfailed"))
            with Control(sidecar.control) as control:
                names = {one["name"].partition(":")[2] for one in control.publishers()["senders"]}
            assert names <= {f"away:{partition}" for partition in range(PARTITIONS)}
        ear.close()
