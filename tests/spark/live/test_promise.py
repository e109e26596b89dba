"""What is promised of a query in real-time mode, by its plan."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark import live
from spark.live import writing
from spark.live.promise import LiveRefused, promise_of
from tests.support.sidecar import Sidecar
from tests.support.spark.live import KafkaStandIn

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def kafka(session: SparkSession) -> SparkSession:
    """The session, with a source that has the columns of Kafka's."""
    session.dataSource.register(KafkaStandIn)
    return session


def source(session: SparkSession, **options: str) -> DataFrame:
    return session.readStream.format(KafkaStandIn.name()).options(**options).load()


def messages(session: SparkSession, **options: str) -> DataFrame:
    subject = F.concat(F.lit("/k/"), F.col("key").cast("string")).alias("subject")
    return source(session, **options).select("topic", "partition", "offset", subject, F.col("value").alias("content"))


ONCE = {
    "as they come": lambda frame: frame,
    "filtered": lambda frame: frame.where("content is not null").withColumn("more", F.lit(1)),
    "by way of other names": lambda frame: frame.withColumnRenamed("offset", "o").withColumnRenamed("o", "offset"),
    "with columns of now": lambda frame: frame.withColumn("at", F.current_timestamp()),
    "with columns of chance": lambda frame: frame.withColumn("luck", F.rand()),
    "with an alias": lambda frame: frame.alias("a").select("a.*"),
}

AT_LEAST_ONCE = {
    "explode": (
        lambda frame: frame.withColumn("one", F.explode(F.array(F.lit(1), F.lit(2)))),
        "several rows (explode)",
    ),
    "union": (lambda frame: frame.union(frame), "several sources (union)"),
    "join": (lambda frame: frame.join(F.broadcast(other(frame)), "subject"), "several rows (join)"),
    "shuffle": (lambda frame: frame.repartition(3), "rows are shuffled"),
    "groups": (lambda frame: frame.groupBy("subject").agg(F.max("content").alias("content")), "keeps a state"),
    "duplicates": (lambda frame: frame.dropDuplicates(["subject"]), "keeps a state"),
    "no offsets": (lambda frame: frame.drop("offset"), "no column offset of Kafka's"),
    "no place": (lambda frame: frame.drop("offset", "topic", "partition"), "no columns topic, partition, offset"),
    "other offsets": (lambda frame: frame.withColumn("offset", F.col("offset") * 2), "no column offset of Kafka's"),
    "exchanged": (
        lambda frame: frame.select(F.col("partition").cast("long").alias("offset"), "topic", "partition", "content"),
        "no column offset of Kafka's",
    ),
    "chance": (lambda frame: frame.where(F.rand() > 0.5), "depends on chance"),
    "chance before": (lambda frame: frame.withColumn("r", F.rand()).where("r > 0.5"), "depends on chance"),
    "time": (
        lambda frame: frame.where(F.current_timestamp() > F.to_timestamp(F.col("subject"))),
        "depends on the time",
    ),
    "time before": (
        lambda frame: frame.withColumn("n", F.current_timestamp()).where("n > to_timestamp(subject)"),
        "depends on the time",
    ),
}


def other(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.range(2).select(F.lit("/k/a").alias("subject"), "id")


@pytest.mark.parametrize("made", ONCE.values(), ids=ONCE.keys())
def test_rows_that_are_one_of_a_record_are_stored_once(kafka: SparkSession, made: object) -> None:
    promise = promise_of(made(messages(kafka)), KafkaStandIn.name())  # type: ignore[operator]
    assert promise.once, promise.words


@pytest.mark.parametrize(("made", "why"), AT_LEAST_ONCE.values(), ids=AT_LEAST_ONCE.keys())
def test_others_are_told_to_be_stored_at_least_once_and_why(kafka: SparkSession, made: object, why: str) -> None:
    promise = promise_of(made(messages(kafka)), KafkaStandIn.name())  # type: ignore[operator]
    assert not promise.once
    assert why in promise.words
    assert "\n" not in promise.words


def test_a_watermark_that_nothing_uses_changes_nothing(kafka: SparkSession) -> None:
    late = source(kafka).withWatermark("timestamp", "1 minute").select("topic", "partition", "offset", "value")
    assert promise_of(late, KafkaStandIn.name()).once


@pytest.mark.parametrize("value", ["false", "FALSE"])
def test_offsets_that_may_begin_anew_number_nothing(kafka: SparkSession, value: str) -> None:
    promise = promise_of(messages(kafka, failOnDataLoss=value), KafkaStandIn.name())
    assert not promise.once
    assert "failOnDataLoss=false" in promise.words


def test_other_sources_and_frames_that_are_no_streams_are_refused(kafka: SparkSession) -> None:
    with pytest.raises(LiveRefused, match="reads from Kafka alone, and this frame reads from rate"):
        promise_of(kafka.readStream.format("rate").load())
    with pytest.raises(LiveRefused, match="reads from kafka_stand_in"):
        promise_of(messages(kafka))
    with pytest.raises(LiveRefused, match="no stream"):
        promise_of(kafka.range(3))
    both = (
        messages(kafka)
        .select("content")
        .union(kafka.readStream.format("rate").load().selectExpr("cast(string(value) as binary) content"))
    )
    with pytest.raises(LiveRefused, match="reads from rate"):
        promise_of(both, KafkaStandIn.name())


@pytest.mark.parametrize(
    ("made", "level"), [(ONCE["filtered"], logging.INFO), (AT_LEAST_ONCE["shuffle"][0], logging.WARNING)]
)
def test_what_holds_is_told_before_the_first_row(
    kafka: SparkSession,
    sidecar: Sidecar,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    made: Any,
    level: int,
) -> None:
    """In one line: an information where rows are stored once, a warning with the reason where they may not be."""
    of_stand_in(monkeypatch)
    caplog.set_level(logging.INFO, "spark.realtime")
    frame = made(messages(kafka))
    with suppress(PySparkException):  # the stand-in is no source of real-time mode
        live.write(frame, url=sidecar.publisher_url, checkpointLocation=str(tmp_path)).stop()
    said = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "spark.realtime"]
    assert said == [(level, promise_of(frame, KafkaStandIn.name()).words)]


def test_a_delivery_that_cannot_be_had_is_an_error(kafka: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    of_stand_in(monkeypatch)
    url = "127.0.0.1:1"
    shuffled = messages(kafka).repartition(3)
    with pytest.raises(LiveRefused, match=r"delivery exactly_once cannot be had for this query: .*rows are shuffled"):
        live.write(shuffled, url=url, delivery="exactly_once")
    assert live.promised(messages(kafka), url=url, delivery="exactly_once").once
    chosen = live.promised(messages(kafka), url=url, delivery="at_least_once")
    assert (chosen.once, chosen.words.rpartition(": ")[2]) == (False, "as delivery says")


def of_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the stand-in taken for Kafka's source."""
    monkeypatch.setattr(writing, "promise_of", lambda frame: promise_of(frame, KafkaStandIn.name()))
