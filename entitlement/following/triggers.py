"""Database triggers that note every change of a rule, user, membership or session.

A trigger sees what Django's signals do not: ``QuerySet.update``, bulk writes and raw SQL. Each one runs inside the
transaction that changes the row, so a rollback takes the note back with it. ``migrate`` installs them
(idempotently: the name holds a digest of the definition), and sets them aside around what alters their table
(migrating.py); should some be missing all the same, the agent compares the tables itself (polling.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement import conf, sessions
from entitlement.following import mariadb, postgresql
from entitlement.following.watch import Trigger, Watch, ended_by, epoch, stands
from entitlement.models import Change, DeletedChange, Generation, RevokedToken, Rule, SubjectOptions

PREFIX = "entitlement_on_"
SPARE_SECONDS = 3600
"""Seconds that the end of a session counts longer than its tokens."""

ZONE_SECONDS = 14 * 3600
"""Seconds that the time of a place is from UTC at most; a database need not keep UTC."""

VENDORS = ("sqlite", "postgresql", mariadb.VENDOR)

_PRESENT = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND pg_table_is_visible(c.oid)",
    mariadb.VENDOR: "SELECT trigger_name, event_object_table FROM information_schema.triggers "
    "WHERE trigger_schema = DATABASE()",
}
"""Names and tables of the triggers that are there."""


def watches() -> Iterator[Watch]:
    """Yield everything that changes a right, or options of subjects, for whatever user and session models there are."""
    for model, kind in ((Rule, Change.Kind.RULE), (SubjectOptions, Change.Kind.OPTIONS)):
        for event in ("INSERT", "UPDATE", "DELETE"):
            yield Watch(model._meta.db_table, event, kind.value, "id")
    yield from _user_watches()
    if memberships := membership_field():
        for event in ("INSERT", "UPDATE", "DELETE"):
            yield Watch(memberships.m2m_db_table(), event, Change.Kind.USER.value, memberships.m2m_column_name())
    yield Watch(RevokedToken._meta.db_table, "INSERT", Change.Kind.TOKEN.value, "jti")
    yield from _session_watches()


def _emptied_log() -> Watch:
    """Return the event of an emptied log: it hides what ended, so every user's tokens end; users signed in get new
    ones."""
    return Watch(Change._meta.db_table, "TRUNCATE", Change.Kind.PASSWORD.value, get_user_model()._meta.pk.column)


def _deleted_log() -> Watch:
    """Return the event of deleted notes, which are noted anew: ``compiler.forget`` alone knows what nobody needs any
    more."""
    return Watch(Change._meta.db_table, "DELETE", "", "key")


def _altered_log() -> Watch:
    """Return the event of altered notes, which stand as they are: numbering.py and ``compiler.forget`` alone change
    any."""
    return Watch(Change._meta.db_table, "UPDATE", "", "key")


def _can_come_back(connection: BaseDatabaseWrapper) -> bool:
    """Return True if there is a place for deleted notes; amid a migration the table may be still missing."""
    return connection.vendor != mariadb.VENDOR or DeletedChange._meta.db_table in connection.introspection.table_names()


def _session_watches() -> Iterator[Watch]:
    """Yield sessions that go, or are ended by their date, while a token of theirs may live: none outlives it by
    more."""
    store = sessions.session_model()
    if store is None:
        return
    table, kind, key = store._meta.db_table, Change.Kind.SESSION.value, _column(store, "session_key")
    until = next((field.column for field in store._meta.concrete_fields if field.name == "expire_date"), "")
    if until:
        yield Watch(table, "UPDATE", kind, key, (until,), until)
    # The setting may have been lowered since a token was made, the default is not.
    longest = max(conf.token_seconds(), conf.TOKEN_SECONDS) + SPARE_SECONDS
    yield Watch(table, "DELETE", kind, key, until=until, margin_seconds=longest if until else 0)


def _user_watches() -> Iterator[Watch]:
    """Yield the user's table, and that of a parent model which holds one of the columns."""
    user = get_user_model()
    kind = Change.Kind.USER.value
    for event in ("INSERT", "DELETE"):
        yield Watch(user._meta.db_table, event, kind, user._meta.pk.column)
    kinds = {"is_active": kind, "is_superuser": kind, user.USERNAME_FIELD: kind, "password": Change.Kind.PASSWORD.value}
    tables: dict[tuple[type[models.Model], str], list[str]] = {}
    for name, said in kinds.items():
        field = next((f for f in user._meta.concrete_fields if f.name == name), None)
        if field is not None:
            tables.setdefault((field.model, said), []).append(field.column)
    for (model, said), columns in tables.items():
        yield Watch(model._meta.db_table, "UPDATE", said, model._meta.pk.column, tuple(columns))


def membership_field() -> models.ManyToManyField | None:
    """Return the user model's many-to-many field to Django's groups, if it has one."""
    return next((f for f in get_user_model()._meta.many_to_many if f.remote_field.model is Group), None)


def watched(connection: BaseDatabaseWrapper) -> list[Watch]:
    """Return the watches whose tables and columns this database has: amid a migration some are missing.

    The list is empty before there is a generation to raise.
    """
    tables = set(connection.introspection.table_names())
    if not own_tables() <= tables:
        return []
    every = [watch for watch in watches() if watch.table in tables]
    with connection.cursor() as cursor:
        describe = connection.introspection.get_table_description
        there = {table: {column.name for column in describe(cursor, table)} for table in {w.table for w in every}}
    found = []
    for watch in every:
        columns = tuple(name for name in watch.columns if name in there[watch.table])
        if watch.key in there[watch.table] and (columns or not watch.columns):
            until = watch.until if watch.until in there[watch.table] else ""
            margin = watch.margin_seconds + (0 if _keeps_utc(connection) else ZONE_SECONDS)
            found.append(replace(watch, columns=columns, until=until, margin_seconds=margin if until else 0))
    return found


def _keeps_utc(connection: BaseDatabaseWrapper) -> bool:
    return connection.vendor == "postgresql" or connection.timezone_name == "UTC"


def watched_rows(connection: BaseDatabaseWrapper) -> set[str]:
    """Return the tables of which rows that change or go are watched, and not only new ones."""
    return {watch.table for watch in watched(connection) if watch.event != "INSERT"}


def own_tables() -> set[str]:
    """Return the tables that every trigger writes."""
    return {Generation._meta.db_table, Change._meta.db_table}


def wanted(connection: BaseDatabaseWrapper) -> dict[str, Trigger]:
    """Return the triggers that belong into this database, by name."""
    found = watched(connection)
    if connection.vendor == "postgresql":
        found += [replace(watch, event="TRUNCATE") for watch in found if watch.event == "DELETE"]
        if any(watch.table == get_user_model()._meta.db_table for watch in found):
            found.append(_emptied_log())
    if found and _can_come_back(connection):
        found += [_deleted_log(), _altered_log()]
    make = {"sqlite": _sqlite, "postgresql": _postgresql, mariadb.VENDOR: _mariadb}[connection.vendor]
    told = bool(found) and _tells_writers(connection)
    return {trigger.name: trigger for trigger in (make(connection, watch, told) for watch in found)}


def _tells_writers(connection: BaseDatabaseWrapper) -> bool:
    """Return True if notes can say who has written them: amid a migration the column may be still missing."""
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, Change._meta.db_table)
    return Change._meta.get_field("writer").column in {column.name for column in columns}


def present(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Return the triggers of ours that the database has: name → table. One that is disabled is none."""
    with connection.cursor() as cursor:
        cursor.execute(_PRESENT[connection.vendor])
        return {name: table for name, table in cursor.fetchall() if name.startswith(PREFIX)}


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the names of the triggers that ``migrate`` would install now."""
    return sorted(wanted(connection).keys() - present(connection).keys())


def in_words(connection: BaseDatabaseWrapper, names: Collection[str]) -> str:
    """Return the tables and events of these triggers, of those that are wanted: ``auth_user (DELETE, INSERT)``."""
    events: dict[str, list[str]] = {}
    for name, trigger in wanted(connection).items():
        if name in names:
            events.setdefault(trigger.table, []).append(trigger.event)
    return ", ".join(f"{table} ({', '.join(sorted(set(of)))})" for table, of in sorted(events.items()))


def install(connection: BaseDatabaseWrapper, *, add_only: bool = False, wait_ms: int = 0) -> bool:
    """Bring the database's triggers up to date; whether anything had to change.

    ``add_only`` leaves those that are not wanted: another version of the project, which runs beside this one, may want
    them. ``wait_ms``: how long to wait at most for a table that is in use (0: without end; on MariaDB, whole seconds).
    """
    if connection.vendor not in VENDORS:
        return False
    have, want = present(connection), wanted(connection)
    drop = {} if add_only else {name: table for name, table in have.items() if name not in want}
    add = [trigger for name, trigger in want.items() if name not in have]
    if not drop and not add:
        return False
    if connection.vendor == mariadb.VENDOR:
        mariadb.install(connection, [trigger.sql for trigger in add], wait_ms)
        with connection.cursor() as cursor:
            _drop(connection, cursor, drop)
        return True
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor == "postgresql" and wait_ms:
            cursor.execute(f"SET LOCAL lock_timeout = {wait_ms:d}")
        # Also what is to be added: it may be there, and disabled.
        _drop(connection, cursor, drop | {trigger.name: trigger.table for trigger in add})
        for trigger in add:
            if trigger.function:
                postgresql.install_function(cursor, trigger)
            cursor.execute(trigger.sql)
    return True


def remove(connection: BaseDatabaseWrapper, tables: Collection[str] | None = None) -> None:
    """Take the triggers of these tables away, or all."""
    if connection.vendor not in VENDORS:
        return
    have = {name: table for name, table in present(connection).items() if tables is None or table in tables}
    if have:
        # Where a transaction does not hold DDL each is gone by itself.
        whole = transaction.atomic(using=connection.alias) if holds_ddl(connection) else nullcontext()
        with whole, connection.cursor() as cursor:
            _drop(connection, cursor, have)


def holds_ddl(connection: BaseDatabaseWrapper) -> bool:
    """Return True if a transaction takes back what it did to triggers and tables; else each such statement commits
    it."""
    return bool(connection.features.can_rollback_ddl)


def fire(connection: BaseDatabaseWrapper) -> None:
    """Have the triggers fire at once for the rest of the transaction, and for what it has done so far.

    PostgreSQL alters no table for which triggers wait for the transaction's end.
    """
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE t.tgdeferrable AND NOT t.tgisinternal AND pg_table_is_visible(c.oid)"
        )
        names = [name for (name,) in cursor.fetchall() if name.startswith(PREFIX)]
        if names:
            cursor.execute(f"SET CONSTRAINTS {', '.join(map(connection.ops.quote_name, names))} IMMEDIATE")


def _drop(connection: BaseDatabaseWrapper, cursor: Any, names: dict[str, str]) -> None:
    quote = connection.ops.quote_name
    for name, table in names.items():
        on = f" ON {quote(table)}" if connection.vendor == "postgresql" else ""
        cursor.execute(f"DROP TRIGGER IF EXISTS {quote(name)}{on}")


def _column(model: type[models.Model], name: str) -> str:
    return str(model._meta.get_field(name).column)


def _named(quote: Callable[[str], str], watch: Watch, body: str) -> Trigger:
    """Return the trigger whose statement, but for its name, is ``body``."""
    digest = hashlib.sha256(body.encode()).hexdigest()[:10]
    # PostgreSQL cuts names at 63 bytes, MariaDB refuses more than 64 characters.
    name = f"{PREFIX}{watch.table[:24]}_{watch.event.lower()}_{digest}"
    return Trigger(name, watch.table, watch.event, body.replace("%NAME%", quote(name)))


def _sqlite(connection: BaseDatabaseWrapper, watch: Watch, _told: bool) -> Trigger:
    if watch.table == Change._meta.db_table:
        return _sqlite_log(connection, watch)
    quote = connection.ops.quote_name
    key = quote(watch.key)
    columns = [quote(name) for name in watch.columns]
    event = f"{watch.event} OF {', '.join(columns)}" if columns else watch.event
    condition = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in columns)
    condition = ended_by(connection, watch, "OLD", "NEW") or condition
    when = f" WHEN ({condition})" if condition else ""
    # An UPDATE may move a row to another key (a membership to another user): both have changed.
    keys = " UNION ".join(f"SELECT {row}.{key} AS k" for row in _rows(watch))
    generation, change = quote(Generation._meta.db_table), quote(Change._meta.db_table)
    return _named(
        quote,
        watch,
        f"""
        CREATE TRIGGER %NAME% AFTER {event} ON {quote(watch.table)} FOR EACH ROW{when} BEGIN
            UPDATE {generation} SET value = value + 1;
            INSERT INTO {change} (generation, kind, key, time)
                SELECT g.value, '{watch.kind}', CAST(o.k AS TEXT), CAST({epoch(connection)} * 1000 AS INTEGER)
                FROM {generation} g, ({keys}) o;
            UPDATE {change} SET generation = {Change.FORGOTTEN} WHERE kind = '{watch.kind}'
                AND key IN (SELECT CAST(o.k AS TEXT) FROM ({keys}) o)
                AND generation > 0 AND generation < (SELECT value FROM {generation});
        END""",
    )


def _sqlite_log(connection: BaseDatabaseWrapper, watch: Watch) -> Trigger:
    quote = connection.ops.quote_name
    generation, change = quote(Generation._meta.db_table), quote(watch.table)
    if watch.event == "UPDATE":
        same = "NEW.kind IS OLD.kind AND NEW.key IS OLD.key"
        return _named(
            quote,
            watch,
            f"""
        CREATE TRIGGER %NAME% BEFORE UPDATE ON {change} FOR EACH ROW
        WHEN NOT {stands(connection, change, generation, same)} BEGIN SELECT RAISE(IGNORE); END""",
        )
    return _named(
        quote,
        watch,
        f"""
        CREATE TRIGGER %NAME% AFTER DELETE ON {change} FOR EACH ROW WHEN OLD.generation <> {Change.FORGOTTEN} BEGIN
            UPDATE {generation} SET value = value + 1;
            INSERT INTO {change} (generation, kind, key, time)
                SELECT value, OLD.kind, OLD.key, CAST({epoch(connection)} * 1000 AS INTEGER) FROM {generation};
        END""",
    )


def _postgresql(connection: BaseDatabaseWrapper, watch: Watch, told: bool) -> Trigger:
    function, statement, body = postgresql.trigger(connection, watch, told)
    named = _named(connection.ops.quote_name, watch, body)
    return replace(named, function=function, function_sql=statement)


def _mariadb(connection: BaseDatabaseWrapper, watch: Watch, told: bool) -> Trigger:
    return _named(connection.ops.quote_name, watch, mariadb.body(connection, watch, told))


def _rows(watch: Watch) -> tuple[str, ...]:
    return {"INSERT": ("NEW",), "UPDATE": ("NEW", "OLD"), "DELETE": ("OLD",)}[watch.event]
