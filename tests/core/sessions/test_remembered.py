"""Who was let in is known to another process, and has no right there that he would not get by coming himself."""

from __future__ import annotations

import pytest

from fastpath.core.auth.basic_grants import BasicGrants
from fastpath.core.auth.grants import Grants
from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.rule_grants import RuleGrants, RuleUser
from fastpath.core.auth.rules import PUBLISH, Rule, RuleSet
from fastpath.core.protocol.errors import Refused
from fastpath.core.sessions.remembered import Remembered, recall, remember
from tests.support.tokens import SECRET, mint

NOW = 1_000_000_000_000


def again(grants: Grants, other: Grants, token: str) -> Remembered:
    """Who comes with the token, remembered by one process for another."""
    remembered = remember(grants, grants.principal(token, NOW))
    assert SECRET not in str(remembered)
    assert token not in str(remembered) or not token
    recall(other, remembered)
    return remembered


def test_rights_are_those_that_count_now() -> None:
    before, after = RuleGrants(SECRET), RuleGrants(SECRET)
    remembered = again(before, after, mint("ann", groups=["staff"], generation=1))
    rules = RuleSet()
    rules.put(Rule(1, "group:staff", "/a", PUBLISH, True))
    after.replace(rules, {}, {}, 2, NOW)
    principal = after.refreshed(recall(after, remembered))
    assert (principal.user, after.check(principal, PUBLISH, "/a", NOW)) == ("ann", "")
    after.apply([], [], [RuleUser("ann", "ann", True, False, [], 3)], [], 3, NOW)
    assert after.check(after.refreshed(recall(after, remembered)), PUBLISH, "/a", NOW)
    after.apply([], [], [RuleUser("ann", "ann", False, False, [], 4)], [], 4, NOW)
    with pytest.raises(Refused):
        after.refreshed(recall(after, remembered))


def test_a_key_that_does_not_count_any_more_brings_nobody_back() -> None:
    remembered = again(RuleGrants(SECRET), RuleGrants(Keys(SECRET)), mint("ann"))
    for grants in (RuleGrants("x" * 40), JwtGrants(SECRET), Grants()):
        with pytest.raises(Refused):
            recall(grants, remembered)


def test_modes_without_tokens() -> None:
    everybody = recall(Grants(), again(Grants(), Grants(), ""))
    assert Grants().check(everybody, PUBLISH, "/a", NOW) == ""
    basic = BasicGrants("publish")
    for token, may in (("publish", True), ("", False)):
        principal = recall(basic, again(basic, BasicGrants("publish"), token))
        assert (not basic.check(principal, PUBLISH, "/a", NOW)) is may
    anonymous = recall(RuleGrants(SECRET), again(RuleGrants(SECRET), RuleGrants(SECRET), ""))
    assert anonymous.holders == ("anonymous", "everyone")
    with pytest.raises(Refused):  # in mode none he was allowed everything
        recall(basic, remember(Grants(), Grants().principal("", NOW)))
