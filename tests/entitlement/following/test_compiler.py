"""Rows in the database and the records that the sidecar gets for them (protocol.md 8.2, 8.3)."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection

from entitlement.following import compiler
from entitlement.models import Change, Generation, RevokedToken, Rule, SubjectOptions
from entitlement.sessions import session_id
from fastpath.core.auth.rule_grants import OTHERS
from fastpath.core.broker.rights_records import Fault, read_records
from fastpath.core.protocol.options import OptionRow
from tests.support.databases import settle, unchecked
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
    """A quality that no form has let in, and an interval that is none of the grid, do no harm; a pattern is named."""
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
    found = read_records([], [], [], compiler.difference(before, changed).options)
    assert found.options == [OptionRow(**row) for row in wanted]
    assert list(found.faults.values()) == [("no leading slash", False)]
    [chunk] = compiler.full_set(changed).chunks()
    assert chunk["options"] == compiler.full_set(changed).options == compiler.difference(before, changed).options
    Rule.objects.create(user=bob, pattern="/a/b")
    after = _here()
    assert compiler.difference(changed, after).options is None
    SubjectOptions.objects.all().delete()
    assert compiler.difference(after, _here()).options == []


def _raw(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def _read(records):
    return read_records(records.rules, records.users, records.sessions, records.options)


def test_a_rule_that_django_or_a_sidecar_cannot_read_is_named_beside_all_others(bob):
    """In the whole set and in a difference: here of an effect that is none, and of a date that is none."""
    good = [Rule.objects.create(user=bob, pattern=f"/a/{number}") for number in range(3)]
    before = _here()
    bad = [Rule.objects.create(user=bob, pattern=f"/b/{number}") for number in range(3)]
    with unchecked():
        Rule.objects.filter(pk=bad[0].pk).update(effect="block")
        Rule.objects.filter(pk=bad[1].pk).update(pattern="b/1", effect="deny")
        if connection.vendor == "sqlite":
            _raw("UPDATE entitlement_rule SET valid_until = '2026-13-45 00:00:00' WHERE id = %s", bad[2].pk)
        elif connection.vendor == "postgresql":
            _raw("UPDATE entitlement_rule SET valid_until = 'infinity' WHERE id = %s", bad[2].pk)
        else:
            Rule.objects.filter(pk=bad[2].pk).update(action="")
    last = Rule.objects.create(user=bob, pattern="/a/last")
    for records, rules in ((compiler.full_set(_here()), [*good, last]), (compiler.difference(before, _here()), [last])):
        found = _read(records)
        assert sorted(rule.id for rule in found.rules) == [rule.pk for rule in rules]
        assert {place: fault.denies for place, fault in found.faults.items()} == {
            ("rule", bad[0].pk): True,
            ("rule", bad[1].pk): True,
            ("rule", bad[2].pk): False,
        }


if connection.vendor == "sqlite":  # the others store no such text

    @pytest.mark.parametrize(
        ("table", "column", "value", "place"),
        [
            ("entitlement_rule", "pattern", b"/\xff/a", "rule"),
            ("entitlement_subjectoptions", "conflation_ms", "soon", "options"),
            ("entitlement_subjectoptions", "pattern", b"/\xff/a", "options"),
            ("auth_user", "username", b"\xff", "user"),
            ("auth_user", "date_joined", "2026-13-45 00:00:00", "user"),
        ],
    )
    def test_values_that_only_sqlite_stores(bob, table, column, value, place):
        eve = User.objects.create_user("eve")
        Rule.objects.create(user=bob, pattern="/a/1")
        rule = Rule.objects.create(user=bob, pattern="/a/2")
        options = SubjectOptions.objects.create(pattern="/a/*", cache_messages=1)
        SubjectOptions.objects.create(pattern="/b/*", cache_messages=1)
        key = {"rule": rule.pk, "options": options.pk, "user": eve.pk}[place]
        with unchecked():
            _raw(f"UPDATE {table} SET {column} = CAST(%s AS TEXT) WHERE id = %s", value, key)  # noqa: S608
        found = _read(compiler.full_set(_here()))
        assert list(found.faults) == [(place, str(key) if place == "user" else key)]
        assert (len(found.rules), len(found.options)) == (2 - (place == "rule"), 2 - (place == "options"))
        assert {user.uid: user.active for user in found.users} == {str(bob.pk): True, str(eve.pk): place != "user"}


def test_keys_in_the_log_that_are_nobodys(bob):
    before = _here()
    rows = [("rule", "abc"), ("rule", "9" * 30), ("user", "abc"), ("user", "9" * 30), ("password", ""), ("session", "")]
    Change.objects.bulk_create([Change(generation=before, kind=kind, key=key, time=_ago(0)) for kind, key in rows])
    rule = Rule.objects.create(user=bob, pattern="/a/1")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    found = _read(compiler.difference(before - 1, _here()))
    assert [one.id for one in found.rules] == [rule.pk]
    assert [user.active for user in found.users if user.uid == str(bob.pk)] == [False]
    assert found.faults == {
        ("user", "abc"): Fault(found.faults["user", "abc"].reason, False),
    } | {place: fault for place, fault in found.faults.items() if place == ("user", "9" * 30)}


class Nameless(User):
    """A user whose name is none, as a nullable column of a project's own has it."""

    class Meta:
        proxy = True
        app_label = "auth"

    def get_username(self):
        """Nothing, a number, or no name at all."""
        if self.username == "broken":
            raise LookupError("the directory is away")
        return {"none": None, "number": 7}[self.username]


@pytest.mark.parametrize(("name", "sent"), [("none", ""), ("number", "7"), ("broken", None)])
def test_a_user_whose_name_is_no_text(bob, monkeypatch, name, sent):
    eve = User.objects.create_user(name)
    known = Nameless.get_username
    monkeypatch.setattr(User, "get_username", lambda self: self.username if self.pk == bob.pk else known(self))
    found = _read(compiler.full_set(_here()))
    users = {user.uid: (user.user, user.active) for user in found.users}
    assert users == {str(bob.pk): ("bob", True), str(eve.pk): ("", False) if sent is None else (sent, True)}
    assert list(found.faults) == ([("user", str(eve.pk))] if sent is None else [])


def test_of_a_database_that_began_anew_nobody_is_known():
    Change.objects.create(generation=5, kind="user", key=OTHERS, time=_ago(0))
    found = _read(compiler.full_set(_here()))
    assert [(user.uid, user.active, user.superuser, user.generation) for user in found.users] == [("", False, False, 5)]
    assert not found.faults


def test_many_changes_come_in_parts_and_single_ones_first(db, monkeypatch):
    """Each part has what is new of rules and the newest users; in the end nothing is left out."""
    monkeypatch.setattr(compiler, "CHUNK", 20)
    monkeypatch.setattr(compiler, "AHEAD", 5)
    User.objects.bulk_create(User(username=f"many{number}") for number in range(95))
    settle()
    users = {str(key) for key in User.objects.values_list("pk", flat=True)}
    after = ahead = _here()
    for key in users:  # one by one, so that each has its generation also where a statement has one
        User.objects.filter(pk=key).update(is_superuser=True)
        settle()
    rule = Rule.objects.create(everyone=True, pattern="/a/b")
    at = _here()
    part = compiler.next_difference(after, at, ahead)
    assert [one["id"] for one in part.rules] == [rule.pk]
    assert after < part.generation < at
    told = {user["uid"] for user in part.users}
    ann = User.objects.create_user("ann")
    parts = 1
    while part.generation < _here():
        assert part.largest() <= compiler.CHUNK
        after, ahead, at = part.generation, at, _here()
        part = compiler.next_difference(after, at, ahead)
        parts += 1
        if parts == 2:
            assert str(ann.pk) in {user["uid"] for user in part.users}
            assert not part.rules, "it was sent"
        told |= {user["uid"] for user in part.users}
    assert told == users | {str(ann.pk)}
    assert parts >= 95 // 20


def test_few_changes_come_whole(db):
    after = _here()
    rule = Rule.objects.create(everyone=True, pattern="/a/b")
    assert compiler.next_difference(after, _here(), after) == compiler.difference(after, _here())
    assert [one["id"] for one in compiler.next_difference(after, _here(), after).rules] == [rule.pk]
