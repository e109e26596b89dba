"""TRUNCATE, which fires no trigger of rows, takes rights back like a DELETE of all rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection

from entitlement.following import postgresql, triggers
from entitlement.models import Change, Generation, Rule
from tests.support.databases import settle
from tests.support.entitlement.watched import SUBJECT, Watched, node, running
from tests.support.sidecar import Sidecar

__all__ = ["node", "running"]

pytestmark = pytest.mark.django_db(transaction=True)


def _truncate(tables: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables}")


TABLES: dict[str, Callable[[Watched], object]] = {
    "entitlement_rule": lambda watched: [viewer.revoked(SUBJECT) for viewer in watched.viewers.values()],
    "auth_user_groups": lambda watched: [viewer.revoked(SUBJECT) for viewer in watched.viewers.values()],
    "auth_group CASCADE": lambda watched: [viewer.revoked(SUBJECT) for viewer in watched.viewers.values()],
    "django_session": lambda watched: [watched.viewers["eve"].closed(), watched.viewers["bob"].ask("ping")],
    "auth_user CASCADE": lambda watched: [viewer.closed() for viewer in watched.viewers.values()],
    "entitlement_rule, entitlement_change": lambda watched: [viewer.closed() for viewer in watched.viewers.values()],
}


@pytest.mark.parametrize("tables", TABLES)
def test_an_emptied_table(node: Sidecar, tables: str) -> None:
    with Watched(node) as watched:
        _truncate(tables)
        TABLES[tables](watched)


def test_one_generation_for_the_transaction() -> None:
    rule, session = Rule.objects.create(everyone=True, pattern="/a/b"), SessionStore()
    session.create()
    settle()
    before = Generation.objects.get().value
    _truncate("entitlement_rule, django_session")
    settle()
    noted = Change.objects.filter(generation__gt=before).values_list("generation", "kind", "key")
    assert set(noted) == {(before + 1, "rule", str(rule.pk)), (before + 1, "session", session.session_key)}
    _truncate("entitlement_rule, django_session")
    settle()
    assert Generation.objects.get().value == before + 1, "they were empty"


def test_the_log_itself() -> None:
    user = get_user_model().objects.create(username="ann")
    before = Generation.objects.get().value
    _truncate("entitlement_change")
    now = Generation.objects.get()
    assert (now.value, now.forgotten) == (before + 1, before + 1), "only a full set tells what was in it"
    assert list(Change.objects.values_list("generation", "kind", "key")) == [
        (now.value, Change.Kind.PASSWORD, str(user.pk))
    ]


def test_another_version_that_runs_beside_it_leaves_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def functions() -> dict[str, str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'entitlement_note%'")
            return dict(cursor.fetchall())

    ours = functions()
    with monkeypatch.context() as older:
        older.setattr(postgresql, "qualified", lambda _, table: f'"public"."{table}"')  # the same, said otherwise
        triggers.install(connection, add_only=True)
    try:
        assert ours.items() < functions().items()
    finally:
        triggers.install(connection)
    assert not triggers.missing(connection)
