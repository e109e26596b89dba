"""The data source `realtime` against a real sidecar: batch, stream, refusals, and a sidecar that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from fastpath.client.blocking import connect
from fastpath.client.control.client import Control
from spark.datasource import RealtimeSource
from spark.options import InvalidOption, SinkOptions
from spark.sink.at_least_once import RowPublisher
from spark.sink.rows import RowBuilder, RowRefused
from spark.sink.sink import Place, Task, Written, rotated
from tests.support.sidecar import Sidecar
from tests.support.spark.writing import BATCH_ROWS, contents, failure, forget_last_commit, numbers, start, stored
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _no_query_stays(session: SparkSession) -> Iterator[None]:
    yield
    for query in session.streams.active:
        query.stop()


def staged_rows(sidecar: Sidecar) -> int:
    with Control(sidecar.control) as control:
        rows: int = control.stats()["staged_rows"]
    return rows


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


def test_rows_remove_their_subjects(session: SparkSession, sidecar: Sidecar) -> None:
    """In their place among the others of the subject."""
    with Control(sidecar.control) as control:
        control.publish([["/t/a", "1", {"bid": "x"}], ["/t/b", "1", {"bid": "x"}]])
        frame = session.sql("""select '/t/a' subject, '2' content, 'y' bid, true gone
                               union all select '/t/b', null, null, true
                               union all select '/t/b', '3', null, null""").coalesce(1)
        frame.write.format("realtime").mode("append").options(url=sidecar.publisher_url, removed="gone").save()
        assert stored(sidecar, "/t/a") is None
        assert (stored(sidecar, "/t/b")["content"], stored(sidecar, "/t/b")["fields"]) == ("3", {})
        assert control.call("subject", {"subject": "/t/b"})["seq"] == 3


def test_rows_ask_for_replies(session: SparkSession, sidecar: Sidecar) -> None:
    """Who subscribes is asked to reply to the subject that the row says, and its reply comes."""
    with connect(sidecar.client_url) as client, client.subscribe(["/t/a", "/answers/1"]) as stream:
        frame = session.sql("select '/t/a' subject, 'how many?' content, '/answers/1' answers")
        frame.write.format("realtime").mode("append").options(url=sidecar.publisher_url, reply_to="answers").save()
        asked = stream.get(20)
        assert (asked.content, asked.reply_to) == ("how many?", "/answers/1")
        client.publish(asked.reply_to, "seven")
        assert stream.get(20).content == "seven"


def test_a_refused_row_is_named(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.range(30, numPartitions=1).select(
        F.when(F.col("id") == 17, "/__sys__/mine").otherwise("/t/fine").alias("subject"),
        F.col("id").cast("string").alias("content"),
    )
    with pytest.raises(PySparkException) as caught:
        frame.write.format("realtime").mode("append").options(url=sidecar.publisher_url, batch_rows=7).save()
    assert "row 18 of partition 0, subject /__sys__/mine, was refused by the sidecar, " in str(caught.value)
    assert stored(sidecar, "/t/fine") is None
    assert staged_rows(sidecar) == 0
    # The same worker process writes again: nothing of the failed write is left in its connection.
    frame.limit(3).write.format("realtime").mode("append").options(url=sidecar.publisher_url, batch_rows=7).save()
    assert stored(sidecar, "/t/fine")["content"] == "2"


def test_mistakes_fail_the_write_and_say_so(session: SparkSession, sidecar: Sidecar) -> None:
    frame = session.sql("select '/t/x' subject, '1' content")
    for mode, options, text in (
        ("append", {"colour": "red"}, "unknown option 'colour' of this format; there are: url, token"),
        ("append", {"content": "price"}, "no column `price`"),
        ("overwrite", {}, "only appends"),
    ):
        with pytest.raises(PySparkException) as caught:
            frame.write.format("realtime").mode(mode).options(url=sidecar.publisher_url, **options).save()
        assert text in str(caught.value)


@pytest.mark.parametrize(
    "streamed", [pytest.param(False, id="batch"), pytest.param(True, id="stream", marks=pytest.mark.slow)]
)
def test_the_case_of_columns_counts_as_the_session_says(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path, streamed: bool
) -> None:
    """Whatever the case in an ordinary session; in one that tells it apart each name is another column."""
    upper = session.createDataFrame([("/u/one", "1", "2")], "Subject string, CONTENT string, Bid string")
    both = session.createDataFrame(
        [("/u/two", "1", "x", "y")], "subject string, content string, Subject string, Qos string"
    )

    def write(frame: DataFrame, **options: str) -> None:
        options |= {"url": sidecar.publisher_url}
        if not streamed:
            frame.write.format("realtime").mode("append").options(**options).save()
            return
        folder = str(tmp_path / f"{len(list(tmp_path.iterdir()))}")
        frame.write.mode("append").json(f"{folder}/in")
        comes = (
            session.readStream.schema(frame.schema)
            .json(f"{folder}/in")
            .select(*[F.col(f"`{one}`") for one in frame.columns])
        )
        query = comes.writeStream.format("realtime").options(**options).option("checkpointLocation", f"{folder}/at")
        query.trigger(availableNow=True).start().awaitTermination()

    write(upper)
    with Control(sidecar.control) as control:
        assert control.snapshot("/u/one")["message"]["fields"] == {"Bid": "2"}
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        write(both)
        with pytest.raises(PySparkException, match="no column `subject`"):
            write(upper)
    finally:
        session.conf.unset("spark.sql.caseSensitive")
    with Control(sidecar.control) as control:
        assert control.snapshot("/u/two")["message"]["fields"] == {"Subject": "x", "Qos": "y"}


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


def test_what_tasks_have_staged_is_dropped_when_their_write_is_given_up(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path
) -> None:
    columns = StructType.fromDDL("subject string, content string")
    batch = pa.RecordBatch.from_pydict({"subject": ["/t/x", "/t/x", None], "content": ["1", "2", "3"]})
    source = RealtimeSource({"url": sidecar.publisher_url, "dead_letter": str(tmp_path)})
    for abort in (
        lambda message: source.writer(columns, overwrite=False).abort([message, None]),
        lambda message: source.streamWriter(columns, overwrite=False).abort([None, message], 0),
    ):
        message = source.writer(columns, overwrite=False).write(iter([batch]))
        assert (message.rows, message.letters, staged_rows(sidecar)) == (2, 1, 2)
        assert len(list(tmp_path.glob("_staged/*"))) == 1
        abort(message)
        assert staged_rows(sidecar) == 0
        assert not list(tmp_path.glob("_staged/*"))
    sidecar.kill()
    abort(message)  # it is no error that nothing can be dropped: the query has failed already, for a reason of its own


def test_a_write_that_adds_nothing_says_so(sidecar: Sidecar, caplog: pytest.LogCaptureFixture) -> None:
    columns = StructType.fromDDL("subject string, content string")
    batch = pa.RecordBatch.from_pydict({"subject": ["/t/x"], "content": ["1"]})
    given = {"url": sidecar.publisher_url, "transaction": "load"}
    options = SinkOptions.parse(given)

    def stage() -> Written:
        return Task(options, Place("load", 0, 0, None)).stage(iter([batch]), RowBuilder(columns, options))

    first = stage()
    for message, told in ((first, 0), (first, 0), (stage(), 1)):  # the second time the answer may have been lost
        RealtimeSource(given).writer(columns, overwrite=False).commit([message])
        assert len(caplog.records) == told
    assert "batch 0 of transaction load was committed by an earlier write, of this one nothing" in caplog.text
    assert contents(sidecar, "/t/x") == ["1"]


def test_each_partition_begins_with_another_node() -> None:
    assert rotated("a:1,b:2,c:3", 0) == ["a:1", "b:2", "c:3"]
    assert rotated("a:1,b:2,c:3", 4) == ["b:2", "c:3", "a:1"]


def test_a_task_that_is_tried_again_publishes_nothing_twice(session: SparkSession, sidecar: Sidecar) -> None:
    options = SinkOptions.parse({"url": sidecar.publisher_url, "delivery": "at_least_once"})
    columns = StructType.fromDDL("subject string, content string")
    task = RowPublisher(options, RowBuilder(columns, options), "task", 0)
    rows = [("/t/again", str(number), None, None) for number in range(10)]
    for _ in range(2):
        task.group(rows[:6], 0)  # the first attempt ended here
    task.group(rows[6:], 6)
    assert stored(sidecar, "/t/again")["seq"] == 10
    batch = pa.RecordBatch.from_pydict({"subject": ["/t/again", None], "content": ["x", "y"]})
    with pytest.raises(RowRefused, match="row 4 of partition 0 was refused, invalid: the subject is null"):
        task.publish(iter([batch.slice(0, 1), batch.slice(0, 1), batch]), None)
    # Its rows came in another order, so that their numbers tell nothing: all of them once more, none left out.
    task.group(rows[5::-1], 0)
    assert (stored(sidecar, "/t/again")["seq"], stored(sidecar, "/t/again")["content"]) == (16, "0")


@pytest.mark.slow
def test_at_least_once_a_batch_that_is_replayed_with_the_same_rows_is_stored_once(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path
) -> None:
    with connect(sidecar.client_url) as client, client.subscribe("/t/n") as stream:
        query = start(numbers(session, "/t/n"), sidecar, tmp_path, delivery="at_least_once")
        got = [stream.get(30).content for _ in range(BATCH_ROWS * 2)]
        until(lambda: (tmp_path / "commits" / "1").exists(), 60)
        query.stop()
        last = forget_last_commit(tmp_path)
        query = start(numbers(session, "/t/n"), sidecar, tmp_path, delivery="at_least_once")
        got += [stream.get(30).content for _ in range(BATCH_ROWS * (last + 3) - len(got))]
        query.stop()
        assert got == [str(number) for number in range(BATCH_ROWS * (last + 3))]


def test_a_refused_row_fails_the_query(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    query = start(numbers(session, "no-slash"), sidecar, tmp_path)
    assert "row 1 of partition 0, subject no-slash, was refused by the sidecar, invalid: " in failure(query)
    query = start(numbers(session, "/t/n"), sidecar, tmp_path / "other", batch_row=1)
    assert "unknown option 'batch_row'" in failure(query)
