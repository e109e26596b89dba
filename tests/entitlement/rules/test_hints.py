"""After a rule was saved the admin says which other rules decide in its place."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from entitlement.models import Rule
from entitlement.rules.hints import hints
from tests.support.entitlement.truth import create

CASES = [
    # the rules that are there, the new one, how the only hint begins after "Rule 1"
    ("everyone allow subscribe /a/b", "everyone allow subscribe /a/b", "already decides this: it says the same ("),
    ("everyone allow both /a/b", "user:bob allow publish /a/b", "already decides this: it says the same ("),
    ("everyone deny subscribe /a/b", "user:bob allow subscribe /a/b", "already decides this (deny everyone"),
    ("group:desk deny both /a/b", "user:bob allow subscribe /a/b", "(deny group desk to both /a/b) decides where"),
    ("everyone allow subscribe /a/**", "group:desk allow subscribe /a/*/c", "already decides this: it says the same,"),
    ("everyone allow subscribe /**", "user:bob allow subscribe /a/{user_id}", "already decides this: it says the"),
    ("everyone allow subscribe /**", "user:bob allow subscribe /a/{username}", "already decides this: it says the"),
]

SILENT = [
    ("user:bob allow subscribe /a/b", "everyone allow subscribe /a/b"),
    ("everyone allow publish /a/b", "everyone allow subscribe /a/b"),
    ("everyone deny publish /a/b", "everyone allow subscribe /a/b"),
    ("everyone allow subscribe /a/** until +60", "everyone allow subscribe /a/b"),
    ("everyone allow subscribe /a/** until -60", "everyone allow subscribe /a/b"),
    ("everyone allow subscribe /a/** off", "everyone allow subscribe /a/b"),
    ("anonymous allow subscribe /a/**", "user:bob allow subscribe /a/b"),
    ("everyone allow subscribe /a/b", "everyone allow subscribe /a/**"),
    ("everyone allow subscribe /a/**", "everyone deny subscribe /a/b"),
    ("everyone allow subscribe /a/b", "everyone deny subscribe /a/b off"),
]


@pytest.fixture
def people(bob: Any) -> None:
    """The holders of the cases."""
    Group.objects.create(name="desk")


@pytest.mark.parametrize(("there", "new", "begins"), CASES)
def test_another_rule_decides(people: None, there: str, new: str, begins: str) -> None:
    """Named with its number."""
    other = create(there)
    [text] = hints(create(new))
    assert text.startswith(f"Rule {other.pk} {begins}")


@pytest.mark.parametrize(("there", "new"), SILENT)
def test_no_other_rule_decides(people: None, there: str, new: str) -> None:
    """Nothing is said."""
    create(there)
    assert hints(create(new)) == []


def test_a_denial_wins_over_what_is_there(people: None) -> None:
    """It is said, for a tie is easily overlooked."""
    other = create("user:bob allow subscribe /a/b")
    assert hints(create("everyone deny subscribe /a/b")) == [
        f"This rule wins over rule {other.pk} (allow user bob to subscribe /a/b): between equals, deny wins."
    ]


def test_a_rule_between_the_two_makes_the_new_one_count(people: None) -> None:
    """Without it the one between would decide about some subject."""
    create("everyone allow subscribe /a/**")
    create("group:desk deny subscribe /a/*/c")
    assert hints(create("everyone allow subscribe /a/b/*")) == []
    assert len(hints(create("everyone allow subscribe /a/b/d"))) == 1


def test_the_admin_says_it(people: None, admin_client: Any) -> None:
    """As a message, after saving."""
    other = create("everyone allow subscribe /a/**")
    data = {"pattern": "/a/b", "action": "subscribe", "effect": "allow", "enabled": "on", "everyone": "on"}
    page = admin_client.post("/admin/entitlement/rule/add/", data, follow=True).content.decode()
    assert f"Rule {other.pk} already decides this" in page
    assert Rule.objects.count() == 2
