"""What a database user may not, or a server has not, is told by a check with what to type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import OperationalError, ProgrammingError, connection

from entitlement.following import mariadb, mariadb_checks, triggers
from tests.support.entitlement.changes import changes
from tests.support.mariadb import MariaDB

pytestmark = pytest.mark.django_db(transaction=True)

OWNER = "'owner'@'localhost'"


def _run(server: Any, *statements: str) -> None:
    with server.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _ids() -> list[str]:
    return [found.id for found in run_checks(databases=["default"]) if found.id.startswith("entitlement.")]


@pytest.fixture
def logging_server() -> Iterator[MariaDB]:
    """One with a binary log."""
    with MariaDB("log-bin=log", "server-id=1") as server:
        yield server


def test_a_user_who_may_make_no_triggers_is_told_what_to_type(logging_server: MariaDB) -> None:
    """Each line is what was missing, as the database itself says before it is typed."""
    root, owner = connection.copy("root"), connection.copy("owner")
    for one, user, name in ((root, "root", "mysql"), (owner, "owner", "site")):
        one.settings_dict = one.settings_dict | {"HOST": logging_server.socket, "USER": user, "NAME": name}
    try:
        _run(
            root,
            "CREATE DATABASE site CHARACTER SET utf8mb4",
            f"CREATE USER {OWNER}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, REFERENCES ON site.* TO {OWNER}",
        )
        trigger, log = mariadb_checks.privilege_messages(owner)
        assert (trigger.id, log.id) == ("entitlement.E008", "entitlement.E008")
        _run(owner, "CREATE TABLE t (a INT)")
        make = "CREATE TRIGGER made AFTER INSERT ON t FOR EACH ROW SET @nothing = 1"
        with pytest.raises(ProgrammingError, match="binary logging is enabled"):
            mariadb.install(owner, [make], 0)
        _run(root, str(log.hint).partition(": ")[2].partition(" (")[0])
        assert mariadb_checks.privilege_messages(owner) == [trigger]
        with pytest.raises(ProgrammingError, match="TRIGGER command denied"):
            mariadb.install(owner, [make], 0)
        _run(root, str(trigger.hint).partition(": ")[2])
        owner.close()  # it counts for connections from now on
        assert mariadb_checks.privilege_messages(owner) == []
        _run(owner, make, "DROP TRIGGER made")
        _run(root, "SET GLOBAL log_bin_trust_function_creators = 0", f"GRANT SUPER ON *.* TO {OWNER}")
        owner.close()
        assert mariadb_checks.privilege_messages(owner) == []
        _run(owner, make)
    finally:
        owner.close()
        root.close()


def test_a_table_of_another_engine() -> None:
    assert _ids() == []
    _run(
        connection, "ALTER TABLE entitlement_revokedtoken DROP FOREIGN KEY " + _foreign_key("entitlement_revokedtoken")
    )
    _run(connection, "ALTER TABLE entitlement_revokedtoken ENGINE=Aria")
    try:
        [error] = [found for found in run_checks(databases=["default"]) if found.id == "entitlement.E006"]
        with pytest.raises(CommandError, match=r"entitlement\.E006"):
            call_command("check", databases=["default"])
    finally:
        _run(
            connection,
            str(error.hint),
            "ALTER TABLE entitlement_revokedtoken ADD CONSTRAINT again FOREIGN KEY (by_id) REFERENCES auth_user (id)",
        )
    assert _ids() == []
    assert not triggers.missing(connection)


def _foreign_key(table: str) -> str:
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table)
    return next(name for name, one in constraints.items() if one["foreign_key"])


def test_transactions_that_see_what_is_not_committed() -> None:
    _run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    try:
        assert "entitlement.E007" in _ids()
    finally:
        connection.close()


def test_an_old_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mariadb_checks.VERSIONS, True, ("MariaDB", (99, 1)))
    [error] = [found for found in run_checks(databases=["default"]) if found.id == "entitlement.E005"]
    assert "MariaDB 99.1 or newer" in error.msg


def test_another_user_needs_no_privilege_for_the_log() -> None:
    """A trigger runs with the rights of who made it."""
    bob = User.objects.create_user("bob")
    session = SessionStore()
    session.create()
    database = connection.settings_dict["NAME"]
    _run(
        connection,
        "CREATE USER 'cleaner'@'localhost'",
        f"GRANT SELECT, DELETE ON {database}.django_session TO 'cleaner'@'localhost'",
        f"GRANT SELECT, UPDATE ON {database}.auth_user TO 'cleaner'@'localhost'",
    )
    cleaner = connection.copy()
    cleaner.settings_dict = cleaner.settings_dict | {"USER": "cleaner"}
    news = changes()
    try:
        _run(cleaner, "UPDATE auth_user SET last_name = 'not watched'", "DELETE FROM django_session")
        assert news() == {("session", session.session_key)}
        _run(cleaner, "UPDATE auth_user SET is_active = 0")
        assert news() == {("user", str(bob.pk))}
        with pytest.raises(OperationalError, match="DELETE command denied"):
            _run(cleaner, "DELETE FROM entitlement_change")
    finally:
        cleaner.close()
        _run(connection, "DROP USER 'cleaner'@'localhost'")
