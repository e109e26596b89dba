"""Publishes what comes in on Kafka topics through the sidecar: `python -m spark.jobs.kafka --help`.

An example to start from. Kafka's connector is no part of PySpark: Spark gets it, with its own dependencies, where the
job is run with --packages, by `manage.py spark_job` or spark-submit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_subject
from spark.jobs.running import JobError, positive, publish, run
from spark.options import InvalidOption, template_columns

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The newest connector that there is for Spark 4 with Scala 2.13: of Spark 4.3 none has been published."""
ABSENT = "java.lang.ClassNotFoundException"
CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
NEEDED = {
    "org.apache.spark.kafka010.KafkaTokenUtil": "spark-token-provider-kafka-0-10_2.13",
    "org.apache.kafka.clients.consumer.KafkaConsumer": "kafka-clients",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": "commons-pool2",
}
"""A class of each library that the connector needs and Spark does not have, and the library's name."""
PLACES = ("topic", "key", "partition")
"""Places of a record that a template of the subject can name."""

FORMATS = ("json", "text", "binary")


def transform(records: DataFrame, subject: str, form: str = "json", content: str = "value") -> DataFrame:
    """Make messages (`subject`, `content`, `fields`, `retained`) of Kafka's records (`key`, `value`, `topic`,
    `partition`, `offset`, …).

    `subject` is a template of PLACES. Of `json`, values are objects: each entry is a field, as text, and the one named
    `content` the content; what is no object becomes content as it is. Of `text` and `binary` the value is the content.
    The record's own place goes along in the fields `kafka_partition` and `kafka_offset`. A record without a value,
    which Kafka means as a deletion, becomes an empty message that is not kept as the snapshot.
    """
    text = F.col("value").cast("string")
    entries = F.from_json(text, "map<string,string>") if form == "json" else F.lit(None).cast("map<string,string>")
    named = F.get(F.map_values(F.map_filter(entries, lambda name, _: name == content)), F.lit(0))
    whole = F.coalesce("value", F.lit("").cast("binary")) if form == "binary" else F.coalesce(text, F.lit(""))
    if form == "json":
        whole = F.when(entries.isNull(), whole).otherwise(F.coalesce(named, F.lit("")))
    own = F.create_map(
        F.lit("kafka_partition"),
        F.col("partition").cast("string"),
        F.lit("kafka_offset"),
        F.col("offset").cast("string"),
    )
    return records.select(
        _subject(subject).alias("subject"),
        whole.alias("content"),
        F.when(entries.isNull(), own).otherwise(F.map_concat(_fields(entries, content), own)).alias("fields"),
        F.col("value").isNotNull().alias("retained"),
    )


def _fields(entries: Column, content: str) -> Column:
    """Return the fields with each name once: Spark would end the query over a name that comes twice, as JSON allows."""
    wanted = F.map_filter(
        entries, lambda name, value: value.isNotNull() & ~name.isin("", content, "kafka_partition", "kafka_offset")
    )
    names = F.array_distinct(F.map_keys(wanted))
    return F.map_from_arrays(names, F.transform(names, lambda name: F.element_at(wanted, name)))


def _subject(template: str) -> Column:
    """Return the subject; of a key a slash becomes ``_`` and an empty text ``-``, as no segment can hold these."""
    parts: list[Column] = []
    rest = template
    for name in template_columns(template):
        before, _, rest = rest.partition("{" + name + "}")
        value = F.coalesce(F.col(name).cast("string"), F.lit(""))
        parts += [F.lit(before), F.when(value == "", "-").otherwise(F.replace(value, F.lit("/"), F.lit("_")))]
    return F.concat(*parts, F.lit(rest))


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query; raises JobError where the connector is missing."""
    check_connector(session)
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("subscribe", options.topics)
        .option("startingOffsets", options.start)
        .option("maxOffsetsPerTrigger", options.max_rows)
        .load()
    )
    messages = transform(records, options.subject, options.format, options.content)
    return [publish(messages, options, "kafka", checkpoint).start()]


def check_connector(session: SparkSession) -> None:
    """Raise JobError, with what to do, where Spark has no Kafka connector, a part of it, or one of another Spark."""
    java = session.sparkContext._jvm
    assert java is not None
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    remedy = f"Run the job by manage.py spark_job --packages {PACKAGE} kafka …, or by spark-submit --packages {PACKAGE}"
    fault = _loaded(java, loader, CONNECTOR)
    if fault == ABSENT:
        raise JobError(f"Spark has no Kafka connector, which pip does not install. {remedy} spark/jobs/kafka.py …")
    lacking = [library for name, library in NEEDED.items() if _loaded(java, loader, name) == ABSENT]
    if lacking:
        raise JobError(
            f"Spark has a Kafka connector, but not all that it needs: {', '.join(lacking)}. Give --jars these as well, "
            f"or let --packages {PACKAGE} find them"
        )
    if fault:
        raise JobError(
            f"the Kafka connector that Spark was given does not fit Spark {session.version}, it fails with {fault}. "
            f"It must be for Scala 2.13 and of a Spark 4, such as {PACKAGE}"
        )


def _loaded(java: Any, loader: Any, name: str) -> str:
    """Load and link a class of the JVM; the name of the Java error that this ended with, or an empty text."""
    try:
        java.java.lang.Class.forName(name, True, loader).getDeclaredMethods()
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getName())
    return ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the job: Kafka's servers and topics, and what becomes of the records."""
    parser.add_argument("--servers", required=True, metavar="HOST:PORT", help="Kafka's bootstrap servers, with commas")
    parser.add_argument("--topics", required=True, help="topics, with commas")
    parser.add_argument(
        "--subject", type=_template, default="/kafka/{topic}/{key}", help=f"template; in braces: {', '.join(PLACES)}"
    )
    parser.add_argument("--format", choices=FORMATS, default="json", help="what the records' values are")
    parser.add_argument("--content", default="value", metavar="NAME", help="the entry of an object that is the content")
    parser.add_argument("--start", choices=("earliest", "latest"), default="latest", help="where a first start begins")
    parser.add_argument("--max-rows", type=positive(int), default=100_000, metavar="N", help="records of one batch")


def _template(text: str) -> str:
    try:
        names = template_columns(text)
        check_subject(text.format(**dict.fromkeys(PLACES, "x")))
    except (InvalidOption, InvalidSubject, KeyError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}; in braces can stand {', '.join(PLACES)}") from None
    if not {*names} <= {*PLACES}:
        raise argparse.ArgumentTypeError(f"{text!r}: in braces can stand {', '.join(PLACES)}")
    return text


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal."""
    return run("kafka", str(__doc__).partition(":")[0] + ".", arguments, start, words)


if __name__ == "__main__":
    sys.exit(main())
