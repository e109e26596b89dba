"""Every way in which a right changes raises the generation, inside its transaction."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest
from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection, transaction
from django.http import HttpRequest
from django.utils import timezone

from entitlement.following import migrating, triggers
from entitlement.following.copies import Copy
from entitlement.models import Change, Generation, RevokedToken, Rule
from tests.support.databases import settle


def _signed_in(user: User) -> HttpRequest:
    """The request by which a visitor without a session signs in."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore()
    login(request, authenticate(username=user.username, password="demo"))
    request.session.save()
    return request


RULE = {"everyone": True, "pattern": "/stocks/**"}


def test_rule_written_by_every_way(news):
    rule = Rule.objects.create(**RULE)
    assert news() == {("rule", str(rule.pk))}
    rule.effect = "deny"
    rule.save()
    assert news() == {("rule", str(rule.pk))}
    Rule.objects.filter(pk=rule.pk).update(effect="allow")
    assert news() == {("rule", str(rule.pk))}
    with connection.cursor() as cursor:
        cursor.execute("UPDATE entitlement_rule SET note = 'raw'")
    assert news() == {("rule", str(rule.pk))}
    others = Rule.objects.bulk_create([Rule(**RULE), Rule(**RULE)])
    assert news() == {("rule", str(other.pk)) for other in others}
    for other in others:
        other.note = "changed"
    Rule.objects.bulk_update(others, ["note"])
    assert news() == {("rule", str(other.pk)) for other in others}
    gone = {("rule", str(key)) for key in Rule.objects.values_list("pk", flat=True)}
    Rule.objects.all().delete()
    assert news() == gone


def test_rule_goes_with_its_user_and_group(news, bob, desk):
    rules = [Rule.objects.create(user=bob, pattern="/a/b"), Rule.objects.create(group=desk, pattern="/a/b")]
    keys = [("rule", str(rule.pk)) for rule in rules]
    news()
    uid = str(bob.pk)
    bob.delete()
    assert news() == {keys[0], ("user", uid)}
    desk.delete()
    assert news() == {keys[1]}


def test_members_from_both_sides(news, bob, desk):
    user = {("user", str(bob.pk))}
    news()
    bob.groups.add(desk)
    assert news() == user
    bob.groups.add(desk)
    assert news() == set(), "he was a member already"
    bob.groups.remove(desk)
    assert news() == user
    desk.user_set.add(bob)
    assert news() == user
    desk.user_set.set([])
    assert news() == user
    desk.user_set.set([bob])
    news()
    bob.groups.clear()
    assert news() == user


def test_membership_moved_to_another_user_changes_both(news, bob, desk):
    eve = User.objects.create_user("eve")
    bob.groups.add(desk)
    news()
    User.groups.through.objects.update(user=eve)
    assert news() == {("user", str(bob.pk)), ("user", str(eve.pk))}


def test_deleted_group_changes_its_members(news, bob, desk):
    bob.groups.add(desk)
    news()
    Group.objects.filter(pk=desk.pk).delete()
    assert news() == {("user", str(bob.pk))}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"is_active": False}, "user"),
        ({"is_superuser": True}, "user"),
        ({"username": "robert"}, "user"),
        ({"password": "!"}, "password"),
    ],
)
def test_user_columns_that_matter(news, bob, change, kind):
    news()
    User.objects.filter(pk=bob.pk).update(**change)
    assert news() == {(kind, str(bob.pk))}


def test_user_and_password_at_once(news, bob):
    User.objects.filter(pk=bob.pk).update(is_superuser=True, password="!")
    assert news() == {("user", str(bob.pk)), ("password", str(bob.pk))}


def test_a_token_that_is_revoked(news, bob):
    news()
    expires = timezone.now() + timedelta(hours=1)
    revoked = RevokedToken.objects.create(jti="abc", expires=expires, by=bob)
    assert news() == {("token", "abc")}
    RevokedToken.objects.bulk_create([RevokedToken(jti="def", expires=expires)])
    assert news() == {("token", "def")}
    revoked.delete()
    assert news() == set(), "it stays revoked"


def test_user_columns_that_do_not_matter(news, bob):
    news()
    User.objects.filter(pk=bob.pk).update(first_name="Bob", is_staff=True, email="b@example.org")
    bob.refresh_from_db()
    bob.save()
    assert news() == set()


def test_login_changes_nothing_and_logout_ends_the_session(news, bob):
    news()
    request = _signed_in(bob)
    bob.refresh_from_db()
    assert bob.last_login is not None
    assert news() == set()
    key = request.session.session_key
    logout(request)
    assert news() == {("session", key)}


def test_deleted_session(news):
    session = SessionStore()
    session.create()
    assert news() == set()
    Session.objects.filter(session_key=session.session_key).delete()
    assert news() == {("session", session.session_key)}


def _sessions(ends: dict[str, int]) -> None:
    now = timezone.now()
    Session.objects.bulk_create(
        Session(session_key=key, session_data="", expire_date=now + timedelta(hours=hours))
        for key, hours in ends.items()
    )


def test_sessions_that_had_ended_are_no_change(news):
    """A token of a session lives for twelve hours: its end counts for one more."""
    _sessions({"in two days": 48, "an hour ago": -1, "12 hours ago": -12, "14 hours ago": -14, "a week ago": -168})
    news()
    Session.objects.all().delete()
    assert news() == {("session", "in two days"), ("session", "an hour ago"), ("session", "12 hours ago")}


def test_tokens_that_live_longer_than_a_day(news, settings):
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECONDS": 48 * 3600}
    [watch] = [watch for watch in triggers.watched(connection) if watch.kind == "session" and watch.event == "DELETE"]
    assert watch.margin_seconds == 49 * 3600


def test_a_session_that_is_made_to_end(news):
    """What cleans up later deletes it without a note, so it is noted now; one that is only shorter lives on."""
    _sessions({"lives": 48, "ends": 48, "had ended": -20})
    news()
    Session.objects.filter(session_key="lives").update(expire_date=timezone.now() + timedelta(hours=1))
    Session.objects.filter(session_key="lives").update(expire_date=timezone.now() + timedelta(hours=2))
    assert news() == set()
    Session.objects.filter(session_key="ends").update(expire_date=timezone.now() - timedelta(days=9))
    assert news() == {("session", "ends")}
    Session.objects.filter(session_key="had ended").update(session_data="x")
    Session.objects.exclude(session_key="lives").delete()
    assert news() == set()


def test_two_copies_tell_what_ended_as_the_triggers_do(news):
    _sessions({"lives": 48, "is ended": 48, "is deleted": 48, "had ended": -20, "is moved": 48})
    before = Copy(connection)
    news()
    Session.objects.filter(session_key="lives").update(
        session_data="x", expire_date=timezone.now() + timedelta(hours=9)
    )
    Session.objects.filter(session_key="is ended").update(expire_date=timezone.now() - timedelta(seconds=1))
    Session.objects.filter(session_key__in=["is deleted", "had ended"]).delete()
    after = Copy(connection)
    assert after.changes_since(before) == news() == {("session", "is ended"), ("session", "is deleted")}


@pytest.mark.parametrize("engine", ["cache", "signed_cookies", "cached_db"])
def test_logout_with_another_session_engine(news, bob, settings, engine):
    settings.SESSION_ENGINE = f"django.contrib.sessions.backends.{engine}"
    news()
    request = _signed_in(bob)
    assert news() == set()
    key = request.session.session_key
    logout(request)
    # The key of signed cookies is the cookie itself and changes with it: there is nothing to revoke by.
    assert news() == (set() if engine == "signed_cookies" else {("session", key)})


def test_rollback_takes_the_generation_back(news):
    before = Generation.objects.get().value
    with transaction.atomic():
        Rule.objects.create(**RULE)
        settle()
        assert Generation.objects.get().value > before
        transaction.set_rollback(True)
    assert news() == set()
    assert Generation.objects.get().value == before


@pytest.mark.django_db(transaction=True)  # MariaDB has no transactions that take triggers back
def test_triggers_are_installed_once_and_again_when_missing():
    have = triggers.present(connection)
    assert have.keys() == triggers.wanted(connection).keys()
    assert not triggers.install(connection)
    assert triggers.present(connection) == have
    some = next(name for name, table in have.items() if table == "auth_user")
    with connection.cursor() as cursor:
        on = " ON auth_user" if connection.vendor == "postgresql" else ""
        cursor.execute(f"DROP TRIGGER {connection.ops.quote_name(some)}{on}")
    assert triggers.missing(connection) == [some]
    before = Generation.objects.get()
    migrating.after_migrate(using="default")
    after = Generation.objects.get()
    assert triggers.present(connection).keys() == have.keys()
    assert after.forgotten == after.value == before.value + 1, "what happened meanwhile is not in the log"


@pytest.mark.django_db(transaction=True)
def test_an_older_definition_is_replaced():
    body = {
        "sqlite": "BEGIN SELECT 1; END",
        "postgresql": "FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "mysql": "FOR EACH ROW SET @nothing = 1",
    }
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TRIGGER {triggers.PREFIX}old AFTER INSERT ON auth_group {body[connection.vendor]}")
    assert triggers.install(connection)
    assert f"{triggers.PREFIX}old" not in triggers.present(connection)


@pytest.mark.django_db(transaction=True)
def test_after_a_flush_the_generation_goes_on_above():
    Rule.objects.create(**RULE)
    before = Generation.objects.get().value
    call_command("flush", interactive=False, verbosity=0)
    row = Generation.objects.get()
    assert row.value == row.forgotten > before
    Rule.objects.create(**RULE)
    settle()
    assert Generation.objects.get().value == row.value + 1
    assert Change.objects.filter(generation__gt=row.value).count() == 1
