"""What is watched in a table, and the trigger that watches it, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watch:
    """An event of a table to watch, and the entry it makes in the change log."""

    table: str
    event: str
    kind: str
    key: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """A named trigger, and the statement that creates it."""

    name: str
    table: str
    event: str
    sql: str
