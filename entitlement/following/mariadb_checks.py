"""System checks of MariaDB and MySQL: version, engine, isolation, privileges, and what changes rows unseen."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement.following import mariadb, triggers

VERSIONS = {True: ("MariaDB", (10, 6)), False: ("MySQL", (8, 0))}
"""The oldest that will do, by whether it is MariaDB."""


def database_messages(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    """Return what stands between this database and triggers that see every change; raise django.db.Error."""
    if connection.vendor != mariadb.VENDOR:
        return []
    return [*_version(connection), *_isolation(connection), *_engines(connection), *_cascades(connection)]


def _version(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    name, oldest = VERSIONS[bool(connection.mysql_is_mariadb)]
    version = connection.get_database_version()
    if version < oldest:
        yield Error(
            f"entitlement needs {name} {_dotted(oldest)} or newer, and this is {_dotted(version)}.",
            id="entitlement.E005",
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _isolation(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Find transactions that see what others have not committed, which must not be taken for a change nor count as
    told."""
    rows = _rows(connection, "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')")
    if any(value == "READ-UNCOMMITTED" for _, value in rows):
        yield Error(
            "The transactions of this database see what others have not committed: a right would end that a rollback "
            "brings back.",
            hint='In DATABASES, OPTIONS: {"isolation_level": "read committed"}, which is Django\'s default.',
            id="entitlement.E007",
        )


def _engines(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Find tables without transactions, which InnoDB alone has: a note would outlive a rollback, or go without its
    change."""
    ours = triggers.own_tables() | {watch.table for watch in triggers.watches()}
    rows = _rows(connection, "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE()")
    others = sorted(table for table, engine in rows if table in ours and engine != "InnoDB")
    if others:
        yield Error(
            f"{', '.join(others)}: the engine is not InnoDB, and no other has transactions.",
            hint="; ".join(f"ALTER TABLE {table} ENGINE=InnoDB" for table in others),
            id="entitlement.E006",
        )


def _cascades(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    found = mariadb.cascades(connection, triggers.watched_rows(connection))
    if found:
        yield CheckWarning(
            f"The database itself changes rows, which fires no trigger: {'; '.join(found)}. An agent that runs "
            "compares the tables five times a second.",
            hint="Make these foreign keys anew without ON DELETE and ON UPDATE: Django does that by itself.",
            id="entitlement.W006",
        )


def privilege_messages(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    """Return what keeps this database user from making triggers; to be asked where some are missing."""
    if connection.vendor != mariadb.VENDOR:
        return []
    [(user, role, database)] = _rows(connection, "SELECT CURRENT_USER(), CURRENT_ROLE(), DATABASE()")
    name, _, host = user.rpartition("@")
    grantee = f"'{name}'@'{host}'"
    if role not in (None, "", "NONE"):
        return []  # what a role may is not listed with the user's
    found: list[CheckMessage] = []
    everywhere = {kind for (kind,) in _rows(connection, _EVERYWHERE, grantee)}
    if "TRIGGER" not in everywhere | {kind for (kind,) in _rows(connection, _HERE, grantee, grantee)}:
        found.append(
            Error(
                f"The database user {user} may not make triggers, by which changes of rights are seen.",
                hint=f"As an administrator of the database: GRANT TRIGGER ON `{database}`.* TO {grantee}",
                id="entitlement.E008",
            )
        )
    variables = dict(_rows(connection, "SHOW VARIABLES LIKE 'log_bin%'"))
    if (
        variables.get("log_bin") == "ON"
        and variables.get("log_bin_trust_function_creators") != "ON"
        and "SUPER" not in everywhere
    ):
        found.append(
            Error(
                f"The database has a binary log, and {user} may not make triggers then.",
                hint="As an administrator of the database: SET GLOBAL log_bin_trust_function_creators = 1 (and so in "
                "its configuration).",
                id="entitlement.E008",
            )
        )
    return found


_EVERYWHERE = "SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = %s"
_HERE = (
    "SELECT privilege_type FROM information_schema.schema_privileges "
    "WHERE grantee = %s AND DATABASE() LIKE table_schema UNION "
    "SELECT privilege_type FROM information_schema.table_privileges WHERE grantee = %s AND table_schema = DATABASE()"
)


def _rows(connection: BaseDatabaseWrapper, query: str, *values: str) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())
