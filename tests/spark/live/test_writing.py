"""What is checked before a query in real-time mode is started: each fault is one line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.live import LiveRefused, compiling, write, writing
from spark.live.columns import prepared
from spark.live.options import LIVE_OPTIONS, LiveOptions
from spark.live.writing import check_sidecar, check_trigger, java_settings
from spark.options import InvalidOption
from spark.sink.rows import InvalidColumns
from tests.support.ports import free_port
from tests.support.rights import load_rights
from tests.support.sidecar import Sidecar
from tests.support.spark.live import records
from tests.support.spark.writing import contents
from tests.support.waiting import until

pytestmark = pytest.mark.spark

URL = "127.0.0.1:1"


def rate(session: SparkSession) -> DataFrame:
    return session.readStream.format("rate").load().selectExpr("'/t/a' subject", "value content")


def told(error: type[Exception], work: Callable[[], Any]) -> str:
    """The one line of an error."""
    with pytest.raises(error) as caught:
        work()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"colour": "red"}, "unknown option 'colour'"),
        ({"transaction": "x"}, "unknown option 'transaction'"),
        ({"delivery": "perhaps"}, "option 'delivery' must be one of exactly_once, at_least_once"),
        ({"linger_ms": "-1"}, "option 'linger_ms' must be a number from 0 to 1000"),
        ({"url": "nowhere"}, "option 'url': "),
    ],
)
def test_options_that_are_none(session: SparkSession, options: dict[str, str], words: str) -> None:
    assert words in told(InvalidOption, lambda: write(rate(session), **{"url": URL, **options}))


def test_options_have_the_names_of_the_sink() -> None:
    given = LiveOptions.parse(
        {"URL": URL, "retrySeconds": 5, "topic": "/k/{key}", "checkpointLocation": "c", "queryName": "q"}
    )
    assert (given.sink.url, given.retry_seconds, given.sink.subject, given.sink.job) == (URL, 5, "/k/{key}", "q")
    assert given.spark == {"checkpointLocation": "c", "queryName": "q"}
    assert given.delivery == ""


def test_other_sources_and_modes_are_refused(session: SparkSession) -> None:
    assert "reads from Kafka alone" in told(LiveRefused, lambda: write(rate(session), url=URL))
    assert "update alone, not append" in told(LiveRefused, lambda: write(rate(session), url=URL, output_mode="append"))


def test_an_older_pyspark_and_spark_connect_are_refused(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    told_connect = told(LiveRefused, lambda: write(object(), url=URL))  # type: ignore[arg-type]
    assert "Spark Connect" in told_connect
    monkeypatch.setattr(pyspark, "__version__", "4.0.2")
    assert "PySpark 4.0.2 has no real-time mode: install 4.1" in told(
        LiveRefused, lambda: write(rate(session), url=URL)
    )


def test_triggers_that_are_none_or_too_short_are_refused_and_short_ones_warned_of(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    assert "'soon' is no duration" in told(LiveRefused, lambda: check_trigger(session, "soon"))
    assert "'1 second' is under the 5 s" in told(LiveRefused, lambda: check_trigger(session, "1 second"))
    check_trigger(session, "1 minute")
    assert not caplog.records
    check_trigger(session, "10 seconds")
    assert "nothing flows for some tenths of a second each 10 s" in caplog.text


def test_a_sidecar_that_refuses_is_an_error_and_one_that_is_away_a_warning(
    rules_sidecar: Sidecar, caplog: pytest.LogCaptureFixture
) -> None:
    load_rights(rules_sidecar.control)
    url = rules_sidecar.publisher_url
    refused = told(LiveRefused, lambda: check_sidecar(LiveOptions.parse({"url": url, "token": "wrong"})))
    assert refused.startswith(f"the sidecar {url} does not let this query publish: ")
    away = f"127.0.0.1:{free_port()}"
    with pytest.raises(LiveRefused):
        check_sidecar(LiveOptions.parse({"url": f"{away},{url}", "token": "wrong"}))
    assert not caplog.records
    check_sidecar(LiveOptions.parse({"url": away}))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"no sidecar answers at {away}: rows wait for it for 120 s (")


def test_columns_that_make_no_message_are_refused(session: SparkSession) -> None:
    frame = records(session, 1).drop("subject")
    options = LiveOptions.parse({"url": URL}).sink
    assert "no column `subject`" in told(InvalidColumns, lambda: prepared(frame, options, once=True))


def test_kafkas_columns_are_no_fields_but_may_stand_in_the_subject(session: SparkSession) -> None:
    options = LiveOptions.parse({"url": URL, "subject": "/k/{topic}/{partition}"}).sink
    made = prepared(records(session, 1).drop("subject").withColumnRenamed("content", "Content"), options, once=True)
    assert (made.settings["parts"], made.settings["fields"]) == (["topic", "partition"], [])
    assert made.settings["template"] == ["/k/", "/", ""]
    plain = prepared(records(session, 1), LiveOptions.parse({"url": URL}).sink, once=True)
    assert plain.settings["fields"] == []


@pytest.mark.parametrize(
    ("source", "words"),
    [(None, "the package spark.live lacks its LiveWriter.java"), (b"public class LiveWriter {", "it does not compile")],
)
def test_no_java_class(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, source: bytes | None, words: str
) -> None:
    monkeypatch.setattr("pkgutil.get_data", lambda *_: source)
    line = told(LiveRefused, lambda: compiling.load(session.sparkContext))
    assert line.startswith("no Java class: ")
    assert words in line


def test_tasks_of_a_query_find_the_class_and_publish(session: SparkSession, sidecar: Sidecar, tmp_path: Path) -> None:
    """In a query of batches, as real-time mode takes no source that is here: Spark hands the rows over alike."""
    source = session.readStream.format("rate-micro-batch").options(rowsPerBatch=5, numPartitions=1).load()
    frame = source.selectExpr("'prices' topic", "0 partition", "value offset", "'/t/a' subject", "value content")
    given = LiveOptions.parse({"url": sidecar.publisher_url})
    made = prepared(frame, given.sink, once=True)
    settings = made.settings | java_settings(session, given, once=True)
    stream = made.frame.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path))
    stream._jwrite.foreach(compiling.new_writer(session.sparkContext, settings))
    query = stream.trigger(processingTime="200 milliseconds").start()
    until(lambda: query.exception() or (tmp_path / "commits" / "2").exists(), 180)
    query.stop()
    assert query.exception() is None
    found = contents(sidecar, "/t/a")
    assert found == [str(number) for number in range(len(found))]
    assert len(found) >= 15


def test_each_option_is_in_the_documentation() -> None:
    page = (Path(writing.__file__).parents[2] / "docs" / "develop" / "spark-live.md").read_text()
    assert [name for name in LIVE_OPTIONS if f"`{name}`" not in page] == []


def test_no_try_of_the_writer_has_both_catch_and_finally() -> None:
    """Janino 3.1.9 runs such a `finally` twice where the `catch` ends well, and never where it throws."""
    lines = (Path(writing.__file__).parent / compiling.SOURCE).read_text().splitlines()
    indents = [line[: len(line) - len(line.lstrip())] for line in lines]
    catches = [at for at, line in enumerate(lines) if line.strip().startswith("} catch (")]
    ends = [
        next(end for end in range(at + 1, len(lines)) if lines[end].startswith(indents[at] + "}")) for at in catches
    ]
    assert len(catches) > 10
    assert [at + 1 for at, end in zip(catches, ends, strict=True) if "finally" in lines[end]] == []
