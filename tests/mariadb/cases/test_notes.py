"""Notes of changes: nobody waits to write one, and each has a generation once somebody asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.utils import timezone

from entitlement import tokens
from entitlement.following import compiler, mariadb, numbering
from entitlement.models import Change, Generation, RevokedToken, Rule
from tests.support.entitlement.changes import age_log
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

RULE = {"everyone": True, "pattern": "/a/b"}


@contextmanager
def thread() -> Iterator[Callable[..., Future[Any]]]:
    """Another connection: runs functions one after the other, in the transaction of that thread."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit
        finally:
            pool.submit(connections.close_all).result(PATIENCE_SECONDS)


def _at() -> compiler.Position:
    found = compiler.position()
    assert found is not None
    return found


def _noted(after: compiler.Position) -> set[tuple[str, str]]:
    return set(Change.objects.filter(generation__gt=after.generation).values_list("kind", "key"))


def test_nobody_waits_for_a_transaction_that_is_open() -> None:
    """Neither who changes another right, nor who asks for the generation, and what is committed is told."""
    before = _at()
    with thread() as other:
        with transaction.atomic():
            mine = Rule.objects.create(**RULE)
            theirs = other(lambda: Rule.objects.create(**RULE)).result(PATIENCE_SECONDS)
            assert other(_at).result(PATIENCE_SECONDS).generation == before.generation + 1
            assert other(_noted, before).result(PATIENCE_SECONDS) == {("rule", str(theirs.pk))}
        after = other(_at).result(PATIENCE_SECONDS)
        assert after.generation == before.generation + 2
        assert other(_noted, before).result(PATIENCE_SECONDS) == {("rule", str(theirs.pk)), ("rule", str(mine.pk))}


def test_what_is_old_is_deleted_beside_open_transactions() -> None:
    """Nobody waits for their notes, though the table is looked through."""
    long_ago = timezone.now() - timedelta(days=400)
    for number in range(5):
        RevokedToken.objects.create(jti=f"old {number}", expires=long_ago)
    age_log(kind=Change.Kind.TOKEN)
    before = _at()
    with thread() as other:
        with transaction.atomic():
            Rule.objects.create(**RULE)
            RevokedToken.objects.create(jti="new", expires=long_ago)
            assert other(compiler.forget).result(PATIENCE_SECONDS) == 5
            assert other(_at).result(PATIENCE_SECONDS).generation == before.generation
        assert [*RevokedToken.objects.values_list("jti", flat=True)] == ["new"]
    assert _noted_now(before) == {("rule", str(Rule.objects.get().pk)), ("token", "new")}


def test_who_asks_in_a_transaction_locks_nothing() -> None:
    """And what is noted already ends the tokens that it gets."""
    bob = User.objects.create_user("bob")
    _at()
    with thread() as other:
        other(User.objects.filter(pk=bob.pk).update, password="!").result(PATIENCE_SECONDS)
        with transaction.atomic():
            token = tokens.mint(bob)[0]
            with pytest.raises(tokens.TokenRefused):
                tokens.bearer(token)
            other(_at).result(PATIENCE_SECONDS)
    assert tokens.bearer(tokens.mint(bob)[0]) == bob


def test_a_note_counts_before_it_has_a_generation() -> None:
    bob = User.objects.create_user("bob")
    token = tokens.mint(bob)[0]
    assert tokens.bearer(token) == bob
    User.objects.update(password="!")
    assert Change.objects.filter(generation=Change.PENDING).exists()
    with pytest.raises(tokens.TokenRefused):
        tokens.bearer(token)


def test_many_ask_at_once() -> None:
    """Each note is numbered once, all of a transaction with the same number, and no reader finds one later below it."""
    before = _at()
    stop = threading.Event()

    def write(number: int) -> None:
        try:
            for _ in range(20):
                with transaction.atomic():
                    Rule.objects.create(**RULE)
                    Rule.objects.create(**RULE)
        finally:
            connections.close_all()

    def read() -> None:
        try:
            while not stop.is_set():
                at = _at()
                told = set(Change.objects.filter(generation__range=(1, at.generation)).values_list("id", flat=True))
                seen.append((at.generation, told))
        finally:
            connections.close_all()

    seen: list[tuple[int, set[int]]] = []
    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for done in [pool.submit(write, number) for number in range(3)]:
            done.result(60)
        stop.set()
        for reader in readers:
            reader.result(60)
    at = _at()
    notes = list(Change.objects.filter(generation__gt=before.generation).values_list("id", "generation"))
    assert len(notes) == 3 * 20 * 2
    assert at.generation == max(generation for _, generation in notes) == Generation.objects.get().value
    for generation, told in seen:
        assert {number for number, own in notes if own <= generation} <= told


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few notes are many."""
    monkeypatch.setattr(numbering, "SLICE", 10)


def _many_users(number: int = 95, **values: object) -> set[tuple[str, str]]:
    if values:
        User.objects.filter(username__startswith="many").update(**values)
    else:
        User.objects.bulk_create(User(username=f"many{one}") for one in range(number))
    keys = User.objects.filter(username__startswith="many").values_list("pk", flat=True)
    return {("user", str(key)) for key in keys}


@pytest.mark.usefixtures("short")
def test_notes_of_many_rows_let_others_go_first() -> None:
    """Also who began before, and commits after them; and nothing is left out in the end."""
    bob = User.objects.create_user("bob")
    _settled()
    before = _at()
    with thread() as late, thread() as many, thread() as single:
        late(transaction.set_autocommit, False).result(10)
        mine = late(lambda: Rule.objects.create(**RULE)).result(10)
        theirs = many(_many_users).result(10)
        single(User.objects.filter(pk=bob.pk).update, is_active=False).result(10)
        assert _at().has_more
        assert ("user", str(bob.pk)) in _noted(before)
        assert len(_noted(before) & theirs) < len(theirs) / 2
        late(transaction.commit).result(10)
        assert _at().has_more
        assert ("rule", str(mine.pk)) in _noted(before)
        assert len(_noted(before) & theirs) < len(theirs) / 2
        turns = _settled()
        assert _noted(before) == {("user", str(bob.pk)), ("rule", str(mine.pk)), *theirs}
        assert turns >= len(theirs) // numbering.SLICE - 3


@pytest.mark.usefixtures("short")
def test_a_rule_that_comes_with_many_changes_is_not_before_them() -> None:
    """It may give a right to a group that some of the users have left by the same transaction."""
    _many_users()
    _settled()
    before = _at()
    with transaction.atomic():
        rule = Rule.objects.create(**RULE)
        theirs = _many_users(is_superuser=True)
    while _at().has_more:
        assert ("rule", str(rule.pk)) not in _noted(before) or theirs <= _noted(before)
    assert _noted(before) == {("rule", str(rule.pk)), *theirs}


@pytest.mark.usefixtures("short")
def test_rules_of_one_transaction_are_in_force_together() -> None:
    _settled()
    before = _at()
    Rule.objects.bulk_create(Rule(**RULE) for _ in range(35))
    at = _at()
    assert (at.generation, len(_noted(before))) == (before.generation + 1, 35)


@pytest.mark.usefixtures("short")
def test_of_each_key_the_last_note_stays() -> None:
    """However often all users change."""
    theirs = _many_users()
    for number in range(3):
        before = _at()
        _many_users(is_superuser=number % 2 == 0)
        _settled()
        assert _noted(before) >= theirs
    kept = Change.objects.filter(generation__gt=Change.PENDING, kind="user", key__in=[key for _, key in theirs])
    assert sorted(kept.values_list("kind", "key")) == sorted(theirs)
    bob = User.objects.create_user("bob")
    with transaction.atomic():
        for active in (False, True, False):
            User.objects.filter(pk=bob.pk).update(is_active=active)
    _settled()
    assert Change.objects.filter(generation__gt=Change.PENDING, kind="user", key=str(bob.pk)).count() == 1


def _settled() -> int:
    """After so many turns everything is numbered."""
    turns = 1
    while _at().has_more:
        turns += 1
    return turns


def test_what_differs_only_in_case_is_another() -> None:
    expires = timezone.now() + timedelta(hours=1)
    before = _at()
    for jti in ("abc", "ABC"):
        RevokedToken.objects.create(jti=jti, expires=expires)
    Rule.objects.create(everyone=True, pattern="/a/Bc")
    assert {key for kind, key in _noted_now(before) if kind == "token"} == {"abc", "ABC"}
    sent = compiler.difference(before.generation, _at().generation)
    assert {record["sid"] for record in sent.sessions} == {"jti:abc", "jti:ABC"}
    assert not Rule.objects.filter(pattern="/a/bC").exists()
    bob = User.objects.create_user("bob")
    before = _at()
    User.objects.filter(pk=bob.pk).update(username="BOB")
    assert _noted_now(before) == {("user", str(bob.pk))}


def _noted_now(before: compiler.Position) -> set[tuple[str, str]]:
    _at()
    return _noted(before)


@pytest.mark.parametrize("statement", ["REPLACE INTO", "INSERT INTO"])
def test_rows_that_replace_others(statement: str) -> None:
    rule = Rule.objects.create(**RULE)
    before = _at()
    end = "ON DUPLICATE KEY UPDATE note = 'x'" if statement == "INSERT INTO" else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"{statement} entitlement_rule (id, everyone, anonymous, pattern, action, effect, enabled, note) "
            f"VALUES (%s, 1, 0, '/a/b', 'subscribe', 'deny', 1, '') {end}",
            [rule.pk],
        )
    assert _noted_now(before) == {("rule", str(rule.pk))}


def test_old_revoked_tokens_go_like_old_changes() -> None:
    """So many at once, and it is said whether there may be more."""
    long_ago = timezone.now() - timedelta(days=400)
    RevokedToken.objects.bulk_create(
        RevokedToken(jti=f"old {number}", expires=long_ago) for number in range(mariadb.AT_ONCE + 1)
    )
    assert [compiler.forget(), RevokedToken.objects.count()] == [mariadb.AT_ONCE, 1]
    assert [compiler.forget(), RevokedToken.objects.count()] == [1, 0]
