"""Archives messages as Parquet files, each exactly once: `python -m spark.jobs.lake --help`.

It reads the sidecar's caches and writes what is new (archive/lake.py reads it again). With --compact it only
makes few files of many, and deletes what is left over.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.jobs.running import JobError, positive, run, run_batch, token, trigger
from spark.lake import FILES_MAX, GRACE_SECONDS, Archive, partitioned

TRIGGER_MS = 10_000
SETTINGS = {"spark.driver.memory": "1g", "spark.python.task.killTimeout": "500ms"}
transform = partitioned


class Archiver:
    """Takes the batches of one query."""

    def __init__(self, archive: Archive, files_max: int) -> None:
        self._archive = archive
        self._files_max = files_max

    def __call__(self, messages: DataFrame, batch: int) -> None:
        """Archive a batch, unless it is; then make one file of many where there are too many."""
        session = messages.sparkSession
        query = session.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise JobError("Spark does not say which query this is: a batch could not be told from another")
        if self._archive.add(messages, query, batch):
            self._archive.compact(session, self._files_max)
            self._archive.vacuum()


def start(session: SparkSession, options: argparse.Namespace, checkpoint: str) -> list[StreamingQuery]:
    """Start the query; one that is new goes on behind what the archive has.

    As long as no batch of it is done Spark asks where it begins at each start, also for a batch that was planned.
    """
    archive = Archive(options.folder)
    place = os.path.join(checkpoint, "lake")
    positions = {} if any(Path(place, "commits").glob("[0-9]*")) else archive.positions(session)
    messages = (
        session.readStream.format("realtime")
        .option("url", options.url)
        .option("token", token())
        .option("subjects", ",".join(options.subjects))
        .option("start", json.dumps(positions) if positions else "earliest")
        .option("max_rows", options.max_rows)
        .option("fail_on_data_loss", not options.allow_loss)
        .option("retry_seconds", options.retry_seconds)
        .load()
    )
    query = (
        messages.writeStream.queryName("lake")
        .foreachBatch(Archiver(archive, options.files_max))
        .option("checkpointLocation", place)
        .trigger(**trigger(options))
        .start()
    )
    return [query]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the job: what is archived, and where."""
    _folder(parser)
    parser.set_defaults(trigger_ms=TRIGGER_MS)
    parser.add_argument("--subjects", nargs="+", default=["/**"], metavar="PATTERN", help="what to archive")
    parser.add_argument("--max-rows", type=positive(int), default=500_000, metavar="N", help="messages of one batch")
    parser.add_argument(
        "--files-max", type=positive(int), default=FILES_MAX, metavar="N", help="files of a date and group of subjects"
    )
    parser.add_argument("--allow-loss", action="store_true", help="go on where messages left the cache unread")


def compact_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is left of the command line with --compact."""
    _folder(parser)
    parser.add_argument("--compact", action="store_true", required=True, help="make one file of those of each group")


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", required=True, type=Path, metavar="DIR", help="the archive, on a local disk")


def compact(session: SparkSession, options: argparse.Namespace) -> None:
    """Make one file of those of each date and group, and delete what nobody reads any more."""
    if not (options.folder / "_log").is_dir():
        raise JobError(f"{options.folder} is no archive of this job")
    archive = Archive(options.folder)
    replaced = archive.compact(session, files_max=1)
    print(f"lake: {replaced} files replaced, {archive.vacuum(GRACE_SECONDS)} deleted", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; with --compact once."""
    words = sys.argv[1:] if words is None else words
    about = str(__doc__).partition(":")[0] + "."
    if "--compact" in words:
        return run_batch("lake", about, compact_arguments, compact, words, SETTINGS)
    about += " With --compact it only makes few files of many."
    return run("lake", about, arguments, start, words, SETTINGS, "archiving from")


if __name__ == "__main__":
    sys.exit(main())
