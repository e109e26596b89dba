"""An archive of messages as Parquet files, and a reader that goes on with what the sidecar still has."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fastpath.core.protocol.subject import RESERVED, check_pattern, is_wildcard
from spark.lake_log import GROUPS, Entry, File, Log, by_partition, chosen_files

SCHEMA = (
    "subject string, content binary, fields map<string, binary>, epoch bigint, seq bigint, time timestamp, "
    "closure string, as_of string"
)
COLUMNS = tuple(column.split()[0] for column in SCHEMA.replace("<string, ", "<string,").split(", "))
KEY = ("subject", "epoch", "seq")
FILES_MAX = 32
"""Files of a date and group that are kept as they are; more are made one."""

ROWS_MAX = 5_000_000
"""Messages in one file."""

GRACE_SECONDS = 3600
"""Seconds that a file which is no part of the archive any more stays for readers who began before."""


class Missing(RuntimeError):
    """Messages between the archive and the sidecar's caches are nowhere; the text names a subject and how many."""


def partitioned(messages: DataFrame) -> DataFrame:
    """Return the columns that are archived, and by which they lie in folders: `date` of the message (UTC), and
    `group`."""
    # Not by date_format, which goes by the time zone of the session.
    date = F.date_from_unix_date(F.floor(F.unix_seconds("time") / 86_400).cast("int")).cast("string").alias("date")
    group = F.pmod(F.crc32(F.col("subject").cast("binary")), F.lit(GROUPS)).cast("int").alias("group")
    return messages.select(*COLUMNS, date, group)


class Archive:
    """An archive that is written to."""

    def __init__(self, folder: Path) -> None:
        self.log = Log(folder)

    def add(self, messages: DataFrame, query: str, batch: int) -> bool:
        """Add the messages of a batch of a query; False when they are there already, whatever is in this frame."""
        if self.log.state().has(query, batch):
            return False
        files = self._write(partitioned(messages), f"{query}-{batch}")
        return self.log.commit(Entry(add=files, query=query, batch=batch))

    def compact(self, session: SparkSession, files_max: int = FILES_MAX) -> int:
        """Make one file of those of each date and group that has more than `files_max`; how many were replaced."""
        done = 0
        for partition, files in by_partition(self.log.state().files.values()).items():
            # One that has grown to its full size stays as it is.
            small = [file for file in files if file.rows < ROWS_MAX // 2]
            if len(small) <= max(files_max, 1):
                continue
            messages = _parquet(session, self.log, small)
            written = self._write(partitioned(messages).coalesce(1), f"all-{time.time_ns()}")
            assert {file.partition for file in written} == {partition}
            if self.log.commit(Entry(add=written, remove=[file.path for file in small])):
                for file in small:
                    os.utime(self.log.data / file.path)  # from now on nobody begins to read it
                done += len(small)
        return done

    def vacuum(self, seconds: float = GRACE_SECONDS) -> int:
        """Delete files that are no part of the archive and have not been for so long; how many."""
        live, deleted = self.log.state().files, 0
        for path in self.log.data.glob("date=*/group=*/*.parquet"):
            if str(path.relative_to(self.log.data)) not in live and path.stat().st_mtime < time.time() - seconds:
                path.unlink()
                deleted += 1
        for scratch in self.log.folder.glob(".writing-*"):  # of a process that was killed
            if scratch.stat().st_mtime < time.time() - seconds:
                shutil.rmtree(scratch, ignore_errors=True)
        return deleted

    def positions(self, session: SparkSession) -> dict[str, list[int]]:
        """Return the last `[epoch, seq]` of each subject; a server without a journal numbers from 1 again in each
        epoch."""
        files = list(self.log.state().files.values())
        if not files:
            return {}
        last = F.max(F.struct("epoch", "seq")).alias("last")
        rows = _parquet(session, self.log, files).groupBy("subject").agg(last).collect()
        return {row.subject: [row.last.epoch, row.last.seq] for row in rows}

    def _write(self, rows: DataFrame, name: str) -> list[File]:
        """Write files where no reader looks, and put them in their places; a file of the same name is replaced."""
        scratch = self.log.folder / f".writing-{name}"
        shutil.rmtree(scratch, ignore_errors=True)  # of an attempt that was killed
        ordered = rows.repartition("date", "group").sortWithinPartitions("date", "group", *KEY)
        ordered.write.option("maxRecordsPerFile", ROWS_MAX).partitionBy("date", "group").parquet(str(scratch))
        files = []
        for number, part in enumerate(sorted(scratch.glob("date=*/group=*/part-*.parquet"))):
            path = part.relative_to(scratch).parent / f"{name}-{number}.parquet"
            (self.log.data / path).parent.mkdir(parents=True, exist_ok=True)
            _sync(part)
            files.append(_described(part, str(path)))
            os.replace(part, self.log.data / path)
        for folder in {(self.log.data / file.path).parent for file in files}:
            _sync(folder)
        shutil.rmtree(scratch)
        return files


def read(
    session: SparkSession,
    folder: Path | str,
    subjects: Sequence[str] = ("/**",),
    start: datetime | None = None,
    url: str = "",
    token: str = "",
    missing: str = "fail",
) -> DataFrame:
    """Read the messages of an archive, each once, of these subjects and patterns, published at `start` or later.

    `start` has a time zone. With `url`, the address of a publisher port, also what the sidecar still has in its caches
    and the archive has not yet; `token` is of a user who may subscribe. Where there are messages in neither Missing is
    raised, unless `missing` is `ignore`. Columns as in SCHEMA, rows in no order. Raises FileNotFoundError where there
    is no such folder, and fastpath.core.protocol.errors.InvalidSubject.
    """
    for one in subjects:
        check_pattern(one, names=False)
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{folder} is no archive: no such folder")
    # The caches first, once: what leaves them meanwhile is in the archive by then.
    tail = _cached(session, subjects, url, token) if url else None
    log = Log(Path(folder))
    files = list(log.state().files.values())
    wanted = _covered(subjects)
    if start is not None:
        wanted &= F.col("time") >= F.lit(start)
    old = _parquet(session, log, chosen_files(files, subjects, start)).where(wanted)
    if tail is None:
        return old
    dates = {row["date"] for row in tail.select("date").distinct().collect()}
    beside = _parquet(session, log, [file for file in files if file.date in dates])
    new = tail.join(beside.select(*KEY), list(KEY), "left_anti").localCheckpoint()
    if missing != "ignore":
        _check(tail, beside, _parquet(session, log, chosen_files(files, subjects, None)))
    return old.unionByName(new.where(wanted).select(*COLUMNS))


def _cached(session: SparkSession, subjects: Sequence[str], url: str, token: str) -> DataFrame:
    options = {"url": url, "token": token, "subjects": ",".join(subjects), "start": "earliest"}
    tail = session.read.format("realtime").options(**options).load()
    return partitioned(tail.where(_covered(subjects))).localCheckpoint()


def regex(pattern: str) -> str:
    """Return a pattern of a subscription (protocol.md 2.3, 3.8) as a regular expression of Java for the whole
    subject."""
    first, *rest = pattern.split("/")[1:]
    apart = f"(?!(?:{'|'.join(map(_quoted, RESERVED))})/)" if first in ("*", "**") else ""
    kinds = {"*": "[^/]+", "**": ".+"}
    return f"(?s)^/{apart}" + "/".join(kinds.get(one) or _quoted(one) for one in (first, *rest)) + r"\z"


def _quoted(text: str) -> str:
    return "".join(char if char.isalnum() else f"\\x{{{ord(char):x}}}" for char in text)


def _covered(subjects: Iterable[str]) -> Column:
    covered = F.lit(False)
    for one in subjects:
        covered |= F.col("subject").rlike(regex(one)) if is_wildcard(one) else F.col("subject") == one
    return covered


def _check(tail: DataFrame, beside: DataFrame, old: DataFrame) -> None:
    """Raise Missing where a number is missing between the last message archived and the first one cached of a subject.

    The numbers of a subject rise by one. In a later epoch than that of the last one archived they go on behind it, or
    begin with 1 again.
    """
    firsts = tail.groupBy("subject").agg(F.min("seq").alias("seq"), F.min_by("epoch", "seq").alias("epoch"))
    loose = firsts.join(beside.select(*KEY), list(KEY), "left_anti").localCheckpoint()
    ends = old.join(F.broadcast(loose.select("subject")), "subject", "left_semi")
    ends = ends.groupBy("subject").agg(F.max(F.struct("epoch", "seq")).alias("last"))
    again = (F.col("epoch") > F.col("last.epoch")) & (F.col("seq") <= F.col("last.seq"))
    gaps = ends.join(loose, "subject").withColumn("end", F.when(again, 0).otherwise(F.col("last.seq")))
    gap = gaps.where(F.col("seq") > F.col("end") + 1).orderBy("subject").head()
    if gap is not None:
        raise Missing(
            f"{gap.seq - gap.end - 1} messages of {gap.subject} from number {gap.end + 1} on are neither in the "
            "archive nor in the cache any more"
        )


def _parquet(session: SparkSession, log: Log, files: Iterable[File]) -> DataFrame:
    paths = [str(log.data / file.path) for file in files]
    return session.read.schema(SCHEMA).parquet(*paths) if paths else session.createDataFrame([], SCHEMA)


def _described(part: Path, path: str) -> File:
    """Return the archive's entry for a Parquet file, from the file's footer."""
    footer = pq.read_metadata(part)
    subjects = [footer.row_group(at).column(0).statistics for at in range(footer.num_row_groups)]
    first, last = min(one.min for one in subjects), max(one.max for one in subjects)
    return File(path, footer.num_rows, part.stat().st_size, first, last)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
