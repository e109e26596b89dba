"""The demonstration's data: complete, repeatable, and never in the way of what somebody changed."""

from __future__ import annotations

import io

from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from entitlement.models import Rule
from fastpath.core.matching.subscribed_patterns import covers
from realtime.demo.instruments import INSTRUMENTS, SENSORS, instrument, instruments, market
from realtime.demo.seed import MEMBERS, seed
from tests.support.entitlement.changes import changes


def test_seed_is_complete(db):
    seed()
    assert {user.username: (user.is_superuser, user.has_usable_password()) for user in User.objects.all()} == {
        "admin": (True, True),
        "alice": (False, True),
        "bob": (False, True),
        "spark": (False, False),
        "sensor": (False, True),
    }
    assert authenticate(username="alice", password="demo")
    assert {
        name: set(Group.objects.filter(user__username=name).values_list("name", flat=True)) for name in MEMBERS
    } == {"alice": {"NASDAQ desk", "NYSE desk"}, "bob": {"NYSE desk"}}
    assert len(INSTRUMENTS) == 20
    assert patterns(group__name="NASDAQ desk") == {
        *SENSORS,
        *(f"/*/us/{symbol}" for symbol in ("AAPL", "AMD", "MSFT", "PEP", "WMT")),
    }
    assert len(patterns(group__name="NYSE desk")) == 15 + 2
    assert patterns(user__username="sensor", action="publish") == set(SENSORS)
    assert patterns(user__username="spark", action="both") == {"/*/us/*"}
    assert patterns(user__username="spark", action="publish") == {"/__sys__/jobs/**"}
    assert Rule.objects.count() == 20 + 2 + 6
    for rule in Rule.objects.all():
        rule.full_clean()


def patterns(**of: str) -> set[str]:
    """Those of some rules."""
    return set(Rule.objects.filter(**of).values_list("pattern", flat=True))


def test_all_that_is_published_of_an_instrument_is_covered_by_its_rule(db):
    """Also what the Spark jobs and the board call it."""
    board = market()
    for each in instruments():
        symbol = each["symbol"]
        own = {each["subject"], *board["bars"][symbol].values()}
        own |= {board[kind].replace("*", symbol) for kind in ("movers", "alerts")}
        assert len(own) == 6
        for subject in own:
            assert covers(instrument(symbol), subject), subject
            assert not covers(instrument("OTHER"), subject)


def test_an_older_demonstration_gets_what_is_new_and_keeps_what_was_changed(db):
    """As `make run` finds it after an update: its rules for each kind are gone, but for those that somebody changed."""
    seed()
    Rule.objects.all().delete()
    groups = {name: Group.objects.get(name=f"{name} desk") for name in ("NASDAQ", "NYSE")}
    for symbol, _, exchange in INSTRUMENTS:
        for pattern, what in (
            (f"/stocks/us/{symbol}", "prices"), (f"/bars/us/{symbol}/*", "bars"), (f"/alerts/us/{symbol}", "alerts")
        ):  # fmt: skip
            Rule.objects.create(group=groups[exchange], pattern=pattern, note=f"{exchange} {what}")
    for group in groups.values():
        for side in ("gainers", "losers"):
            Rule.objects.create(group=group, pattern=f"/movers/us/{side}", note="movers of both exchanges")
    spark = User.objects.get(username="spark")
    for pattern in ("/stocks/**", "/bars/**", "/movers/**", "/alerts/**", "/__sys__/jobs/**"):
        Rule.objects.create(user=spark, pattern=pattern, action="publish", note="the Spark jobs")
    Rule.objects.filter(pattern="/stocks/us/AAPL").update(effect="deny")
    Rule.objects.filter(pattern="/alerts/us/GE").update(note="mine")
    Rule.objects.filter(pattern="/stocks/us/KO").update(enabled=False)
    mine = Rule.objects.create(group=groups["NYSE"], pattern="/news/**")
    assert seed() == ["25 rules"]
    kept = {"/stocks/us/AAPL", "/alerts/us/GE", "/stocks/us/KO", mine.pattern, "/__sys__/jobs/**"}
    assert {pattern for pattern in patterns() if not pattern.startswith("/*/us/")} == kept | set(SENSORS)
    assert not {"/*/us/AAPL", "/*/us/KO"} & patterns(), "no right to its price: none to what tells of its price"
    assert seed() == []


def test_a_second_seed_changes_nothing_that_was_changed(db):
    news = changes()
    assert seed()
    news()
    bob = User.objects.get(username="bob")
    bob.groups.clear()
    bob.set_password("own")
    bob.save()
    Rule.objects.filter(pattern="/*/us/AAPL").update(effect="deny")
    news()
    assert seed() == []
    assert news() == set()
    Rule.objects.filter(pattern="/*/us/AAPL").delete()
    assert seed() == ["1 rules"]


def test_the_command_says_what_it_made(db):
    first, again = io.StringIO(), io.StringIO()
    call_command("realtime_demo", stdout=first)
    call_command("realtime_demo", stdout=again)
    assert first.getvalue().startswith(
        "Created user admin, user alice, user bob, user spark, user sensor, group NASDAQ desk"
    )
    assert again.getvalue() == "The demonstration's data is there already.\n"
