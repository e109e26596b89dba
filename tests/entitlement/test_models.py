"""A rule names exactly one holder and a pattern that can match, or says what is wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from entitlement.models import Rule
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_pattern
from tests.support.databases import unchecked


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("/stocks//IBM", "Empty segment (character 9): there is nothing between two slashes"),
        ("/stocks/IB*", "part of a segment cannot be matched. Write /stocks/* instead."),
    ],
)
def test_what_is_wrong_with_a_pattern(db, pattern, text):
    with pytest.raises(ValidationError) as caught:
        Rule(everyone=True, pattern=pattern).full_clean()
    assert text in caught.value.message_dict["pattern"][0]


@pytest.mark.parametrize("pattern", ["/a/b", "/stocks/**", "/*/**", "/inbox/{username}", "/*/b/*", "/__sys__/**"])
def test_patterns_that_are_well_formed(db, pattern):
    Rule(everyone=True, pattern=pattern).full_clean()


def test_who_must_be_one(db, bob, desk):
    for who in ({}, {"user": bob, "group": desk}, {"group": desk, "everyone": True}):
        with pytest.raises(ValidationError, match="Say who, once: choose a user or a group, or tick"):
            Rule(pattern="/a/b", **who).full_clean()
    for who in ({"user": bob}, {"group": desk}, {"everyone": True}, {"anonymous": True}):
        Rule(pattern="/a/b", **who).full_clean()


def test_the_database_refuses_what_passes_by_clean(db, bob, desk):
    for who in ({}, {"user": bob, "group": desk}, {"everyone": True, "anonymous": True}):
        with pytest.raises(IntegrityError, match="exactly_one_who"), transaction.atomic():
            Rule.objects.bulk_create([Rule(pattern="/a/b", **who)])


def test_validity_ends_after_it_begins(db):
    now = timezone.now()
    rule = Rule(everyone=True, pattern="/a/b", valid_from=now, valid_until=now - timedelta(seconds=1))
    with pytest.raises(ValidationError, match="would end before it begins"):
        rule.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        rule.save()


def test_rules_that_could_never_apply(db):
    with pytest.raises(ValidationError, match="can be read, never published to"):
        Rule(everyone=True, pattern="/__sys__/stats", action="both").full_clean()
    with pytest.raises(ValidationError, match="has no name and no id"):
        Rule(anonymous=True, pattern="/inbox/{username}").full_clean()
    with pytest.raises(ValidationError, match=r"\{user_id\} would match nothing"):
        Rule(anonymous=True, pattern="/inbox/{user_id}").full_clean()


def test_a_rule_in_words(db, bob):
    assert str(Rule(user=bob, pattern="/a/b", effect="deny")) == "deny user bob to subscribe /a/b"


PATTERNS = (
    "orders/**", "/ok/*", "/**", "/*", "/a", "/", "", "/a//b", "//a/b", "/a/b/", "/a/**/b", "/**/b", "/**/**",
    "/a/b*", "/a/**b", "/a/ü*", "/*/*", "/a/*/*/**", "/a/{username}/x", "/a/{user}/x", "/a/x{username}",
    "/a/{user_id}/x", "/{user_id}/a", "/a/{user_ids}/x", "/a/x{user_id}", "/user/{user_id}/x", "/a/user/{user_id}/x",
    "/user/{user_id}", "/user/x/{user_id}",
    "/a/{username}", "/{username}/{username}/*", "/a/{USERNAME}", "/A/B%C_", "/a/b\\", " /a/b", "/a/b ",
    "/" + "\u4fa1" * 400,
    "/" + "/".join("x" * 32), "/" + "/".join("x" * 33), "/a/" + "x" * 509, "/a/" + "x" * 510,
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_database_and_save_take_the_patterns_that_a_sidecar_can_read(db, pattern):
    try:
        check_pattern(pattern)
    except InvalidSubject:
        with pytest.raises(ValidationError):
            Rule.objects.create(everyone=True, pattern=pattern)
        with pytest.raises((IntegrityError, DataError)), transaction.atomic():
            Rule.objects.bulk_create([Rule(everyone=True, pattern=pattern)])
    else:
        Rule.objects.create(everyone=True, pattern=pattern)
        Rule.objects.bulk_create([Rule(everyone=True, pattern=pattern)])


FIXTURE = '[{"model": "entitlement.rule", "pk": 7, "fields": {"everyone": true, "pattern": "orders/**"}}]'


def _raw(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: Rule.objects.create(everyone=True, pattern="/a/b", action="read"),
        lambda path: Rule.objects.create(everyone=True, pattern="/a/b", effect="block"),
        lambda path: Rule.objects.bulk_create([Rule(everyone=True, pattern="/a/b", action="read")]),
        lambda path: Rule.objects.bulk_create([Rule(everyone=True, pattern="/a/b", effect="block")]),
        lambda path: Rule.objects.update(pattern="/orders/**/x"),
        lambda path: Rule.objects.update(action="", effect=""),
        lambda path: path.write_text(FIXTURE) and call_command("loaddata", str(path)),
        lambda path: _raw("UPDATE entitlement_rule SET pattern = 'ok/b'"),
    ],
    ids=["action", "effect", "many actions", "many effects", "update", "empty", "loaddata", "raw SQL"],
)
def test_whoever_writes_a_rule_that_cannot_be_read_is_refused(db, tmp_path, write):
    rule = Rule.objects.create(everyone=True, pattern="/ok/b")
    with pytest.raises((ValidationError, IntegrityError)), transaction.atomic():
        write(tmp_path / "rules.json")
    assert list(Rule.objects.values_list("pk", "pattern", "action")) == [(rule.pk, "/ok/b", "subscribe")]


def test_one_that_is_there_already_may_be_switched_off_corrected_and_deleted(db):
    with unchecked():
        Rule.objects.bulk_create([Rule(everyone=True, pattern="orders/**"), Rule(everyone=True, pattern="/a//b")])
    first, second = Rule.objects.order_by("pk")
    first.enabled = False
    first.save()
    with pytest.raises(IntegrityError, match="can_be_read"), transaction.atomic():
        Rule.objects.filter(pk=first.pk).update(enabled=True)
    Rule.objects.filter(pk=first.pk).update(enabled=True, pattern="/orders/**")
    second.delete()
    assert list(Rule.objects.values_list("pattern", "enabled")) == [("/orders/**", True)]
