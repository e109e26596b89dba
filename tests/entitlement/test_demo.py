"""The demonstration's data: complete, repeatable, and never in the way of what somebody changed."""

from __future__ import annotations

from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, User

from entitlement import demo
from entitlement.models import Rule


def test_seed_is_complete(db):
    demo.seed()
    assert {user.username: (user.is_superuser, user.has_usable_password()) for user in User.objects.all()} == {
        "admin": (True, True),
        "alice": (False, True),
        "bob": (False, True),
        "spark": (False, False),
    }
    assert authenticate(username="alice", password="demo")
    assert {
        name: set(Group.objects.filter(user__username=name).values_list("name", flat=True)) for name in demo.MEMBERS
    } == {"alice": {"NASDAQ desk", "NYSE desk"}, "bob": {"NYSE desk"}}
    assert len(demo.INSTRUMENTS) == 20
    movers = {"/movers/us/gainers", "/movers/us/losers"}
    assert patterns(group__name="NASDAQ desk", action="subscribe") == movers | {
        pattern
        for symbol in ("AAPL", "AMD", "MSFT", "PEP", "WMT")
        for pattern in (f"/stocks/us/{symbol}", f"/bars/us/{symbol}/*", f"/alerts/us/{symbol}")
    }
    assert len(patterns(group__name="NYSE desk", action="subscribe") - movers) == 15 * 3
    assert patterns(user__username="spark", action="subscribe") == {"/stocks/**", "/bars/**"}
    assert patterns(user__username="spark", action="publish") == {
        "/stocks/**", "/bars/**", "/movers/**", "/alerts/**", "/__sys__/jobs/**"
    }  # fmt: skip
    assert Rule.objects.count() == 20 * 3 + 2 * 2 + 7
    for rule in Rule.objects.all():
        rule.full_clean()


def patterns(**of: str) -> set[str]:
    """Those of some rules."""
    return set(Rule.objects.filter(**of).values_list("pattern", flat=True))


def test_an_older_demonstration_gets_what_is_new_and_keeps_what_was_changed(db):
    """As `make run` finds it after an update: prices only, one rule turned into its opposite."""
    demo.seed()
    Rule.objects.exclude(pattern__startswith="/stocks/").delete()
    Rule.objects.filter(user__username="spark", action="subscribe").delete()
    Rule.objects.filter(pattern="/stocks/us/AAPL").update(effect="deny", note="mine")
    kept = set(Rule.objects.values_list("pk", flat=True))
    assert demo.seed() == [f"{20 * 2 + 2 * 2 + 6} rules"]
    assert kept <= set(Rule.objects.values_list("pk", flat=True))
    assert Rule.objects.get(pattern="/stocks/us/AAPL").note == "mine"
    assert demo.seed() == []


def test_a_second_seed_changes_nothing_that_was_changed(news):
    assert demo.seed()
    news()
    bob = User.objects.get(username="bob")
    bob.groups.clear()
    bob.set_password("own")
    bob.save()
    Rule.objects.filter(pattern="/stocks/us/AAPL").update(effect="deny")
    news()
    assert demo.seed() == []
    assert news() == set()
    Rule.objects.filter(pattern="/stocks/us/AAPL").delete()
    assert demo.seed() == ["1 rules"]
