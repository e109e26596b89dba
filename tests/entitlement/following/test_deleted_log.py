"""Who deletes notes of changes hides nothing: they are noted anew, until nobody needs them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from entitlement import tokens
from entitlement.following import compiler
from entitlement.models import Change, DeletedChange, Generation, RevokedToken, Rule
from entitlement.sessions import session_id
from tests.support.databases import settle
from tests.support.entitlement.changes import age_log, changes, empty_log
from tests.support.entitlement.watched import SUBJECT, Watched, node, running
from tests.support.sidecar import Sidecar

__all__ = ["node", "running"]

pytestmark = pytest.mark.django_db(transaction=True)


def _run(*statements: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def ended() -> set[tuple[str, str]]:
    """One change of each kind, in a log that has nothing else."""
    bob = User.objects.create_user("bob")
    session = SessionStore()
    session.create()
    settle()  # what the tests before have left comes back first
    empty_log()
    news = changes()
    session.delete()
    RevokedToken.objects.create(jti="abc", expires=timezone.now())
    User.objects.update(password="!")
    User.objects.update(is_active=False)
    Rule.objects.create(everyone=True, pattern="/a/b")
    noted = news()
    assert {kind for kind, _ in noted} == {"session", "token", "password", "user", "rule"}
    assert bob.pk
    return noted


@pytest.mark.parametrize("which", ["", " WHERE kind = 'session'", " WHERE kind <> 'rule'", " WHERE generation > 0"])
def test_what_is_deleted_is_noted_anew(ended: set[tuple[str, str]], which: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT kind, entitlement_change.key FROM entitlement_change{which}")  # noqa: S608
        gone = set(cursor.fetchall())
    assert gone
    news = changes()
    for _ in range(3):
        _run(f"DELETE FROM entitlement_change{which}")  # noqa: S608
        assert news() == gone
    assert set(Change.objects.values_list("kind", "key")) >= ended
    sessions = {record["sid"] for record in compiler.full_set(compiler.position().generation).sessions}
    assert sessions == {"jti:abc", *(session_id(key) for kind, key in ended if kind == "session")}


ALTERED = {
    "forgotten": "generation = -1",
    "pending again": "generation = 0",
    "read already": "generation = 1",
    "far ahead": "generation = generation + 1000000",
    "back": "generation = generation - 1",
    "the newest": "generation = (SELECT value FROM entitlement_generation)",
    "as it is numbered": "generation = (SELECT value FROM entitlement_generation), time = 9000000000000",
    "another key": "{key} = '0'",
    "another kind": "kind = 'rule'",
    "all of it": "generation = 1, kind = 'rule', {key} = '', time = 0",
    "long ago": "time = 0",
    "some": "generation = -1 WHERE kind = 'session'",
}


@pytest.mark.parametrize("how", ALTERED.values(), ids=list(ALTERED))
def test_what_is_altered_stands(ended: set[tuple[str, str]], how: str) -> None:
    """Also what nobody has numbered yet, and what is deleted behind it, or has grown old by it, comes back."""
    bob, now = User.objects.get(), compiler.position().generation
    statement = f"UPDATE entitlement_change SET {how.format(key=connection.ops.quote_name('key'))}"  # noqa: S608
    notes = list(Change.objects.order_by("id").values())
    _run(statement)
    assert list(Change.objects.order_by("id").values()) == notes
    _run("DELETE FROM entitlement_rule", statement)
    User.objects.update(password="?")
    _run(statement)
    compiler.forget()
    settle()
    assert set(Change.objects.filter(generation__gt=now).values_list("kind", "key")) >= {
        ("password", str(bob.pk)),
        *(one for one in ended if one[0] == "rule"),
    }
    sessions = {record["sid"] for record in compiler.full_set(compiler.position().generation).sessions}
    assert sessions == {"jti:abc", *(session_id(key) for kind, key in ended if kind == "session")}


def test_what_nobody_has_read_yet(ended: set[tuple[str, str]]) -> None:
    """In the transaction that makes the change."""
    news = changes()
    rule = Rule.objects.get()
    _run("DELETE FROM entitlement_rule", "DELETE FROM entitlement_change", "DELETE FROM entitlement_change")
    assert news() == ended | {("rule", str(rule.pk))}


def test_a_rollback_brings_nothing_back(ended: set[tuple[str, str]]) -> None:
    news = changes()
    with transaction.atomic():
        Change.objects.all().delete()
        transaction.set_rollback(True)
    assert news() == set()
    assert set(Change.objects.values_list("kind", "key")) >= ended


def test_what_is_forgotten_stays_away(ended: set[tuple[str, str]]) -> None:
    """The log does not grow by its being cleaned up."""
    age_log()
    before = Generation.objects.get()
    while compiler.forget():
        pass
    settle()
    assert not Change.objects.exists()
    assert not DeletedChange.objects.exists()
    after = Generation.objects.get()
    assert (after.value, after.forgotten) == (before.value, before.value)


def test_tokens_that_ended_stay_so_without_an_agent() -> None:
    """Nothing that ended counts again for a node that comes later."""
    bob, session = User.objects.create_user("bob"), SessionStore()
    session.create()
    token = tokens.mint(bob, session)[0]
    session.delete()
    Change.objects.all().delete()
    with pytest.raises(tokens.TokenRefused):
        tokens.bearer(token)
    [record] = compiler.full_set(compiler.position().generation).sessions
    assert record["sid"] == session_id(session.session_key)


def test_live_connections(node: Sidecar) -> None:
    with Watched(node) as watched:
        _run("DELETE FROM entitlement_rule", "DELETE FROM entitlement_change")
        for viewer in watched.viewers.values():
            viewer.revoked(SUBJECT)


def test_a_new_beginning_is_above_what_is_left_of_the_log() -> None:
    """A flush may put back what it deletes of the log, under more generations than there have been milliseconds."""
    ahead = Generation.objects.get().value + 1_000_000
    Change.objects.create(kind=Change.Kind.USER, key="1", time=0, generation=ahead)
    Generation.objects.all().delete()
    call_command("migrate", verbosity=0)
    at = Generation.objects.get()
    assert ahead < at.forgotten <= at.value
