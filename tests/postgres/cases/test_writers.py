"""Other database roles change what is watched: a nightly job, another program, each with its own search path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.db import ProgrammingError, connection

from tests.support.entitlement.changes import changes

pytestmark = pytest.mark.django_db(transaction=True)

ROLE = "cleaner"

Run = Callable[..., None]


def _run(connected: Any, *statements: str) -> None:
    with connected.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs statements in one transaction as a role that may change watched tables, and not the log."""
    _run(
        connection,
        f"CREATE ROLE {ROLE} LOGIN",
        f"GRANT SELECT, DELETE, TRUNCATE ON django_session TO {ROLE}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON auth_user_groups TO {ROLE}",
        f"GRANT SELECT, UPDATE ON auth_user TO {ROLE}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
    )
    other = connection.copy()
    other.settings_dict = other.settings_dict | {"USER": ROLE}
    other.set_autocommit(False)

    def statements(*some: str) -> None:
        try:
            _run(other, *some)
            other.commit()
        finally:
            other.rollback()

    yield statements
    other.close()
    _run(connection, f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


@pytest.mark.parametrize("path", ["public", "pg_catalog", "pg_temp, pg_catalog", "public, pg_temp"])
def test_what_they_change_is_noted(run: Run, path: str) -> None:
    """Wherever their search path leads, also to tables of their own that are called like ours."""
    bob, desk = User.objects.create_user("bob"), Group.objects.create(name="desk")
    sessions = [SessionStore() for _ in range(2)]
    for session in sessions:
        session.create()
    keys = {("session", session.session_key) for session in sessions}
    news = changes()
    run(
        "CREATE TEMPORARY TABLE entitlement_change (generation bigint, kind text, key text, time bigint)",
        "CREATE TEMPORARY TABLE entitlement_generation (value bigint, forgotten bigint)",
        f"SET search_path TO {path}",
        f"INSERT INTO public.auth_user_groups (user_id, group_id) VALUES ({bob.pk}, {desk.pk})",  # noqa: S608
        "UPDATE public.auth_user SET last_name = 'not watched'",
    )
    assert news() == {("user", str(bob.pk))}
    run("UPDATE public.auth_user SET is_active = false, password = '!'")
    assert news() == {("user", str(bob.pk)), ("password", str(bob.pk))}
    run(f"DELETE FROM public.django_session WHERE session_key = '{sessions[0].session_key}'")  # noqa: S608
    run("TRUNCATE public.django_session")
    assert news() == keys
    run("TRUNCATE public.auth_user_groups")
    assert news() == {("user", str(bob.pk))}


def test_they_may_still_not_write_the_log(run: Run) -> None:
    """Neither at once, nor by a trigger of their own that calls our function with what they like."""
    with pytest.raises(ProgrammingError, match="permission denied for table entitlement_change"):
        run("DELETE FROM entitlement_change")
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT tgfoid::regproc::text FROM pg_trigger WHERE tgname LIKE 'entitlement_on%%'")
        names = [name for (name,) in cursor.fetchall()]
    assert names
    for name in names:
        with pytest.raises(ProgrammingError, match="permission denied for function"):
            run(
                "CREATE TEMPORARY TABLE mine (id text)",
                f"CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION {name}('session', 'id')",
            )
