"""What differs on MariaDB and MySQL: their triggers note changes without a generation, and who reads it numbers them.

Triggers fire at once there, and not at the commit. One that raised the generation would lock its row until the end of
the transaction: everybody else who changes a right would wait for it, and two could wait for each other. So a note has
the generation ``Change.PENDING`` at first, and locks nothing that others need. It is seen with its commit; whoever asks
for the generation then gives all notes that are there the next one. That is never lower than what a reader of the
changed rows has seen before, which is all that a generation has to say.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, ProgrammingError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from entitlement.following.watch import Watch
from entitlement.models import Change, Generation

VENDOR = "mysql"
"""What Django calls both."""

BATCH = 500
"""Notes that get their generation with one statement."""

AT_ONCE = 200
"""Rows that are deleted before other work has its turn: each takes a statement."""

_EXISTS_ALREADY = (1359,)
_MAY_NOT = ((1044,), (1142,), (1419,))
"""Errors of a database user without the privilege, the last one because of a binary log."""

_HARMLESS_ACTIONS = ("RESTRICT", "NO ACTION")


def body(connection: BaseDatabaseWrapper, watch: Watch) -> str:
    """The statement that makes the trigger, but for its name."""
    quote = connection.ops.quote_name
    change, key = quote(Change._meta.db_table), quote(watch.key)
    columns = ", ".join(map(quote, ("generation", "kind", "key", "time")))

    def note(row: str) -> str:
        # The time is told with the generation.
        values = f"{Change.PENDING}, '{watch.kind}', CAST({row}.{key} AS CHAR), 0"
        return f"INSERT INTO {change} ({columns}) VALUES ({values});"  # noqa: S608 - names and numbers of our own

    notes = note("OLD" if watch.event == "DELETE" else "NEW")
    if watch.event == "UPDATE":
        # It may move a row to another key (a membership to another user): both have changed.
        notes += f" IF NOT {_same(key)} THEN {note('OLD')} END IF;"
    if watch.columns:
        same = " AND ".join(_same(quote(name)) for name in watch.columns)
        notes = f"IF NOT ({same}) THEN {notes} END IF;"
    return f"""
        CREATE TRIGGER %NAME% AFTER {watch.event} ON {quote(watch.table)} FOR EACH ROW BEGIN
            {notes}
        END"""


def _same(column: str) -> str:
    """As bytes: most collations do not tell ``Bob`` from ``bob``, nor from ``bob`` with a space behind it."""
    return f"(CAST(OLD.{column} AS BINARY) <=> CAST(NEW.{column} AS BINARY))"


def install(connection: BaseDatabaseWrapper, statements: Iterable[str], wait_ms: int) -> None:
    """Make triggers, each by itself as no transaction takes one back; ``wait_ms``: as triggers.install says."""
    with connection.cursor() as cursor, _waiting(cursor, wait_ms):
        for statement in statements:
            try:
                cursor.execute(statement)
            except DatabaseError as error:
                number = error.args[:1]
                if number in _MAY_NOT:  # the driver calls it what it also calls a table in use
                    raise ProgrammingError(*error.args) from error
                if number != _EXISTS_ALREADY:  # another process has made it meanwhile
                    raise


@contextmanager
def _waiting(cursor: Any, wait_ms: int) -> Iterator[None]:
    """Within it statements wait for a table in use no longer than that, in whole seconds: MySQL knows no less."""
    if not wait_ms:
        yield
        return
    cursor.execute("SELECT @@lock_wait_timeout")
    (before,) = cursor.fetchone()
    cursor.execute(f"SET lock_wait_timeout = {max(1, wait_ms // 1000):d}")
    try:
        yield
    finally:
        cursor.execute(f"SET lock_wait_timeout = {int(before):d}")


def number_notes(connection: BaseDatabaseWrapper) -> None:
    """Give what was noted and committed the next generation; on other databases the triggers do.

    In a transaction nothing happens, as the row of the generation would stay locked until its end.
    """
    if connection.vendor == VENDOR and not connection.in_atomic_block:
        number_now(connection)


def number_now(connection: BaseDatabaseWrapper) -> None:
    """The same, also in a transaction."""
    alias = connection.alias
    pending = Change.objects.using(alias).filter(generation=Change.PENDING)
    if connection.vendor != VENDOR or not pending.exists():
        return
    with transaction.atomic(using=alias):
        # Locked before the notes are looked up, so that nobody else numbers the same.
        generations = Generation.objects.using(alias)
        before = generations.select_for_update().values_list("value", flat=True).first()
        keys = list(pending.order_by("id").values_list("id", flat=True))
        if before is None or not keys:
            return
        generations.update(value=before + 1)
        table = connection.ops.quote_name(Change._meta.db_table)
        now = int(time.time() * 1000)
        with connection.cursor() as cursor:
            for start in range(0, len(keys), BATCH):
                some = keys[start : start + BATCH]
                # By their primary keys: any other way might wait for the notes of transactions that are still open.
                cursor.execute(
                    f"UPDATE {table} FORCE INDEX (PRIMARY) SET generation = %s, time = %s "  # noqa: S608
                    f"WHERE id IN ({', '.join(['%s'] * len(some))}) AND generation = %s",
                    [before + 1, now, *some, Change.PENDING],
                )


def delete_some(rows: QuerySet[Any]) -> int:
    """Delete these rows of a table that nothing refers to, on MariaDB the first ``AT_ONCE``; how many went.

    A DELETE that looks through the table waits there for the new rows of every transaction that is open, and so may one
    of several keys. One of a single key does not.
    """
    connection = connections[router.db_for_write(rows.model)]
    if connection.vendor != VENDOR:
        return rows.delete()[0]
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    table = connection.ops.quote_name(rows.model._meta.db_table)
    with connection.cursor() as cursor:
        for key in keys:
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", [key])  # noqa: S608
    return len(keys)


def cascades(connection: BaseDatabaseWrapper, tables: Collection[str]) -> dict[str, str]:
    """The foreign keys by which the database itself changes rows of these tables, and the tables: no trigger fires.

    In words: ``auth_user_groups.fk_name (ON DELETE CASCADE)``. Those that Django makes have it do so in Python.
    """
    if connection.vendor != VENDOR:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, constraint_name, delete_rule, update_rule "
            "FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE()"
        )
        found = [row for row in cursor.fetchall() if row[0] in tables]
    return {
        f"{table}.{name} (ON {event} {action})": table
        for table, name, on_delete, on_update in sorted(found)
        for event, action in (("DELETE", on_delete), ("UPDATE", on_update))
        if action not in _HARMLESS_ACTIONS
    }
