"""What differs on MariaDB and MySQL: triggers of rows alone, each of which is a commit, and locks that others wait for.

A note has no generation yet (numbering.py), so that it locks nothing that another transaction needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, ProgrammingError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet

from entitlement.following.watch import Watch, ended_by, stands
from entitlement.models import Change, DeletedChange, Generation

VENDOR = "mysql"
"""Name by which Django calls both."""

AT_ONCE = 200
"""Rows that are deleted before other work has its turn, each with a statement; ten times as many on other databases."""

_EXISTS_ALREADY = (1359,)
_MAY_NOT = ((1044,), (1142,), (1419,))
"""Errors of a database user without the privilege, the last one because of a binary log."""

_HARMLESS_ACTIONS = ("RESTRICT", "NO ACTION")


def body(connection: BaseDatabaseWrapper, watch: Watch, told: bool) -> str:
    """Return the statement that makes the trigger, but for its name; ``told``: its notes say who has written them."""
    if watch.table == Change._meta.db_table:
        return _deleted_log(connection) if watch.event == "DELETE" else _altered_log(connection)
    quote = connection.ops.quote_name
    change, key = quote(Change._meta.db_table), quote(watch.key)
    columns = ", ".join(map(quote, ("generation", "kind", "key", "time", *(("writer",) if told else ()))))

    def note(row: str) -> str:
        # The time is told with the generation.
        values = f"{Change.PENDING}, '{watch.kind}', CAST({row}.{key} AS CHAR), 0{', CONNECTION_ID()' if told else ''}"
        return f"INSERT INTO {change} ({columns}) VALUES ({values});"  # noqa: S608 - names and numbers of our own

    notes = note("OLD" if watch.event == "DELETE" else "NEW")
    if watch.event == "UPDATE":
        # It may move a row to another key (a membership to another user): both have changed.
        notes += f" IF NOT {_same(key)} THEN {note('OLD')} END IF;"
    if ended := ended_by(connection, watch, "OLD", "NEW"):
        notes = f"IF {ended} THEN {notes} END IF;"
    elif watch.columns:
        same = " AND ".join(_same(quote(name)) for name in watch.columns)
        notes = f"IF NOT ({same}) THEN {notes} END IF;"
    return f"""
        CREATE TRIGGER %NAME% AFTER {watch.event} ON {quote(watch.table)} FOR EACH ROW BEGIN
            {notes}
        END"""


def _deleted_log(connection: BaseDatabaseWrapper) -> str:
    """Return the trigger that moves deleted notes to another table: no trigger may write the table that it is of."""
    quote = connection.ops.quote_name
    values = ", ".join(quote(name) for name in ("kind", "key", "time"))
    old = ", ".join(f"OLD.{quote(name)}" for name in ("kind", "key", "time"))
    return f"""
        CREATE TRIGGER %NAME% AFTER DELETE ON {quote(Change._meta.db_table)} FOR EACH ROW BEGIN
            IF OLD.generation <> {Change.FORGOTTEN} THEN
                INSERT INTO {quote(DeletedChange._meta.db_table)} ({values}) VALUES ({old});
            END IF;
        END"""  # noqa: S608 - names of our own


def _altered_log(connection: BaseDatabaseWrapper) -> str:
    """Return the trigger by which an UPDATE that must not be changes nothing."""
    quote = connection.ops.quote_name
    log, generations = quote(Change._meta.db_table), quote(Generation._meta.db_table)
    same = " AND ".join(_same(quote(name)) for name in ("kind", "key"))
    kept = ", ".join(f"NEW.{quote(name)} = OLD.{quote(name)}" for name in ("generation", "kind", "key", "time"))
    return f"""
        CREATE TRIGGER %NAME% BEFORE UPDATE ON {log} FOR EACH ROW BEGIN
            IF NOT {stands(connection, log, generations, same)} THEN
                SET {kept};
            END IF;
        END"""  # noqa: S608 - names of our own


def _same(column: str) -> str:
    """Return a comparison as bytes: most collations do not tell ``Bob`` from ``bob``, nor from ``bob`` with a space
    behind."""
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
    """Have statements within wait for a table in use no longer than that, in whole seconds: MySQL knows no less."""
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


def delete_some(rows: QuerySet[Any]) -> int:
    """Delete the first of these rows of a table that nothing refers to, ``AT_ONCE`` at least; how many went.

    A DELETE that looks through the table waits on MariaDB for the new rows of every transaction that is open, and so
    may one of several keys. One of a single key does not.
    """
    connection = connections[router.db_for_write(rows.model)]
    most = AT_ONCE if connection.vendor == VENDOR else 10 * AT_ONCE
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:most])
    delete_keys(connection, rows.model, keys)
    return len(keys)


def delete_keys(connection: BaseDatabaseWrapper, model: type[Model], keys: list[int]) -> None:
    """Delete the rows of these keys, as ``delete_some`` does."""
    table = connection.ops.quote_name(model._meta.db_table)
    size = 1 if connection.vendor == VENDOR else AT_ONCE
    for some in (keys[start : start + size] for start in range(0, len(keys), size)):
        which = f"id IN ({', '.join(['%s'] * len(some))})"
        with connection.cursor() as cursor:
            if model is Change:  # what is deleted otherwise comes back
                cursor.execute(f"UPDATE {table} SET generation = {Change.FORGOTTEN} WHERE {which}", some)  # noqa: S608
            cursor.execute(f"DELETE FROM {table} WHERE {which}", some)  # noqa: S608


def cascades(connection: BaseDatabaseWrapper, tables: Collection[str]) -> dict[str, str]:
    """Return the foreign keys by which the database itself changes rows of these tables, and the tables: no trigger
    fires.

    Each is named in words: ``auth_user_groups.fk_name (ON DELETE CASCADE)``. Those that Django makes have it do so in
    Python.
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
