"""Database triggers that raise the generation with every change of a rule, user, membership or session.

A trigger sees what Django's signals do not: ``QuerySet.update``, bulk writes and raw SQL. Each one runs inside the
transaction that changes the row, so a rollback takes the generation back with it. ``migrate`` installs them
(idempotently: the name holds a digest of the definition), and takes them away before it alters a watched table.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement import sessions
from entitlement.models import Change, Generation, RevokedToken, Rule

PREFIX = "entitlement_on_"
VENDORS = ("sqlite", "postgresql")
_FUNCTION = "entitlement_raise"


@dataclass(frozen=True, slots=True)
class Watch:
    """One event of one table, and what it tells the change log."""

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
    sql: str


def watches() -> Iterator[Watch]:
    """Everything that changes a right, for whatever user and session models the project has."""
    rules = Rule._meta.db_table
    for event in ("INSERT", "UPDATE", "DELETE"):
        yield Watch(rules, event, Change.Kind.RULE.value, "id")
    yield from _user_watches()
    if memberships := membership_field():
        for event in ("INSERT", "UPDATE", "DELETE"):
            yield Watch(memberships.m2m_db_table(), event, Change.Kind.USER.value, memberships.m2m_column_name())
    yield Watch(RevokedToken._meta.db_table, "INSERT", Change.Kind.TOKEN.value, "jti")
    if store := sessions.session_model():
        yield Watch(store._meta.db_table, "DELETE", Change.Kind.SESSION.value, _column(store, "session_key"))


def _user_watches() -> Iterator[Watch]:
    """The user's table, and that of a parent model which holds one of the columns."""
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
    """The user model's many-to-many field to Django's groups, if it has one."""
    return next((f for f in get_user_model()._meta.many_to_many if f.remote_field.model is Group), None)


def wanted(connection: BaseDatabaseWrapper) -> dict[str, Trigger]:
    """The triggers that belong into this database, by name."""
    tables = set(connection.introspection.table_names())
    make = _sqlite if connection.vendor == "sqlite" else _postgresql
    triggers = (make(connection, watch) for watch in watches() if watch.table in tables)
    return {trigger.name: trigger for trigger in triggers}


def present(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """The triggers of ours that the database has: name → table."""
    query = (
        "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"
        if connection.vendor == "sqlite"
        else "SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid)"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return {name: table for name, table in cursor.fetchall() if name.startswith(PREFIX)}


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """The names of the triggers that ``migrate`` would install now."""
    return sorted(wanted(connection).keys() - present(connection).keys())


def install(connection: BaseDatabaseWrapper) -> bool:
    """Bring the database's triggers up to date; whether anything had to change."""
    if connection.vendor not in VENDORS:
        return False
    have, want = present(connection), wanted(connection)
    if have.keys() == want.keys():
        return False
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        _drop(connection, cursor, {name: table for name, table in have.items() if name not in want})
        if connection.vendor == "postgresql":
            cursor.execute(_postgresql_function(connection))
        for name, trigger in want.items():
            if name not in have:
                cursor.execute(trigger.sql)
    return True


def remove(connection: BaseDatabaseWrapper) -> None:
    """Take all triggers of ours away."""
    if connection.vendor in VENDORS and (have := present(connection)):
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            _drop(connection, cursor, have)


def before_migrate(using: str, plan: list[tuple[Any, bool]], **_: Any) -> None:
    """Remove the triggers if a watched table is going to change.

    PostgreSQL refuses to alter a column that a trigger names, SQLite to rename a table that one mentions.
    """
    watched = {model._meta.app_label for model in (Rule, Group, get_user_model(), sessions.session_model()) if model}
    if any(migration.app_label in watched for migration, _backwards in plan):
        remove(connections[using])


def after_migrate(using: str, **_: Any) -> None:
    """Install the triggers, and create the generation row where it is missing (first migrate, flush)."""
    connection = connections[using]
    tables = connection.introspection.table_names()
    if Generation._meta.db_table not in tables or Change._meta.db_table not in tables:
        return
    changed = install(connection)
    # The clock, so that an emptied database goes on above every generation that a token or sidecar holds.
    now = int(time.time() * 1000)
    _, created = Generation.objects.using(using).get_or_create(pk=1, defaults={"value": now, "forgotten": now})
    if changed and not created:
        # What was changed while the triggers were away is not in the log: only a full set tells it.
        Generation.objects.using(using).update(value=models.F("value") + 1, forgotten=models.F("value") + 1)


def _drop(connection: BaseDatabaseWrapper, cursor: Any, names: dict[str, str]) -> None:
    quote = connection.ops.quote_name
    for name, table in names.items():
        on = f" ON {quote(table)}" if connection.vendor == "postgresql" else ""
        cursor.execute(f"DROP TRIGGER IF EXISTS {quote(name)}{on}")


def _column(model: type[models.Model], name: str) -> str:
    return str(model._meta.get_field(name).column)


def _named(watch: Watch, body: str, function: str = "") -> Trigger:
    """The trigger whose statement, but for its name, is ``body``; another function makes it another trigger."""
    digest = hashlib.sha256((body + function).encode()).hexdigest()[:10]
    # PostgreSQL cuts names at 63 bytes.
    name = f"{PREFIX}{watch.table[:24]}_{watch.event.lower()}_{digest}"
    return Trigger(name, watch.table, body.replace("%NAME%", f'"{name}"'))


def _event(connection: BaseDatabaseWrapper, watch: Watch, differs: str) -> tuple[str, str]:
    """The event with its columns, and the condition that one of them has a new value."""
    if not watch.columns:
        return watch.event, ""
    columns = [connection.ops.quote_name(name) for name in watch.columns]
    changed = " OR ".join(f"OLD.{name} {differs} NEW.{name}" for name in columns)
    return f"{watch.event} OF {', '.join(columns)}", f" WHEN ({changed})"


def _sqlite(connection: BaseDatabaseWrapper, watch: Watch) -> Trigger:
    quote = connection.ops.quote_name
    key = quote(watch.key)
    event, condition = _event(connection, watch, "IS NOT")
    # An UPDATE may move a row to another key (a membership to another user): both have changed.
    keys = " UNION ".join(f"SELECT {row}.{key} AS k" for row in _rows(watch))
    generation, change = quote(Generation._meta.db_table), quote(Change._meta.db_table)
    return _named(
        watch,
        f"""
        CREATE TRIGGER %NAME% AFTER {event} ON {quote(watch.table)} FOR EACH ROW{condition} BEGIN
            UPDATE {generation} SET value = value + 1;
            INSERT INTO {change} (generation, kind, key, time)
                SELECT g.value, '{watch.kind}', CAST(o.k AS TEXT),
                       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                FROM {generation} g, ({keys}) o;
        END""",
    )


def _postgresql(connection: BaseDatabaseWrapper, watch: Watch) -> Trigger:
    # Deferred to the end of the transaction, so that the one row every change writes is locked briefly, and
    # two long transactions do not wait for each other.
    quote = connection.ops.quote_name
    event, condition = _event(connection, watch, "IS DISTINCT FROM")
    arguments = f"'{watch.kind}', '{watch.key.replace(chr(39), chr(39) * 2)}'"
    return _named(
        watch,
        f"""
        CREATE CONSTRAINT TRIGGER %NAME% AFTER {event} ON {quote(watch.table)}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW{condition}
        EXECUTE FUNCTION {_FUNCTION}({arguments})""",
        _postgresql_function(connection),
    )


def _postgresql_function(connection: BaseDatabaseWrapper) -> str:
    """One generation for a whole transaction (kept in a setting local to it), one change for each row."""
    quote = connection.ops.quote_name
    generation, change = quote(Generation._meta.db_table), quote(Change._meta.db_table)
    return f"""
        CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            raised bigint := nullif(current_setting('entitlement.generation', true), '')::bigint;
            old_key text;
            new_key text;
        BEGIN
            IF raised IS NULL THEN
                UPDATE {generation} SET value = value + 1 RETURNING value INTO raised;
                IF raised IS NULL THEN
                    RETURN NULL;
                END IF;
                PERFORM set_config('entitlement.generation', raised::text, true);
            END IF;
            IF TG_OP <> 'INSERT' THEN
                old_key := to_jsonb(OLD) ->> TG_ARGV[1];
            END IF;
            IF TG_OP <> 'DELETE' THEN
                new_key := to_jsonb(NEW) ->> TG_ARGV[1];
            END IF;
            INSERT INTO {change} (generation, kind, key, time)
                SELECT DISTINCT raised, TG_ARGV[0], k, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                FROM unnest(ARRAY[old_key, new_key]) k WHERE k IS NOT NULL;
            RETURN NULL;
        END $$"""


def _rows(watch: Watch) -> tuple[str, ...]:
    return {"INSERT": ("NEW",), "UPDATE": ("NEW", "OLD"), "DELETE": ("OLD",)}[watch.event]
