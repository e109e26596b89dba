"""Kafka's records as messages; and what is said where Spark has no connector for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from fastpath.client.blocking import connect
from spark.jobs import kafka
from spark.jobs.running import JobError, parse
from spark.support import histories
from tests.support.sidecar import ROOT, Sidecar
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here

pytestmark = pytest.mark.spark
WHEN = datetime(2026, 11, 22, tzinfo=UTC)
OWN = {"kafka_partition": "2", "kafka_offset": "40"}


def records(session: SparkSession, *pairs: tuple[bytes | None, bytes | None], topic: str = "quotes") -> DataFrame:
    """A frame as Spark's Kafka source gives it."""
    keys, values = zip(*pairs, strict=True)
    count = len(pairs)
    return session.createDataFrame(
        pa.table(
            {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "topic": [topic] * count,
                "partition": pa.array([2] * count, pa.int32()),
                "offset": pa.array(range(40, 40 + count), pa.int64()),
                "timestamp": pa.array([WHEN] * count, pa.timestamp("us", "UTC")),
                "timestampType": pa.array([0] * count, pa.int32()),
            }
        )
    )


def messages(frame: DataFrame) -> list[tuple[Any, ...]]:
    """With the fields as a dictionary."""
    return [(row.subject, row.content, dict(row.fields), row.retained) for row in frame.collect()]


def test_objects_become_fields(session: SparkSession) -> None:
    value = b'{"price":"101.50","size":100,"venue":"NYSE","none":null,"deep":{"a":[1]},"":"x","value":"101.5"}'
    fields = {"price": "101.50", "size": "100", "venue": "NYSE", "deep": '{"a":[1]}'}
    subject = "/kafka/quotes/IBM"
    found = messages(kafka.transform(records(session, (b"IBM", value)), "/kafka/{topic}/{key}"))
    assert found == [(subject, "101.5", fields | OWN, True)]
    found = messages(kafka.transform(records(session, (b"IBM", value)), "/q/{partition}/{key}", content="price"))
    assert found == [
        ("/q/2/IBM", "101.50", {"size": "100", "venue": "NYSE", "deep": '{"a":[1]}', "value": "101.5"} | OWN, True)
    ]


def test_no_record_ends_the_query(session: SparkSession) -> None:
    """No object, no value, no key, a key with a slash, a name twice, a name of ours: each is a message."""
    frame = records(
        session,
        (b"IBM", b"101.5"),
        (b"IBM", b"{"),
        (b"IBM", None),
        (None, b"{}"),
        (b"BRK/B", b'{"kafka_offset":"7","a":"1","a":"2"}'),
        (b"", b"[1]"),
    )
    found = [row[:1] + row[1:2] + row[3:] for row in messages(kafka.transform(frame, "/k/{key}"))]
    assert found == [
        ("/k/IBM", "101.5", True),
        ("/k/IBM", "{", True),
        ("/k/IBM", "", False),
        ("/k/-", "", True),
        ("/k/BRK_B", "", True),
        ("/k/-", "[1]", True),
    ]
    assert messages(kafka.transform(frame, "/k/{key}"))[4][2] == {
        "kafka_partition": "2",
        "kafka_offset": "44",
        "a": "1",
    }


def test_text_and_bytes_are_content(session: SparkSession) -> None:
    frame = records(session, (b"IBM", b'{"a":1}'), (b"IBM", b"\xff\x00"))
    assert messages(kafka.transform(frame, "/k/{key}", "text"))[0] == ("/k/IBM", '{"a":1}', OWN, True)
    found = messages(kafka.transform(frame, "/k/{key}", "binary"))
    assert [bytes(row[1]) for row in found] == [b'{"a":1}', b"\xff\x00"]


def test_without_the_connector_it_says_what_to_do(session: SparkSession) -> None:
    """By a package that there is: none has been published of the version of this Spark."""
    with pytest.raises(JobError, match=r"spark_job --packages org\.apache\.spark:spark-sql-kafka-0-10_2\.13:4\.2\.0 "):
        kafka.check_connector(session)


def test_the_page_names_the_same_package() -> None:
    """Whoever copies the command gets the connector that the job itself asks for."""
    named = re.findall(r"--packages (\S+:\S+)", (ROOT / "docs/develop/jobs.md").read_text(encoding="utf-8"))
    assert named == [kafka.PACKAGE]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ([kafka.CONNECTOR], "not all that it needs: " + ", ".join(kafka.NEEDED.values())),
        ([kafka.CONNECTOR, *kafka.NEEDED], "does not fit Spark 4.3.0, it fails with java.lang.ClassFormatError"),
    ],
)
def test_a_connector_that_cannot_work_is_said_in_one_line(tmp_path: Path, classes: list[str], told: str) -> None:
    """Jars get to Spark by `manage.py spark_job --jars`; these hold no Java."""
    jar = tmp_path / "connector.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in classes:
            archive.writestr(name.replace(".", "/") + ".class", "no class")
    words = ["--jars", str(jar), "--conf", "spark.ui.enabled=false", "--url", "127.0.0.1:1"]
    command = [sys.executable, "manage.py", "spark_job", *words, "kafka", "--servers", "127.0.0.1:1", "--topics", "a"]
    environment = os.environ | {"REALTIME_PUBLISH_TOKEN": "any"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--servers", "127.0.0.1:9092", "--topics", "quotes"]
    assert parse("kafka", "", None, kafka.arguments, given).subject == "/kafka/{topic}/{key}"
    for template in ("kafka", "/kafka/{value}", "/kafka/{key!r}", "/kafka/{key", "/kafka//{key}"):
        with pytest.raises(SystemExit):
            parse("kafka", "", None, kafka.arguments, [*given, "--subject", template])
        assert "in braces can stand topic, key, partition" in capsys.readouterr().err


@pytest.mark.slow
def test_real_closes_through_a_sidecar(session: SparkSession) -> None:
    """As records of a topic, published, and read by a client."""
    closes = histories.read()
    last = {symbol: f"{prices[-1]:.2f}" for symbol, prices in closes.prices.items()}
    pairs = [(symbol.encode(), json.dumps({"close": price}).encode()) for symbol, price in last.items()]
    frame = kafka.transform(records(session, *pairs), "/kafka/{topic}/{key}", content="close")
    with (
        Sidecar() as sidecar,
        connect(sidecar.client_url) as client,
        client.subscribe({f"/kafka/quotes/{symbol}" for symbol in last}) as stream,
    ):
        frame.coalesce(1).write.format("realtime").mode("append").option("url", sidecar.publisher_url).save()
        found = {message.subject: message for message in (stream.get(30) for _ in last)}
    assert {name.rpartition("/")[2]: message.content for name, message in found.items()} == last
    assert {message.fields["kafka_partition"] for message in found.values()} == {"2"}
