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
    nasdaq = Rule.objects.filter(group__name="NASDAQ desk").values_list("pattern", flat=True)
    assert set(nasdaq) == {f"/stocks/us/{symbol}" for symbol in ("AAPL", "AMD", "MSFT", "PEP", "WMT")}
    assert Rule.objects.filter(group__name="NYSE desk", action="subscribe").count() == 15
    [feed] = Rule.objects.filter(action="publish")
    assert (feed.user.username, feed.pattern) == ("spark", "/stocks/**")
    for rule in Rule.objects.all():
        rule.full_clean()


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
