"""Reading with the data source, against a real sidecar: batches, queries, offsets, what is lost, and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from fastpath.client.publisher.publisher import Publisher
from fastpath.client.publisher.reading import Reader
from tests.support.sidecar import Sidecar
from tests.support.spark.writing import forget_last_commit
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

pytestmark = pytest.mark.spark

SECONDS = 60


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """A sidecar in which everybody may do everything."""
    with Sidecar(cache_messages=200) as running:
        yield running


def publish(sidecar: Sidecar, *rows: list[Any]) -> None:
    """Publish the rows."""
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch(rows)


def position(sidecar: Sidecar, subject: str) -> tuple[int, int]:
    """Where the subject stands."""
    with Reader(sidecar.publisher_url) as reader:
        return reader.positions([subject])[subject][:2]


def batch(session: SparkSession, sidecar: Sidecar, subjects: str, **options: Any) -> DataFrame:
    """A batch read."""
    return session.read.format("realtime").options(url=sidecar.publisher_url, subjects=subjects, **options).load()


class Stream:
    """A query whose batches are kept in this process: ``rows`` by number of the batch."""

    def __init__(self, session: SparkSession, sidecar: Sidecar, subjects: str, folder: Path, **options: Any) -> None:
        self._session, self._folder = session, folder
        self._options = {"url": sidecar.publisher_url, "subjects": subjects, "start": "earliest", "wait_ms": 50}
        self._options |= options
        self.rows: dict[int, list[str]] = {}
        self.query: StreamingQuery | None = None

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start it, or start it again from its checkpoint."""
        frame = self._session.readStream.format("realtime").options(**self._options).load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._folder))
        self.query = (writer.trigger(**trigger) if trigger else writer).start()
        return self.query

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.select(F.concat_ws(" ", "subject", "seq", F.col("content").cast("string")).alias("text")).collect()
        self.rows[number] = [row.text for row in rows]

    def all(self) -> list[str]:
        """All rows so far, batch by batch."""
        return [row for number in sorted(self.rows) for row in self.rows[number]]

    def wait(self, count: int) -> list[str]:
        """All rows, when they are so many."""
        assert self.query is not None
        until(lambda: len(self.all()) >= count or not self.query.isActive, SECONDS)
        if not self.query.isActive:
            raise AssertionError(str(self.query.exception()))
        return self.all()

    def failure(self) -> str:
        """Why the query ended."""
        query = self.query
        assert query is not None
        until(lambda: not query.isActive, SECONDS)
        return str(query.exception())


def test_a_batch_has_all_that_is_cached(session: SparkSession, sidecar: Sidecar) -> None:
    publish(
        sidecar,
        ["/b/one", "1.5", {"price": "1.5", "note": "a"}],
        ["/b/two", b"\x00\xff", None, {"closure": "c", "as_of": 5}],
        ["/b/one", "x", {"price": "none"}],
    )
    epoch = position(sidecar, "/b/one")[0]
    rows = batch(session, sidecar, "/b/*").orderBy("subject", "seq").collect()
    assert [(row.subject, bytes(row.content), row.epoch, row.seq, row.closure, row.as_of) for row in rows] == [
        ("/b/one", b"1.5", epoch, 1, None, None),
        ("/b/one", b"x", epoch, 2, None, None),
        ("/b/two", b"\x00\xff", epoch, 1, "c", "5"),
    ]
    assert [row.fields and {name: bytes(value) for name, value in row.fields.items()} for row in rows] == [
        {"price": b"1.5", "note": b"a"}, {"price": b"none"}, None]  # fmt: skip
    assert all(abs((datetime.now(UTC) - row.time.astimezone(UTC)).total_seconds()) < 600 for row in rows)
    typed = batch(session, sidecar, "/b/one", fields="price double, note string").orderBy("seq")
    assert typed.select("price", "note").collect() == [Row(price=1.5, note="a"), Row(price=None, note=None)]
    # A schema of one's own: some of the columns, and fields.
    reader = session.read.format("realtime").schema("seq long, price double, subject string")
    chosen = reader.options(url=sidecar.publisher_url, subjects="/b/one").load().orderBy("seq")
    assert chosen.collect() == [Row(seq=1, price=1.5, subject="/b/one"), Row(seq=2, price=None, subject="/b/one")]


def test_where_a_batch_begins(session: SparkSession, sidecar: Sidecar) -> None:
    publish(sidecar, *[["/w/a", str(n)] for n in range(5)], ["/w/b", "x"])
    epoch = position(sidecar, "/w/a")[0]

    def read(start: str, **options: Any) -> list[str]:
        frame = batch(session, sidecar, "/w/*", start=start, **options)
        return [row.text for row in frame.select(F.concat("subject", "seq").alias("text")).orderBy("text").collect()]

    everything = [f"/w/a{n}" for n in range(1, 6)] + ["/w/b1"]
    assert read("earliest", partitions=3) == everything
    assert read("latest") == []
    assert read(json.dumps({"/w/a": [epoch, 3]})) == ["/w/a4", "/w/a5", "/w/b1"]
    assert read("2020-01-01T00:00:00Z") == everything
    assert read(str(4_000_000_000_000)) == []


def test_mistakes_say_what_is_wrong(session: SparkSession, sidecar: Sidecar) -> None:
    for options, text in (
        ({"colour": "red"}, "unknown option 'colour' of this format; there are: url, token"),
        ({"fields": "x array<int>"}, "field 'x' cannot be array<int>"),
    ):
        with pytest.raises(PySparkException) as caught:
            batch(session, sidecar, "/a/b", **options).collect()
        assert text in str(caught.value)


def test_rights(session: SparkSession) -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as running:
        with Publisher(running.publisher_url, mint_jwt("feed", publish=["/**"])) as publisher:
            publisher.send_batch([["/may/a", "1"], ["/not/a", "1"]])
        token = mint_jwt("some", subscribe=["/may/*"])
        assert batch(session, running, "/**", token=token).count() == 1
        with pytest.raises(PySparkException, match="denied: /not/a: no permission in the token covers it"):
            batch(session, running, "/not/a", token=token).collect()
        with pytest.raises(PySparkException, match="4501 bad_token"):
            batch(session, running, "/not/a", token="none").collect()


def test_a_query_reads_everything_once(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    """With a limit, subjects that appear later, a restart, and a batch that is run again."""
    publish(sidecar, *[["/q/a", str(n)] for n in range(10)], *[["/q/b", str(n)] for n in range(3)])
    stream = Stream(session, sidecar, "/q/*", tmp_path, max_rows=6)
    query = stream.start()
    stream.wait(13)
    publish(sidecar, ["/q/new", "0"], ["/other/x", "0"], ["/q/a", "10"])
    stream.wait(15)
    last = max(stream.rows)
    until(lambda: (tmp_path / "commits" / str(last)).exists(), SECONDS)
    query.stop()
    assert max(map(len, stream.rows.values())) <= 6
    assert len([row for row in stream.rows[0] if row.startswith("/q/b")]) == 3  # its share of the first batch
    publish(sidecar, ["/q/later", "0"], ["/q/b", "3"])
    # The last batch is not known to be done: it is run again, and reads the same.
    assert forget_last_commit(tmp_path) == last
    before, stream.rows = stream.rows, {number: rows for number, rows in stream.rows.items() if number < last}
    query = stream.start()
    got = stream.wait(17)
    query.stop()
    assert stream.rows[last] == before[last]
    wanted = [f"/q/a {n + 1} {n}" for n in range(11)] + [f"/q/b {n + 1} {n}" for n in range(4)]
    assert sorted(got) == sorted([*wanted, "/q/new 1 0", "/q/later 1 0"])
    for subject in ("/q/a", "/q/b"):
        own = [row for row in got if row.startswith(subject + " ")]
        assert own == sorted(own, key=lambda row: int(row.split()[1]))


@pytest.mark.slow
def test_available_now_reads_what_is_there_and_ends(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    publish(sidecar, *[["/now/a", str(n)] for n in range(10)])
    stream = Stream(session, sidecar, "/now/*", tmp_path, max_rows=4)
    query = stream.start(availableNow=True)
    assert query.awaitTermination(SECONDS)
    assert [len(rows) for _, rows in sorted(stream.rows.items())] == [4, 4, 2]
    publish(sidecar, ["/now/a", "10"])
    query = stream.start(availableNow=True)
    assert query.awaitTermination(SECONDS)
    assert stream.all() == [f"/now/a {n + 1} {n}" for n in range(11)]


def test_lost_messages_fail_the_query_or_are_left_out(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    publish(sidecar, ["/lost/a", "0"])
    stream = Stream(session, sidecar, "/lost/*", tmp_path)
    assert stream.start(availableNow=True).awaitTermination(SECONDS)
    publish(sidecar, *[["/lost/a", str(n)] for n in range(1, 251)])
    with pytest.raises(PySparkException, match="/lost/a: messages 2 to 51 are not there any more"):
        stream.start(availableNow=True).awaitTermination(SECONDS)
    # The same batch again: it fails again, and nothing has been passed over in silence.
    assert stream.all() == ["/lost/a 1 0"]
    stream._options["fail_on_data_loss"] = "false"
    assert stream.start(availableNow=True).awaitTermination(SECONDS)
    assert stream.all() == ["/lost/a 1 0", *[f"/lost/a {n + 1} {n}" for n in range(51, 251)]]
    positions = json.dumps({"/lost/a": [position(sidecar, "/lost/a")[0], 10]})
    with pytest.raises(PySparkException, match="/lost/a: messages 11 to 51 are not there any more"):
        batch(session, sidecar, "/lost/a", start=positions).collect()


def test_a_query_outlives_the_sidecar(session: SparkSession, tmp_path: Path) -> None:
    """Killed and started again with its journal: what comes after is read, and nothing twice."""
    with Sidecar(journal="interval", data=tmp_path / "data") as running:
        publish(running, *[["/k/a", str(n)] for n in range(3)])
        stream = Stream(session, running, "/k/*", tmp_path / "checkpoint", start="latest")
        query = stream.start()
        # The first batch of a query that begins with the latest is empty, and says from where on it reads.
        until(lambda: (tmp_path / "checkpoint" / "offsets" / "0").exists() or not query.isActive, SECONDS)
        publish(running, ["/k/b", "go"])
        assert stream.wait(1) == ["/k/b 1 go"]
        running.kill()
        running.start()
        publish(running, *[["/k/a", str(n)] for n in range(3, 6)])
        got = stream.wait(4)
        query.stop()
        assert got[1:] == [f"/k/a {n + 1} {n}" for n in range(3, 6)]
