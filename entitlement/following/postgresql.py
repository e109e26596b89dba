"""What PostgreSQL's triggers do: a function that notes changes with its owner's rights, whoever makes them.

Whoever may change a watched table need not be allowed to write the log, nor have its schema in the search path: a
nightly job with a role of its own deletes sessions, too. So the function is its owner's (``SECURITY DEFINER``), finds
nothing by a search path, and nobody else can make a trigger that calls it.
"""

from __future__ import annotations

import hashlib

from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement.models import Change, Generation

_FUNCTION = "entitlement_raise_"


def qualified(connection: BaseDatabaseWrapper, table: str) -> str:
    """The table's name with its schema, quoted, as this connection's search path finds it."""
    schema, name = _place(connection, table)
    return f"{schema}.{name}"


def function(connection: BaseDatabaseWrapper) -> tuple[str, str]:
    """The function's name, which holds a digest, and its statement: no other version of the project replaces it.

    One generation for a whole transaction (kept in a setting local to it), one change for each row.

    A TRUNCATE is the end of each row, as a DELETE of all is; that of the log itself has a full set sent.
    """
    generation, change = qualified(connection, Generation._meta.db_table), qualified(connection, Change._meta.db_table)
    body = f"""
        RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            raised bigint := nullif(current_setting('entitlement.generation', true), '')::bigint;
            old_key text;
            new_key text;
        BEGIN
            IF TG_OP = 'TRUNCATE' AND TG_WHEN = 'AFTER' THEN
                UPDATE {generation} SET value = value + 1, forgotten = value + 1 RETURNING value INTO raised;
                EXECUTE format(
                    'INSERT INTO {change.replace("'", "''")} (generation, kind, key, time) '
                    'SELECT $1, $2, %I::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint '
                    'FROM %s WHERE $1 IS NOT NULL', TG_ARGV[1], TG_ARGV[2]
                ) USING raised, TG_ARGV[0];
                RETURN NULL;
            END IF;
            IF raised IS NULL THEN
                UPDATE {generation} SET value = value + 1 RETURNING value INTO raised;
                IF raised IS NULL THEN
                    RETURN NULL;
                END IF;
                PERFORM set_config('entitlement.generation', raised::text, true);
            END IF;
            IF TG_OP = 'TRUNCATE' THEN
                EXECUTE format(
                    'INSERT INTO {change.replace("'", "''")} (generation, kind, key, time) '
                    'SELECT DISTINCT $1, $2, %I::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint '
                    'FROM %I.%I', TG_ARGV[1], TG_TABLE_SCHEMA, TG_TABLE_NAME
                ) USING raised, TG_ARGV[0];
                RETURN NULL;
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
        END $$"""  # noqa: S608 - names of our own
    schema, _ = _place(connection, Change._meta.db_table)
    name = f"{schema}.{_FUNCTION}{hashlib.sha256(body.encode()).hexdigest()[:10]}"
    return name, f"CREATE FUNCTION {name}(){body}"


def install_function(connection: BaseDatabaseWrapper) -> None:
    """Make the function unless it is there: only its owner could replace it."""
    name, statement = function(connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regprocedure(%s)", [f"{name}()"])
        if cursor.fetchone() == (None,):
            cursor.execute(statement)
            cursor.execute(f"REVOKE ALL ON FUNCTION {name}() FROM PUBLIC")


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
