"""A driver whose query reads a topic of Kafka and publishes it; started and killed by tests and by the benchmark.

`python -m tests.support.spark.live_job ASKED`, a JSON object: `master`, `servers`, `topic`, `url`, `checkpoint`,
`jars`, `kind` (`live`, or `batches` for the sink), `trigger`, `subject` (an expression of SQL), more `options`. A query
that fails is started again, from its checkpoint, and a line says why.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from spark import live
from spark.session import build

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    # A killed executor is no reason to give an application up, however often it happens.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "8",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def say(line: str) -> None:
    """A line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def start(frame: DataFrame, asked: dict[str, Any]) -> StreamingQuery:
    """Start the query."""
    options = {"url": asked["url"], "checkpointLocation": asked["checkpoint"]} | asked.get("options", {})
    if asked["kind"] == "live":
        return live.write(frame, trigger=asked["trigger"], **options)
    plain = frame.drop("topic", "partition", "offset")
    return plain.writeStream.format("realtime").options(**options).trigger(processingTime="0 seconds").start()


def main(words: list[str]) -> None:
    """Run until it is killed."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("spark.realtime").setLevel(logging.INFO)
    asked = json.loads(words[0])
    jars = {"spark.jars": asked["jars"], "spark.master": asked["master"]}
    session = build("live", **SETTINGS, **jars)
    while True:
        source = session.readStream.format("kafka").option("kafka.bootstrap.servers", asked["servers"])
        records = source.options(subscribe=asked["topic"], startingOffsets="earliest").load()
        text = "cast(value as string) content"
        frame = records.selectExpr("topic", "partition", "offset", f"{asked['subject']} subject", text)
        query = start(frame, asked)
        say("started")
        try:
            query.awaitTermination()
        except PySparkException as error:
            say(f"failed {' '.join(str(error).split())[:2000]}")


if __name__ == "__main__":
    main(sys.argv[1:])
