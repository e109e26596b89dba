"""A program of somebody's own, run with the wheel: writes and reads `fastpath` in a session that was told nothing.

``own_session.py URL NAME PORT`` is a driver, whose JVM is a server of Spark Connect as well, until it is ended;
``own_session.py URL NAME sc://127.0.0.1:PORT`` does the same by way of that server. Subjects begin with the name.
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark.sql import SparkSession


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


url, name, where = sys.argv[1:]
builder = SparkSession.builder
if "://" in where:
    builder = builder.remote(where)
else:
    for setting, value in (
        ("spark.master", "local[2]"),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin"),
        ("spark.connect.grpc.binding.address", "127.0.0.1"),
        ("spark.connect.grpc.binding.port", where),
    ):
        builder = builder.config(setting, value)
session = builder.getOrCreate()

rows = session.range(100).selectExpr(f"concat('/{name}/', id % 4) as topic", "cast(id as string) as content")
rows.write.format("fastpath").mode("append").options(url=url, topic="{topic}").save()
read = session.read.format("fastpath").options(url=url, subscribe=f"/{name}/*", startingOffsets="earliest")
say(f"read {read.load().count()}")
stream = session.readStream.format("fastpath").options(url=url, subjects=f"/{name}/*", startingOffsets="earliest")
stream = stream.options(failOnDataLoss="false", maxOffsetsPerTrigger=60).load()
copies = stream.selectExpr(f"concat('/{name}-copy/', right(subject, 1)) as subject", "content")
query = copies.writeStream.format("fastpath").options(url=url, checkpointLocation=f"{os.getcwd()}/{name}")
query.trigger(availableNow=True).start().awaitTermination(100)
found = session.read.format("fastpath").options(url=url, subjects=f"/{name}-copy/*").load()
say(f"copied {found.count()}")
wrong = "InvalidOption: unknown option 'colour' of this format; there are: url, token"
try:
    read.option("colour", "red").load().count()
except Exception as error:  # what a reader of the error sees
    say(f"told {wrong in str(error)}")
say("done")
signal.pause()
