"""Reads a subject's messages out of an archive without Spark, for `client.history(subject, lake=Lake(folder))`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastpath.client.message import Message, Position
from spark.lake_log import File, Log, chosen_files

COLUMNS = ["content", "fields", "epoch", "seq", "time", "closure", "as_of"]


class Lake:
    """The archive in a folder that `spark.jobs.lake` writes, as a callable of `fastpath.client.past.Lake`.

    It needs PyArrow and msgspec, no Spark and no Java. Only files are opened that may have the subject, from the newest
    date back to the first message that is not wanted any more. Contents and fields are text where they are UTF-8.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    def __call__(self, subject: str, since: Position | int | None = None) -> list[Message]:
        """Return the messages that `since` names, and the newest one before them, the oldest first.

        Raises FileNotFoundError where there is no such folder.
        """
        if not self._folder.is_dir():
            raise FileNotFoundError(f"{self._folder} is no archive: no such folder")
        log = Log(self._folder)
        dates: dict[str, list[File]] = {}
        for file in chosen_files(log.state().files.values(), [subject], None):
            dates.setdefault(file.date, []).append(file)
        found: list[Message] = []
        for date in sorted(dates, reverse=True):
            rows = [row for file in dates[date] for row in _messages(log.data / file.path, subject)]
            found += rows
            if since is not None and any(not _wanted(row, since) for row in rows):
                break
        found.sort(key=lambda one: (one.epoch, one.seq))
        before = [at for at, one in enumerate(found) if since is not None and not _wanted(one, since)]
        return found[before[-1] :] if before else found


def _wanted(message: Message, since: Position | int) -> bool:
    return (message.epoch, message.seq) > since if isinstance(since, tuple) else message.time >= since


def _messages(path: Path, subject: str) -> list[Message]:
    table = pq.read_table(path, columns=COLUMNS, filters=[("subject", "==", subject)], partitioning=None)
    times = pc.divide(table["time"].cast(pa.timestamp("us")).cast(pa.int64()), 1000).to_pylist()
    rows = zip(*(table[name].to_pylist() for name in COLUMNS if name != "time"), times, strict=True)
    return [
        Message(
            subject=subject,
            content=_text(content),
            fields={name: _text(value) for name, value in fields or ()},
            epoch=epoch,
            seq=seq,
            time=time,
            kind="historical",
            closure=closure or "",
            as_of=_as_of(as_of),
        )
        for content, fields, epoch, seq, closure, as_of, time in rows
    ]


def _text(value: bytes | None) -> str | bytes:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return value or b""


def _as_of(text: str | None) -> Any:
    """Return a time as it was published: of several parts it stands in the archive as JSON."""
    if text is not None and text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
