"""PostgreSQL's triggers: one for each statement, which notes all that it changed with the rights of the notes' owner.

Whoever may change a watched table need not be allowed to write the log, nor have its schema in the search path: a
nightly job with a role of its own deletes sessions, too. So the function is its owner's (``SECURITY DEFINER``), finds
nothing by a search path, and nobody else can make a trigger that calls it.

A note has no generation yet (numbering.py): nothing is locked that another transaction needs.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth import get_user_model
from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement.following.watch import Trigger, Watch, ended_by, stands
from entitlement.models import Change, Generation

_FUNCTION = "entitlement_note_"

_REFERENCING = {
    "INSERT": "REFERENCING NEW TABLE AS new_rows",
    "UPDATE": "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "DELETE": "REFERENCING OLD TABLE AS old_rows",
}


def trigger(connection: BaseDatabaseWrapper, watch: Watch, told: bool) -> tuple[str, str, str]:
    """Return the function's name with its schema, the statements that make it, and the trigger, whose name is
    ``%NAME%``.

    The function's name holds a digest: no other version of the project replaces it. ``told``: its notes say who has
    written them.
    """
    schema = _place(connection, Change._meta.db_table)[0]
    is_log = watch.table == Change._meta.db_table
    of_log = {"TRUNCATE": _emptied_log, "DELETE": _deleted_log, "UPDATE": _altered_log}
    note = of_log[watch.event] if is_log else _note
    body = f"""
        RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN{note(connection, watch, told)}
            RETURN NULL;
        END $$"""
    name = f"{schema}.{_FUNCTION}{hashlib.sha256(body.encode()).hexdigest()[:10]}"
    # A TRUNCATE is the end of each row, as a DELETE of all is: before it they are still there. That of the log takes
    # with it what is noted before.
    when = "BEFORE" if watch.event == "TRUNCATE" and not is_log else "AFTER"
    fires = f"{_REFERENCING.get(watch.event, '')} FOR EACH STATEMENT"
    if is_log and watch.event == "UPDATE":
        when, fires = "BEFORE", "FOR EACH ROW"
    body = f"CREATE FUNCTION {name}(){body}; REVOKE ALL ON FUNCTION {name}() FROM PUBLIC"
    return (
        name,
        body,
        f"""
        CREATE TRIGGER %NAME% {when} {watch.event} ON {connection.ops.quote_name(watch.table)}
        {fires} EXECUTE FUNCTION {name}()""",
    )


def install_function(cursor: Any, wanted: Trigger) -> None:
    """Make the function that a trigger calls, unless it is there: only its owner could replace it."""
    cursor.execute("SELECT to_regprocedure(%s)", [f"{wanted.function}()"])
    if cursor.fetchone() == (None,):
        cursor.execute(wanted.function_sql)


def qualified(connection: BaseDatabaseWrapper, table: str) -> str:
    """Return the table's name with its schema, quoted, as this connection's search path finds it."""
    return ".".join(_place(connection, table))


def _note(connection: BaseDatabaseWrapper, watch: Watch, told: bool) -> str:
    noted = f"SELECT DISTINCT '{watch.kind}', k FROM ({_keys(connection, watch)}) changed (k) WHERE k IS NOT NULL"  # noqa: S608
    return _insert(connection, noted, told)


def _deleted_log(connection: BaseDatabaseWrapper, _watch: Watch, told: bool) -> str:
    """Return the statement that notes anew what was deleted, unless nobody needs it any more."""
    return _insert(connection, f"SELECT kind, key FROM old_rows WHERE generation <> {Change.FORGOTTEN}", told)  # noqa: S608


def _altered_log(connection: BaseDatabaseWrapper, _watch: Watch, _told: bool) -> str:
    """Return the statements that keep a note from a change that must not be: where a trigger answers NULL a row
    stays."""
    log, generations = qualified(connection, Change._meta.db_table), qualified(connection, Generation._meta.db_table)
    same = "NEW.kind = OLD.kind AND NEW.key = OLD.key"
    return f"""
            IF {stands(connection, log, generations, same)} THEN
                RETURN NEW;
            END IF;"""


def _insert(connection: BaseDatabaseWrapper, noted: str, told: bool) -> str:
    """Return the statement that notes what a query finds: kind and key."""
    return f"""
            INSERT INTO {qualified(connection, Change._meta.db_table)} (kind, key, generation, time{told * ", writer"})
                SELECT noted.*, {Change.PENDING}, 0{told * ", txid_current()"}
                FROM ({noted}) noted;"""  # noqa: S608 - names of our own


def _keys(connection: BaseDatabaseWrapper, watch: Watch) -> str:
    """Return the query for the keys of what a statement changed."""
    quote = connection.ops.quote_name
    key = quote(watch.key)
    if watch.event == "INSERT":
        return f"SELECT {key}::text FROM new_rows"  # noqa: S608
    if watch.event in ("DELETE", "TRUNCATE"):
        rows = "old_rows" if watch.event == "DELETE" else qualified(connection, watch.table)
        where = ended_by(connection, watch, "o", "")
        return f"SELECT o.{key}::text FROM {rows} o" + (f" WHERE {where}" if where else "")  # noqa: S608
    if not watch.columns:
        # It may move a row to another key (a membership to another user): both have changed.
        return f"SELECT {key}::text FROM old_rows UNION SELECT {key}::text FROM new_rows"  # noqa: S608
    # As texts: a type may take different ones for equal.
    differs = " OR ".join(f"o.{name}::text IS DISTINCT FROM n.{name}::text" for name in map(quote, watch.columns))
    differs = ended_by(connection, watch, "o", "n") or f"o.{key} IS NULL OR n.{key} IS NULL OR {differs}"
    return f"""
                    SELECT coalesce(o.{key}, n.{key})::text
                    FROM old_rows o FULL JOIN new_rows n ON o.{key} = n.{key} WHERE {differs}"""  # noqa: S608


def _emptied_log(connection: BaseDatabaseWrapper, watch: Watch, _told: bool) -> str:
    """Return the statements for an emptied log, which hides what ended: a full set is to be sent, every user's tokens
    end. The first reader of the log numbers the rest."""
    generation, change = qualified(connection, Generation._meta.db_table), qualified(connection, Change._meta.db_table)
    users = qualified(connection, get_user_model()._meta.db_table)
    return f"""
            UPDATE {generation} SET value = value + 1, forgotten = value + 1;
            INSERT INTO {change} (generation, kind, key, time)
                SELECT g.value, '{watch.kind}', u.{connection.ops.quote_name(watch.key)}::text,
                    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                FROM {generation} g, {users} u;"""  # noqa: S608


def _place(connection: BaseDatabaseWrapper, table: str) -> tuple[str, str]:
    """Schema and name, each quoted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(n.nspname), quote_ident(c.relname) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
            [connection.ops.quote_name(table)],
        )
        schema, name = cursor.fetchone()
    return schema, name
