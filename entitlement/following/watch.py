"""What is watched in a table, the trigger that watches it, and the end of rows that end by themselves."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement.models import Change

PENDING, FORGOTTEN = Change.PENDING, Change.FORGOTTEN

NUMBERING = "entitlement.numbering"
"""The setting of a transaction, a variable of the connection on MariaDB, by which who numbers notes says so: any other
UPDATE might give a note the generation that agents have read already."""


@dataclass(frozen=True, slots=True)
class Watch:
    """An event of a table to watch, and the entry it makes in the change log."""

    table: str
    event: str
    kind: str
    key: str
    columns: tuple[str, ...] = ()
    until: str = ""
    """The column that says when a row ends by itself. What has ended anyway is no change: a DELETE counts unless that
    was ``margin_seconds`` ago, and an UPDATE where the row, by it, has ended ``margin_seconds`` ago."""
    margin_seconds: int = 0

    def ends(self, before: float, after: float | None, now: float) -> bool:
        """Return True if a row that was to end at ``before`` and now does at ``after`` (None: is gone) is ended by
        that."""
        if after is None:
            return before > now - self.margin_seconds
        return after < before and after <= now - self.margin_seconds


def epoch(connection: BaseDatabaseWrapper, moment: str = "") -> str:
    """Return SQL for the seconds since 1970 of a moment, a column's for one; of now where none is named."""
    if connection.vendor == "postgresql":
        return f"extract(epoch FROM {moment or 'clock_timestamp()'})"
    if connection.vendor == "sqlite":
        moment = moment or "'now'"
        return f"((julianday({moment}) - 2440587.5) * 86400)"
    return f"TIMESTAMPDIFF(SECOND, '1970-01-01', {moment or 'UTC_TIMESTAMP()'})"


def ended_by(connection: BaseDatabaseWrapper, watch: Watch, old: str, new: str) -> str:
    """Return ``Watch.ends`` as SQL, of rows that are called so; empty where every row counts."""
    if not watch.until:
        return ""
    column = connection.ops.quote_name(watch.until)
    before, after = epoch(connection, f"{old}.{column}"), epoch(connection, f"{new}.{column}")
    bound = f"{epoch(connection)} - {watch.margin_seconds:d}"
    # What is no moment ends nothing, and its end counts.
    return (
        f"{after} < {before} AND {after} <= {bound}"
        if watch.event == "UPDATE"
        else f"COALESCE({before} > {bound}, TRUE)"
    )


def numbers(connection: BaseDatabaseWrapper) -> str:
    """Return SQL that is true where who asks says that it numbers notes (numbering.py)."""
    if connection.vendor == "postgresql":
        return f"COALESCE(current_setting('{NUMBERING}', TRUE), '') = 'on'"
    # SQLite's triggers number.
    return "FALSE" if connection.vendor == "sqlite" else f"COALESCE(@{NUMBERING.replace('.', '_')}, 0) = 1"


def stands(connection: BaseDatabaseWrapper, log: str, generations: str, kind_and_key: str) -> str:
    """Return SQL that is true where an UPDATE of a note of the log hides nothing.

    ``log`` and ``generations`` are the names of the two tables, ``kind_and_key`` says that kind and key of the note are
    the same. A note may get the next generation from who says that it numbers, or be forgotten: where there is a newer
    one of the same, or where it is so old that all are sent anew who have not read it. What is forgotten may become
    anything.
    """
    key = connection.ops.quote_name("key")  # a word of SQL on MariaDB
    value, forgotten = (f"(SELECT MAX({column}) FROM {generations})" for column in ("value", "forgotten"))  # noqa: S608
    return f"""(OLD.generation = {FORGOTTEN} OR ({kind_and_key} AND (
                (NEW.generation = OLD.generation AND NEW.time = OLD.time)
                OR (OLD.generation = {PENDING} AND NEW.generation = {value} AND NEW.time > OLD.time
                    AND {numbers(connection)})
                OR (NEW.generation = {FORGOTTEN} AND (
                    (OLD.generation > {PENDING} AND OLD.generation <= {forgotten})
                    OR EXISTS (
                        SELECT 1 FROM {log} l WHERE l.kind = OLD.kind AND l.{key} = OLD.{key} AND (
                            (l.generation = {PENDING} AND (OLD.generation > {PENDING} OR l.id > OLD.id))
                            OR (OLD.generation > {PENDING} AND l.generation > OLD.generation))))))))"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Trigger:
    """A named trigger, and the statement that creates it."""

    name: str
    table: str
    event: str
    sql: str
    function: str = ""
    function_sql: str = ""
    """The function that it calls, where the database has it apart, and the statement that makes that."""
