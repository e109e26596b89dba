"""What is known of a transaction: its last batch, attempts to write it, and staged rows (protocol.md 6.5)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

BEGUN = "begun"
DONE = "done"

UNAVAILABLE = "unavailable"


class StagingFailed(Exception):
    """The error of rows or a record that could not be stored; nothing has changed."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        """``gap``, ``staging_full`` or ``unavailable`` (protocol.md 6.6)."""
        self.reason = reason


class Attempt(NamedTuple):
    """An attempt to write one partition of one batch."""

    key: str
    """core.packets.publisher_key of the user and the transaction."""
    batch: int
    partition: int
    attempt: int


class Chunk(NamedTuple):
    """The rows that one frame ``stage`` brought."""

    rows: int
    """Staged."""
    refused: list[tuple[int, str, str]]
    """The frame's rows that were not: their place in it, rising; the code and the reason."""
    data: bytes
    """MessagePack of the runs that were taken."""


class StagingRecord(msgspec.Struct, array_like=True, frozen=True):
    """The record of a transaction: its last batch that was begun."""

    batch: int
    winners: list[tuple[int, int, int]]
    """Attempts that the batch was begun with, partitions rising: partition, attempt, rows. Of a batch that was done
    long ago there may be none (engine/staging/store.py: WINNERS_MAX)."""
    base: int
    """Rows of the transaction that came before this batch: its first row is publication ``base + 1``."""
    rows: int
    state: str
    """``begun`` or ``done``."""
    refused: list[tuple[int, int, str, str, str]]
    """Rows, at most 100, that were refused when they were released: partition, row, subject, code, reason."""
    refused_rows: int
    outdated: int
    time: int
    """Time when the batch was begun or done (ms since 1970)."""
    since: int = 0
    """Time when the transaction's first batch was begun (ms): a part of the name under which its rows are numbered, so
    that a transaction that was forgotten begins with new numbers. 0 for one of a single batch (``once``)."""
    once: bool = False
    """The transaction's name is used for this batch only: when it is done, it is remembered for
    FASTPATH_STAGED_SECONDS, for who asks again because the answer was lost."""
