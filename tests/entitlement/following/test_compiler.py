"""Rows in the database and the records that the sidecar gets for them (protocol.md 8.2, 8.3)."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore

from entitlement.following import compiler
from entitlement.models import Change, Generation, RevokedToken, Rule, SubjectOptions
from entitlement.sessions import session_id
from tests.support.databases import settle
from tests.support.entitlement.changes import empty_log


def _ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)


@pytest.fixture(autouse=True)
def nothing_noted(db: None) -> None:
    """Tests with transactions of their own may have left notes of users that are gone."""
    empty_log()


def _here() -> int:
    settle()
    at = compiler.position()
    assert at is not None
    return at.generation


def test_rules_in_wire_form(bob, desk):
    new_year = datetime(2026, 1, 1, tzinfo=UTC)
    soon = new_year + timedelta(microseconds=1)
    table = [
        (Rule(id=1, user=bob, pattern="/stocks/**"), {"who": f"user:{bob.pk}"}),
        (
            Rule(id=2, group=desk, pattern="/stocks/**", action="both"),
            {"who": f"group:{desk.pk}", "action": "both"},
        ),
        (Rule(id=3, everyone=True, pattern="/stocks/**", effect="deny"), {"who": "everyone", "allow": False}),
        (
            Rule(id=4, anonymous=True, pattern="/stocks/**", valid_from=new_year),
            {"who": "anonymous", "start": 1767225600000},
        ),
        (
            Rule(id=5, everyone=True, pattern="/stocks/**", valid_until=new_year),
            {"who": "everyone", "end": 1767225600000},
        ),
        (  # between two milliseconds a right is given for less long, and taken for longer
            Rule(id=6, everyone=True, pattern="/stocks/**", valid_from=soon, valid_until=soon + timedelta(seconds=1)),
            {"who": "everyone", "start": 1767225600001, "end": 1767225601000},
        ),
        (
            Rule(id=7, everyone=True, pattern="/stocks/**", effect="deny", valid_from=soon, valid_until=soon),
            {"who": "everyone", "allow": False, "start": 1767225600000, "end": 1767225600001},
        ),
    ]
    for rule, differs in table:
        expected = {
            "id": rule.pk,
            "who": "",
            "pattern": "/stocks/**",
            "action": "subscribe",
            "allow": True,
            "start": None,
            "end": None,
        } | differs
        assert compiler.rule_record(rule) == expected
        assert list(compiler.rule_record(rule)) == list(expected), "in the order of the protocol"


def test_full_set(bob, desk):
    settle()
    empty_log()
    kept = Rule.objects.create(group=desk, pattern="/a/b")
    Rule.objects.create(group=desk, pattern="/a/c", enabled=False)
    eve = User.objects.create_user("eve", is_superuser=True)
    eve.groups.add(desk)
    raised = _here()
    session = SessionStore()
    session.create()
    session.delete()
    records = compiler.full_set(_here())
    assert records.generation == raised + 1
    assert [rule["id"] for rule in records.rules] == [kept.pk]
    assert records.users == [
        {
            "uid": str(eve.pk),
            "user": "eve",
            "active": True,
            "superuser": True,
            "groups": [str(desk.pk)],
            "generation": raised,
        }
    ]
    sid = hashlib.sha256(session.session_key.encode()).hexdigest()[:32]
    [ended] = records.sessions
    assert (ended["sid"], ended["generation"]) == (sid, raised + 1)
    assert ended["until"] == pytest.approx(time.time() * 1000 + (30 * 24 + 1) * 3600_000, abs=60_000)


def test_difference(bob, desk):
    before = _here()
    assert compiler.difference(before, before) == compiler.Records(before)
    rule, off, gone = (Rule.objects.create(user=bob, pattern=f"/a/{name}") for name in "bcd")
    Rule.objects.filter(pk=off.pk).update(enabled=False)
    gone_id = gone.pk
    gone.delete()
    bob.groups.add(desk)
    bob.groups.add(Group.objects.create(name="NASDAQ desk"))
    User.objects.filter(pk=bob.pk).update(is_active=False)
    records = compiler.difference(before, _here())
    assert [rule["id"] for rule in records.rules] == [rule.pk]
    assert sorted(records.removed) == [off.pk, gone_id]
    [user] = records.users
    assert (user["active"], len(user["groups"]), user["generation"]) == (False, 2, _here())
    after = _here()
    uid = str(bob.pk)
    bob.delete()
    [gone] = compiler.difference(after, _here()).users
    assert after < gone.pop("generation") <= _here()
    assert gone == {"uid": uid, "user": "", "active": False, "superuser": False, "groups": []}


def test_a_changed_password_ends_the_tokens_of_before(bob):
    before = _here()
    bob.set_password("other")
    bob.save()
    changed = _here()
    for records in (compiler.full_set(changed), compiler.difference(before, changed)):
        [user] = records.users
        assert (user["active"], user["generation"], user["since"]) == (True, changed, changed)
    User.objects.filter(pk=bob.pk).update(is_superuser=True)
    [user] = compiler.difference(changed, _here()).users
    assert (user["generation"], user["since"]) == (_here(), changed), "what comes later does not forget it"
    empty_log(kind="password")
    [user] = compiler.difference(changed, _here()).users
    assert "since" not in user


def test_revoked_tokens_are_listed_with_the_sessions(db):
    empty_log()
    before = _here()
    RevokedToken.objects.create(jti="abc", expires=datetime(2100, 1, 1, tzinfo=UTC))
    for records in (compiler.full_set(_here()), compiler.difference(before, _here())):
        [revoked] = records.sessions
        assert (revoked["sid"], revoked["generation"]) == ("jti:abc", _here())
        assert revoked["until"] == pytest.approx(time.time() * 1000 + (30 * 24 + 1) * 3600_000, abs=60_000)


def test_revoked_tokens_are_forgotten_when_they_would_have_ended(db):
    for jti, hours in (("old", -1.5), ("new", -0.5)):
        RevokedToken.objects.create(jti=jti, expires=datetime.fromtimestamp(time.time() + hours * 3600, UTC))
    compiler.forget()
    assert [row.jti for row in RevokedToken.objects.all()] == ["new"]


def test_large_sets_come_in_chunks(bob, django_assert_max_num_queries):
    Rule.objects.bulk_create(Rule(user=bob, pattern=f"/a/{n}") for n in range(2500))
    User.objects.bulk_create(User(username=f"u{n}") for n in range(1200))
    here = _here()
    with django_assert_max_num_queries(20):
        records = compiler.full_set(here)
    assert records.largest() == 2500
    chunks = list(records.chunks())
    assert [len(chunk["rules"]) for chunk in chunks] == [1000, 1000, 500]
    assert sum(len(chunk["users"]) for chunk in chunks) == 1201
    assert {rule["pattern"] for chunk in chunks for rule in chunk["rules"]} == {f"/a/{n}" for n in range(2500)}


@pytest.mark.parametrize(
    ("kind", "hours", "kept"),
    [
        ("rule", 0.5, True),
        ("rule", 1.5, False),
        ("session", 30 * 24 + 0.5, True),
        ("session", 30 * 24 + 1.5, False),
        ("user", 30 * 24 + 0.5, True),
        ("user", 30 * 24 + 1.5, False),
        ("password", 30 * 24 + 0.5, True),
        ("password", 30 * 24 + 1.5, False),
        ("token", 30 * 24 + 0.5, True),
        ("token", 30 * 24 + 1.5, False),
    ],
)
def test_changes_are_remembered_as_long_as_the_longest_token_lives(db, kind, hours, kept):
    empty_log()
    at = _here()
    Change.objects.create(generation=at, kind=kind, key="1", time=_ago(hours * 3600))
    Change.objects.create(generation=at + 1, kind=kind, key="2", time=_ago(0))
    Generation.objects.update(value=at + 1, forgotten=0)
    assert compiler.forget() == (0 if kept else 1)
    assert set(Change.objects.values_list("key", flat=True)) == ({"1", "2"} if kept else {"2"})
    assert Generation.objects.get().forgotten == (0 if kept else at)


def test_lifetimes_come_from_the_settings(db, settings):
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECONDS": 60, "TOKEN_SECONDS_MAX": 120}
    empty_log()
    for key, seconds in (("1", 3600 + 100), ("2", 3600 + 130)):
        Change.objects.create(generation=1, kind="user", key=key, time=_ago(seconds))
        Change.objects.create(generation=1, kind="session", key=key, time=_ago(seconds))
    records = compiler.full_set(1)
    assert [user["uid"] for user in records.users] == ["1"]
    [session] = records.sessions
    assert session["sid"] == session_id("1"), "its tokens may have been made before TOKEN_SECONDS was lowered"
    assert session["until"] == pytest.approx(time.time() * 1000 + 3600_000 + 120_000, abs=60_000)
    compiler.forget()
    assert set(Change.objects.values_list("kind", "key")) == {("user", "1"), ("session", "1")}


def test_options_come_whole_when_one_of_them_has_changed(bob):
    """A pattern or a quality that no form has let in, and an interval that is none of the grid, do no harm."""
    wide = SubjectOptions.objects.create(pattern="/a/**", cache_messages=5, cache_seconds=2)
    before = _here()
    assert compiler.difference(before, before).options is None
    SubjectOptions.objects.bulk_create([SubjectOptions(pattern="a//b", cache_messages=1)])
    close = SubjectOptions.objects.create(pattern="/a/b", conflation_ms=250, retained=False, delivery="standard")
    SubjectOptions.objects.bulk_create([SubjectOptions(pattern="/a/c", delivery="late", publish_rate=2_000_000)])
    none = dict.fromkeys(
        ("cache_messages", "cache_ms", "conflation_ms", "retained", "delivery", "presence", "publish_rate")
    )
    wanted = [
        none | {"id": wide.pk, "pattern": "/a/**", "cache_messages": 5, "cache_ms": 2000},
        none | {"id": close.pk, "pattern": "/a/b", "conflation_ms": 200, "retained": False, "delivery": "standard"},
        none | {"id": SubjectOptions.objects.latest("id").pk, "pattern": "/a/c", "publish_rate": 1_000_000},
    ]
    changed = _here()
    assert compiler.difference(before, changed).options == wanted
    assert compiler.full_set(changed).options == wanted
    assert [chunk["options"] for chunk in compiler.full_set(changed).chunks()] == [wanted]
    Rule.objects.create(user=bob, pattern="/a/b")
    after = _here()
    assert compiler.difference(changed, after).options is None
    SubjectOptions.objects.all().delete()
    assert compiler.difference(after, _here()).options == []
