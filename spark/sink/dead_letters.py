"""Where rows go that are refused: JSON lines in a folder, to be seen when the batch that they are of is committed.

Each attempt at a partition writes a file of its own among the hidden ones; the commit moves those of the attempts that
count, under names that follow from the batch, so that a commit that is repeated changes nothing.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.fs as pfs

from fastpath.client.publisher.transactions import Committed

HIDDEN = "_staged"
"""Spark, as Hadoop, does not read folders whose names begin with an underscore."""


class Letters:
    """The dead letters of one attempt; nothing is written while there are none."""

    def __init__(self, folder: str, transaction: str, batch: int, partition: int, attempt: int) -> None:
        self._folder = folder
        self._name = _attempt_file(transaction, batch, partition, attempt)
        self._same = {"transaction": transaction, "batch": batch, "partition": partition}
        self._file: Any = None
        self.rows = 0

    def add(
        self,
        row: int,
        subject: str | None,
        content: str | bytes,
        fields: Mapping[str, str | bytes] | None,
        code: str,
        reason: str,
    ) -> None:
        """Write a row, numbered from 1 on in its partition; raises OSError."""
        if self._file is None:
            files, folder = _open(self._folder)
            files.create_dir(f"{folder}/{HIDDEN}")
            self._file = files.open_output_stream(f"{folder}/{HIDDEN}/{self._name}")
        letter = self._same | {
            "row": row,
            "subject": subject,
            "content": _plain(content),
            "fields": {name: _plain(value) for name, value in (fields or {}).items()},
            "code": code,
            "reason": reason,
            "time": round(time.time() * 1000),
        }
        self._file.write(json.dumps(letter, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        self.rows += 1

    def close(self) -> None:
        """Close the file when all are on their way to the disk; raise OSError where they are not."""
        if self._file is not None:
            self._file.close()


def publish(folder: str, transaction: str, batch: int, attempts: Iterable[tuple[int, int]]) -> None:
    """Show the dead letters of the attempts ``(partition, attempt)`` that count, and drop those of all others.

    Those that are shown already stay as they are. Raises OSError.
    """
    files, path = _open(folder)
    hidden = pfs.FileSelector(f"{path}/{HIDDEN}", allow_not_found=True)
    staged = {info.base_name: info.path for info in files.get_file_info(hidden)}
    for partition, attempt in attempts:
        found = staged.pop(_attempt_file(transaction, batch, partition, attempt), None)
        if found is not None:
            files.move(found, f"{path}/{_file(transaction)}-{batch}-{partition}.jsonl")
    # The whole name: what `a` has of batch 1 begins as what `a-1` has of any batch.
    same = re.compile(rf"{re.escape(_file(transaction))}-{batch}-\d+-\d+\.jsonl")
    for name, found in staged.items():
        if same.fullmatch(name):
            files.delete_file(found)


def refused_late(folder: str, transaction: str, batch: int, done: Committed) -> None:
    """Write down rows that were refused only when they were published: the driver has the subjects of the first
    hundred.

    The number of all such rows stands in the first line. Raises OSError.
    """
    files, path = _open(folder)
    files.create_dir(path)
    same = {"transaction": transaction, "batch": batch, "rows": done.refused_rows}
    with files.open_output_stream(f"{path}/{_file(transaction)}-{batch}-late.jsonl") as file:
        for partition, _, subject, code, reason in done.refused:
            letter = same | {"partition": partition, "subject": subject, "code": code, "reason": reason}
            file.write(json.dumps(letter, ensure_ascii=False).encode() + b"\n")


def drop(folder: str, transaction: str, batch: int, partition: int, attempt: int) -> None:
    """Forget the dead letters of an attempt that does not count; it may have none."""
    files, path = _open(folder)
    info = files.get_file_info(f"{path}/{HIDDEN}/{_attempt_file(transaction, batch, partition, attempt)}")
    if info.type == pfs.FileType.File:
        files.delete_file(info.path)


def _attempt_file(transaction: str, batch: int, partition: int, attempt: int) -> str:
    return f"{_file(transaction)}-{batch}-{partition}-{attempt}.jsonl"


def _file(transaction: str) -> str:
    """Return the name without the colon between the id of a query and a name, which not every file system takes."""
    return transaction.replace(":", ".")


def _open(folder: str) -> tuple[pfs.FileSystem, str]:
    """Return the file system of a folder or of a URL such as s3://bucket/folder, and the path in it."""
    files, path = pfs.FileSystem.from_uri(folder if "://" in folder else str(Path(folder).absolute()))
    return files, path.rstrip("/")


def _plain(value: str | bytes) -> Any:
    return value if isinstance(value, str) else {"base64": base64.b64encode(value).decode()}
