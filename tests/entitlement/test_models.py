"""A rule names exactly one holder and a pattern that can match, or says what is wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from entitlement.models import Rule


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
    with pytest.raises(ValidationError, match="has no user name"):
        Rule(anonymous=True, pattern="/inbox/{username}").full_clean()


def test_a_rule_in_words(db, bob):
    assert str(Rule(user=bob, pattern="/a/b", effect="deny")) == "deny user bob to subscribe /a/b"
