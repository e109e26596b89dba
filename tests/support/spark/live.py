"""Drives the Java writer as Spark does, task by task, and stands in for Kafka's source where no broker is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from spark.live import compiling
from spark.live.columns import prepared
from spark.live.options import LiveOptions
from spark.live.writing import java_settings

QUERY = "5f0d2c9e"


class Task:
    """A frame and the writer of its rows; each ``run`` is one attempt at them."""

    def __init__(self, frame: DataFrame, url: str, *, once: bool = True, query: str = QUERY, **options: Any) -> None:
        given = LiveOptions.parse({"url": url} | options)
        session = frame.sparkSession
        made = prepared(frame, given.sink, once=once)
        settings = {**made.settings, **java_settings(session, given, once=once), "query": query}
        self.writer = compiling.new_writer(session.sparkContext, settings)
        self.rows = made.frame._jdf.collectAsList()

    def run(self, first: int = 0, end: int | None = None, batch: int = 7) -> None:
        """Publish the rows of these places, and wait until all are acknowledged; raises what the writer does."""
        with self.opened(batch):
            self.give(first, end)
            self.writer.close(None)

    def give(self, first: int = 0, end: int | None = None) -> None:
        """Hand rows over, within ``opened``."""
        for place in range(first, self.rows.size() if end is None else end):
            self.writer.process(self.rows.get(place))

    @contextmanager
    def opened(self, batch: int = 7) -> Iterator[None]:
        """An attempt that is dropped at the end, as that of a task which was killed, unless it was closed before."""
        self.writer.open(0, batch)
        try:
            yield
        finally:
            self.writer.close(self.writer_killed())

    def writer_killed(self) -> Any:
        """What Spark gives to `close` then."""
        java = SparkSession.active().sparkContext._jvm
        assert java is not None
        return java.java.lang.RuntimeException("killed")


def records(session: SparkSession, count: int, subject: str = "'/t/a'", more: str = "") -> DataFrame:
    """Rows of records 0 to ``count`` - 1 of partition 0 of a topic, each with its offset as content."""
    return session.sql(
        f"select 'prices' topic, 0 partition, id offset, {subject} subject, cast(id as string) content{more} "  # noqa: S608
        f"from range(0, {count}, 1, 1)"
    )


class KafkaStandIn(DataSource):
    """A source with the columns of Kafka's, of which no query is started; its name Spark keeps for Kafka's own."""

    @classmethod
    def name(cls) -> str:
        return "kafka_stand_in"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
            "timestampType int"
        )

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        raise NotImplementedError
