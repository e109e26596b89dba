"""The pages Preview and Explain: whose rules they show, in words, with a running sidecar and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from entitlement import conf
from entitlement.following import compiler
from entitlement.models import Rule
from entitlement.rules import preview
from entitlement.rules.explain import Decider, explain, person, rules_about, text
from fastpath.client.control.client import Control
from tests.support.databases import settle
from tests.support.entitlement.truth import create
from tests.support.sidecar import Sidecar

PREVIEW, EXPLAIN = "/admin/entitlement/rule/preview/", "/admin/entitlement/rule/explain/"


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """A sidecar with some subjects."""
    with Sidecar(mode="rules", token_secret=conf.token_secret()) as sidecar, Control(sidecar.control) as control:
        rows = [[f"/many/{number:03}", "x"] for number in range(120)]
        control.publish(
            [*rows, ["/many/last", "x"], ["/stocks/us/IBM", "1"], ["/stocks/us/GE", "1", None, {"retained": False}]]
        )
        yield sidecar


@pytest.fixture
def there(running: Sidecar, settings: Any) -> Sidecar:
    """The settings name it."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": running.control}
    return running


def _send(sidecar: Sidecar) -> None:
    at = compiler.position()
    assert at is not None
    with Control(sidecar.control) as control:
        control.rules_begin(at.generation)
        for chunk in compiler.full_set(at.generation).chunks():
            control.rules_chunk(**chunk)
        control.rules_commit(at.generation)


def test_every_rule_that_covers_it_and_its_part(bob: Any, desk: Group) -> None:
    """The most specific first; why it does not decide is said of each of the others."""
    bob.groups.add(desk)
    Group.objects.create(name="desk")
    rules = [
        create("user:bob deny subscribe /a/b"),
        create("everyone allow both /a/b"),
        create("user:bob allow subscribe /a/b off"),
        create("user:bob allow publish /a/b"),
        create("everyone allow subscribe /a/* until -60"),
        create("everyone allow subscribe /a/* from +60"),
        create("user:bob deny subscribe /a/**"),
        create("user:bob deny subscribe /a/b until +999999"),
        create("everyone allow subscribe /*/b"),
    ]
    for other in ("anonymous allow subscribe /a/b", "group:desk allow subscribe /a/b", "everyone allow subscribe /a/c"):
        create(other)
    explanation = explain(person(bob), "/a/b", "subscribe", ask=False)
    number = [rule.pk for rule in rules]
    assert explanation.verdict.rule == rules[7]  # of two denials the newer one is named
    assert explanation.sentence() == (
        f"bob may not subscribe /a/b: rule {number[7]} decides (deny user bob to subscribe /a/b)."
    )
    parts = [(line.rule, line.part) for line in explanation.lines]
    by = f"rule {number[7]}"
    assert [part for rule, part in parts if rule in rules[:4]] == [
        f"as specific as {by}: it says the same",
        "it is about publish (write)",
        "it is switched off",
        f"as specific as {by}: deny wins",
    ]
    assert [(rule, part[:9]) for rule, part in parts[5:7]] == [(rules[5], "it begins"), (rules[4], "it ended ")]
    assert parts[7:] == [
        (rules[6], f"less specific than {by}: ** in place of b"),
        (rules[8], f"less specific than {by}: * in place of a"),
    ]
    assert [line.decides for line in explanation.lines] == [True] + [False] * 8
    assert f" → rule {number[7]}: deny user bob to subscribe /a/b until " in "\n".join(text(explanation))


def test_superusers_and_who_was_deactivated(bob: Any) -> None:
    """For whom no rule counts."""
    create("everyone deny subscribe /a/b")
    bob.is_superuser = True
    bob.save()
    explanation = explain(person(bob), "/a/b", "subscribe", ask=False)
    assert explanation.sentence() == "bob may subscribe /a/b: active superusers may do everything."
    assert [line.part for line in explanation.lines] == ["it is not asked"]
    bob.is_active = False
    bob.save()
    assert "bob is not active: there is no token" in explain(person(bob), "/a/b", "subscribe", ask=False).sentence()


def test_rules_are_found_by_their_patterns(bob: Any, django_assert_num_queries: Any) -> None:
    """One query, that of the index, however many rules there are; all of the holder's for a very long subject."""
    Rule.objects.bulk_create([Rule(everyone=True, pattern=f"/a/{number}") for number in range(500)])
    who = person(bob)
    with django_assert_num_queries(1):
        assert [rule.pattern for rule in rules_about(who, ["/a/7", "/x/y"])] == ["/a/7"]
    assert len(rules_about(who, ["/a" * 20])) == 500
    assert not Decider(who, ["/a" * 20]).verdict("/a" * 20, "subscribe", 0).allowed


def test_preview_pages_filters_and_shows(there: Sidecar, bob: User, admin_client: Client) -> None:
    """Fifty a page; by pattern, by beginning, and only what may be read or not."""
    create("user:bob allow subscribe /many/*")
    create("everyone deny subscribe /many/007")
    rule = create("everyone allow both /stocks/**")
    _send(there)

    def look(**query: Any) -> Any:
        response = admin_client.get(PREVIEW, {"user": bob.pk, "subjects": "/many"} | query)
        assert response.status_code == 200
        return response.context

    first = look()["page"]
    assert (len(first.rows), first.total, first.readable, first.error, first.warning) == (50, 121, 49, "", "")
    second = look(after=first.after)
    assert [row.subject for row in second["page"].rows[:2]] == ["/many/050", "/many/051"]
    last = look(after="/many/119")["page"]
    assert ([row.subject for row in last.rows], last.after) == (["/many/last"], "")
    last = look(subjects="/stocks")["page"]
    assert [(row.subject, row.snapshot, row.read.rule) for row in last.rows] == [
        ("/stocks/us/GE", False, rule),
        ("/stocks/us/IBM", True, rule),
    ]
    assert [row.subject for row in look(show="denied")["page"].rows] == ["/many/007"]
    allowed = look(show="allowed")["page"]
    assert (len(allowed.rows), allowed.rows[-1].subject) == (50, "/many/050")
    assert look(show="allowed", after=allowed.after)["page"].rows[0].subject == "/many/051"
    assert look(subjects="/stocks/*/IBM")["page"].total == 1
    stocks = look(subjects="/stocks")["page"]
    assert ([row.publish.allowed for row in stocks.rows], stocks.total, stocks.snapshots) == ([True, True], 2, 1)
    assert "* must be a whole segment (character 5)" in str(look(subjects="/st/*x/**")["form"].errors)
    assert [row.read.allowed for row in look(user="", subjects="/many/00")["page"].rows] == [False] * 10


def test_preview_goes_on_where_it_stopped_looking(there: Sidecar, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that found little ends after some looks, and the next one begins there."""
    create("user:bob allow subscribe /many/last")
    _send(there)
    monkeypatch.setattr(preview, "LOOK", 10)
    page = preview.page(person(bob), "/many", preview.ALLOWED)
    assert (page.rows, page.looked, page.after) == ([], 50, "/many/049")
    page = preview.page(person(bob), "/many", preview.ALLOWED, "/many/109")
    assert ([row.subject for row in page.rows], page.after) == (["/many/last"], "")


def test_explain_page_and_what_it_says_of_the_sidecar(there: Sidecar, bob: User, admin_client: Client) -> None:
    """The same answer; that newer changes are on their way; and what is no subject."""
    _send(there)
    query = {"user": bob.pk, "subject": "/stocks/us/IBM", "action": "subscribe"}
    page = admin_client.get(EXPLAIN, query).content.decode()
    assert "✕ Denied" in page
    assert "The running sidecar says: <strong>denied</strong>, no rule allows it." in page
    create("everyone allow subscribe /stocks/**")
    settle()
    page = admin_client.get(EXPLAIN, query).content.decode()
    assert "✓ Allowed" in page
    assert "The newest changes have not arrived at the sidecar yet." in page
    page = admin_client.get(EXPLAIN, query | {"subject": "/stocks/**"}).content.decode()
    assert "One subject, please" in page
    page = admin_client.get(EXPLAIN, query | {"subject": "stocks"}).content.decode()
    assert "No leading slash (character 1)" in page


def test_without_a_sidecar(settings: Any, bob: User, admin_client: Client, tmp_path: Any) -> None:
    """The rules are explained all the same; there is nothing to preview."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    query = {"user": bob.pk, "subject": "/a/b", "action": "publish"}
    page = admin_client.get(EXPLAIN, query).content.decode()
    assert "✕ Denied" in page
    assert "No answer of the running sidecar: " in page
    assert "No subjects: " in admin_client.get(PREVIEW, {"user": bob.pk}).content.decode()


def test_a_sidecar_in_which_rules_do_not_decide(settings: Any, bob: User) -> None:
    """It is said."""
    with Sidecar(mode="none") as sidecar:
        settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
        assert "runs in mode none: there these rules do not decide" in preview.page(person(bob)).warning


def test_a_name_is_typed_by_who_may_not_look_at_users(bob: User, client: Client, settings: Any, tmp_path: Any) -> None:
    """In place of the search box."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    staff = User.objects.create_user("eve", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_rule"))
    client.force_login(staff)
    page = client.get(EXPLAIN, {"user": "bob", "subject": "/a/b", "action": "subscribe"}).content.decode()
    assert "bob may not subscribe /a/b" in page
    assert "admin-autocomplete" not in page
    page = client.get(EXPLAIN, {"user": "bib", "subject": "/a/b", "action": "subscribe"}).content.decode()
    assert "There is no user" in page
