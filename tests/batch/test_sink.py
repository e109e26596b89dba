"""The data source `realtime` against a real sidecar: batch, stream, refusals, and a sidecar that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from fastpath.client.blocking import connect
from fastpath.client.control import Control
from spark.options import InvalidOption, SinkOptions
from spark.sink import RealtimeSource, Written, _publish
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

pytestmark = pytest.mark.spark
BATCH_ROWS = 5


@pytest.fixture(autouse=True)
def _no_query_stays(session: SparkSession) -> Iterator[None]:
    yield
    for query in session.streams.active:
        query.stop()


def stored(sidecar: Sidecar, subject: str) -> dict[str, Any] | None:
    with Control(sidecar.control) as control:
        answer: dict[str, Any] | None = control.snapshot(subject).get("message")
    return answer


def numbers(session: SparkSession, subject: str) -> DataFrame:
    """Five rows in each batch, numbered on and on."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS)
    rows = source.option("numPartitions", 1).load()
    return rows.select(F.lit(subject).alias("subject"), F.col("value").cast("string").alias("content"))


def start(frame: DataFrame, sidecar: Sidecar, checkpoint: Path, **options: Any) -> StreamingQuery:
    writer = frame.writeStream.format("realtime").option("url", sidecar.publisher_url).options(**options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="400 milliseconds").start()


def failure(query: StreamingQuery) -> str:
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(60)
    return str(caught.value)


def test_a_frame_is_published_when_write_returns(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.range(2500, numPartitions=2).select(
        F.concat(F.lit("N"), F.col("id")).alias("name"),
        F.col("id").cast("string").alias("content"),
        (F.col("id") * 2).alias("double"),
        F.when(F.col("id") % 2 == 0, F.encode(F.lit("é"), "utf-8")).alias("raw"),
    )
    frame.write.format("realtime").mode("append").options(
        url=f"127.0.0.1:1,{sidecar.publisher_url}", subject="/t/{name}", batch_rows=100
    ).save()
    with Control(sidecar.control) as control:
        assert control.stats()["subjects"] >= 2500
        for number in range(2500):
            message = control.snapshot(f"/t/N{number}")["message"]
            assert message["content"] == str(number)
            even = {"raw": "é".encode()} if number % 2 == 0 else {}
            assert message["fields"] == {"double": str(2 * number)} | even
            assert message["seq"] == 1


def test_fields_from_a_struct_and_meta(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.sql("""select '/t/a' subject, 'x' content, named_struct('bid', 1.5D, 'none', null) fields
                           union all select '/t/b', 'y', null""")
    frame = frame.withColumn("retained", F.col("subject") == "/t/a")
    frame.write.format("realtime").mode("append").option("url", sidecar.publisher_url).save()
    assert stored(sidecar, "/t/a")["fields"] == {"bid": "1.5"}
    assert stored(sidecar, "/t/b") is None


def test_a_refused_row_is_named(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.range(30, numPartitions=1).select(
        F.when(F.col("id") == 17, "/__sys__/mine").otherwise("/t/fine").alias("subject"),
        F.col("id").cast("string").alias("content"),
    )
    with pytest.raises(PySparkException) as caught:
        frame.write.format("realtime").mode("append").options(url=sidecar.publisher_url, batch_rows=7).save()
    assert "row 18 of partition 0, subject /__sys__/mine, was refused by the sidecar, " in str(caught.value)
    # The same worker process writes again: nothing of the failed write is left in its connection.
    frame.limit(3).write.format("realtime").mode("append").options(url=sidecar.publisher_url, batch_rows=7).save()
    assert stored(sidecar, "/t/fine")["content"] == "2"


def test_mistakes_fail_the_write_and_say_so(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.sql("select '/t/x' subject, '1' content")
    for mode, options, text in (
        ("append", {"colour": "red"}, "unknown option 'colour' for format \"realtime\"; there are: url, token"),
        ("append", {"content": "price"}, "no column `price`"),
        ("overwrite", {}, "only appends"),
    ):
        with pytest.raises(PySparkException) as caught:
            frame.write.format("realtime").mode(mode).options(url=sidecar.publisher_url, **options).save()
        assert text in str(caught.value)


def test_token_and_rights(session: SparkSession) -> None:
    frame = session.sql("select '/stocks/us/IBM' subject, '1' content")
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        write = frame.write.format("realtime").mode("append").option("url", sidecar.publisher_url)
        write.option("token", mint_jwt("feed", publish=["/stocks/**"])).save()
        with pytest.raises(PySparkException, match="subject /stocks/us/IBM, was refused by the sidecar, denied"):
            write.option("token", mint_jwt("feed", publish=["/bonds/**"])).save()
        with pytest.raises(PySparkException, match="4501 bad_token"):
            write.option("token", "no token").save()


def test_an_epoch_without_rows_written_is_not_committed(session: SparkSession) -> None:
    columns = StructType.fromDDL("subject string, content string")
    writer = RealtimeSource({"url": "127.0.0.1:1"}).streamWriter(columns, overwrite=False)
    writer.commit([Written(3)], 0)
    # What Spark hands over in continuous processing.
    with pytest.raises(InvalidOption, match=r"nothing was published: .* has no continuous processing"):
        writer.commit([None, None], 0)


def test_no_sidecar_fails_after_the_time_to_retry(session: SparkSession) -> None:
    frame = session.sql("select '/t/x' subject, '1' content")
    with pytest.raises(PySparkException, match=r"nothing was acknowledged for 0.5 s by the publisher port 127.0.0.1:1"):
        frame.write.format("realtime").mode("append").options(url="127.0.0.1:1", retry_seconds=0.5).save()


def test_a_query_goes_on_where_it_stopped(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    with connect(sidecar.client_url) as client, client.subscribe("/t/n") as stream:
        for first in (0, BATCH_ROWS * 2):
            query = start(numbers(session, "/t/n"), sidecar, tmp_path)
            got = [stream.get(30).content for _ in range(BATCH_ROWS * 2)]
            query.stop()
            if first == 0:
                assert got == [str(number) for number in range(BATCH_ROWS * 2)]
        # At least once: what was under way at the stop may come twice, but nothing is left out.
        assert int(got[0]) % BATCH_ROWS == 0
        assert int(got[0]) <= first + BATCH_ROWS


def test_a_task_that_is_tried_again_stores_nothing_twice(sidecar: Sidecar) -> None:
    options = SinkOptions.parse({"url": sidecar.publisher_url})
    rows = [("/t/again", str(number), None, None) for number in range(10)]
    for _ in range(2):
        _publish(options, "task:0", rows[:6], 0)  # the first attempt ended here
    _publish(options, "task:6", rows[6:], 6)
    assert stored(sidecar, "/t/again")["seq"] == 10
    # Its rows came in another order, so that their numbers tell nothing: all of them once more, none left out.
    _publish(options, "task:0", rows[5::-1], 0)
    assert (stored(sidecar, "/t/again")["seq"], stored(sidecar, "/t/again")["content"]) == (16, "0")


def test_a_batch_that_is_replayed_is_stored_once(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    with connect(sidecar.client_url) as client, client.subscribe("/t/n") as stream:
        query = start(numbers(session, "/t/n"), sidecar, tmp_path)
        got = [stream.get(30).content for _ in range(BATCH_ROWS * 2)]
        until(lambda: (tmp_path / "commits" / "1").exists(), 30)
        query.stop()
        commits = tmp_path / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        for file in (f"{last}", f".{last}.crc"):
            (commits / file).unlink(missing_ok=True)
        query = start(numbers(session, "/t/n"), sidecar, tmp_path)
        got += [stream.get(30).content for _ in range(BATCH_ROWS * (last + 3) - len(got))]
        query.stop()
        assert got == [str(number) for number in range(BATCH_ROWS * (last + 3))]


def test_a_query_outlives_the_sidecar(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    query = start(numbers(session, "/t/n"), sidecar, tmp_path)
    with connect(sidecar.client_url) as client, client.subscribe("/t/n") as stream:
        last = int(stream.get(30).content)
        while last % BATCH_ROWS != BATCH_ROWS - 1:
            last = int(stream.get(30).content)
        # Between two batches: all that was acknowledged has been seen here.
        sidecar.kill()
    committed = query.lastProgress.batchId if query.lastProgress else -1
    until(lambda: query.status["isTriggerActive"])
    sidecar.start()
    with connect(sidecar.client_url) as client, client.subscribe("/t/n", history=1000) as stream:
        got = [int(stream.get(30).content) for _ in range(BATCH_ROWS * 3)]
    assert query.isActive
    assert got == list(range(last + 1, last + 1 + BATCH_ROWS * 3))
    until(lambda: query.lastProgress.batchId > committed + 1)


def test_a_refused_row_fails_the_query(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    query = start(numbers(session, "no-slash"), sidecar, tmp_path)
    assert "row 1 of partition 0, subject no-slash, was refused by the sidecar, invalid: " in failure(query)
    query = start(numbers(session, "/t/n"), sidecar, tmp_path / "other", batchrows=1)
    assert "unknown option 'batchrows'" in failure(query)
