"""Rules: the most specific pattern wins, deny wins a tie, validity bounds, against a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.auth import rules as rules_module
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import SPARE_MAX, SUBSCRIBE, Rule, RuleSet
from tests.support.core.rights import SECRET, mint

TABLE = [
    # rules as (pattern, allow); subject; whether it is allowed, None when nothing covers it
    ([], "/a/b", None),
    ([("/a/b", True)], "/a/b", True),
    ([("/a/b", True)], "/a/c", None),
    ([("/a/*", True)], "/a/c", True),
    ([("/a/*", True)], "/a/c/d", None),
    ([("/a/**", True)], "/a/c/d", True),
    ([("/a/**", True)], "/b/c", None),
    ([("/*/b", True)], "/x/b", True),
    ([("/**", True)], "/x/b", True),
    ([("/**", True), ("/*/**", False)], "/x/b", False),
    ([("/a/**", True), ("/a/b", False)], "/a/b", False),
    ([("/a/**", True), ("/a/b", False)], "/a/c", True),
    ([("/a/**", False), ("/a/*", True)], "/a/b", True),
    ([("/a/*/c", True), ("/a/b/**", False)], "/a/b/c", False),
    ([("/a/b", True), ("/a/b", False)], "/a/b", False),
    ([("/users/{username}", True)], "/users/ann", True),
    ([("/users/{username}", True)], "/users/bob", None),
    ([("/users/{username}/**", True), ("/users/**", False)], "/users/ann/x", True),
    ([("/users/{username}", True), ("/users/ann", False)], "/users/ann", False),
]


def rules(*entries: tuple[str, bool], who: str = "user:1") -> RuleSet:
    """A set of rules for one holder."""
    found = RuleSet()
    for number, (pattern, allow) in enumerate(entries):
        found.put(Rule(number, who, pattern, "both", allow))
    return found


def verdict(found: RuleSet, subject: str, holders: tuple[str, ...] = ("user:1",), now: int = 0) -> bool | None:
    """Allowed, denied, or not covered."""
    rule = found.decide(holders, "ann", subject, "subscribe", now)
    return None if rule is None else rule.allow


@pytest.mark.parametrize(("entries", "subject", "expected"), TABLE)
def test_table(entries: list, subject: str, expected: bool | None) -> None:
    """The semantics, case by case."""
    assert verdict(rules(*entries), subject) is expected
    assert verdict(rules(*reversed(entries)), subject) is expected


def test_holders_are_equal_and_deny_wins_between_them() -> None:
    """A user's own rule is not stronger than a group's: only the pattern counts."""
    found = RuleSet()
    found.put(Rule(1, "user:1", "/a/b", "both", True))
    found.put(Rule(2, "group:3", "/a/b", "both", False))
    assert verdict(found, "/a/b", ("user:1",)) is True
    assert verdict(found, "/a/b", ("user:1", "group:3", "everyone")) is False


def test_actions_are_apart() -> None:
    """A right to read is no right to publish."""
    found = RuleSet()
    found.put(Rule(1, "everyone", "/a/b", "subscribe", True))
    assert found.decide(("everyone",), "", "/a/b", "publish", 0) is None
    assert found.decide(("everyone",), "", "/a/b", "subscribe", 0) is not None


def test_validity_begins_and_ends() -> None:
    """In force from ``start`` up to but not at ``end``."""
    found = RuleSet()
    found.put(Rule(1, "user:1", "/a/b", "both", True, 100, 200))
    assert [verdict(found, "/a/b", now=now) for now in (99, 100, 199, 200)] == [None, True, True, None]


def test_beginnings_and_ends_are_told_once() -> None:
    """To the tick that they fall into; those of rules that are gone or replaced are not told."""
    found = RuleSet()
    found.put(Rule(1, "user:1", "/a/b", "both", True, 100, 200))
    found.put(Rule(2, "user:2", "/a/b", "both", True, 100))
    found.put(Rule(3, "user:3", "/a/b", "both", True, None, 150))
    found.put(Rule(4, "user:4", "/a/b", "both", True))
    found.put(Rule(3, "user:3", "/a/b", "both", True, None, 180))
    assert [found.due(now) for now in (99, 100, 101, 150)] == [set(), {"user:1", "user:2"}, set(), set()]
    found.remove(1)
    assert [found.due(now) for now in (190, 300)] == [{"user:3"}, set()]


def test_a_full_set_tells_what_comes_after_it() -> None:
    """What began before the set took force is no news."""
    found = RuleSet()
    found.put(Rule(1, "user:1", "/a/b", "both", True, 100, 200))
    found.begin(150)
    assert [found.due(now) for now in (150, 199, 200)] == [set(), set(), {"user:1"}]


def test_a_clock_that_is_set_back_ends_rules_again() -> None:
    """What has been told is told again: a subscription that began meanwhile must end as well."""
    found = RuleSet()
    found.put(Rule(1, "user:1", "/a/b", "both", True, None, 200))
    assert found.due(250) == {"user:1"}
    assert found.due(150) == {"user:1"}
    assert found.due(260) == {"user:1"}


def test_many_moments_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A market opens: so many are told in one call, the rest in the next ones; what is past is no news."""
    monkeypatch.setattr(rules_module, "DUE_MAX", 10)
    found = RuleSet()
    for number in range(25):
        found.put(Rule(number, f"user:{number}", "/a/b", "both", True, 1000, 2000 + number % 2))
    found.begin(500)
    for moments in ((1000, 1001, 1002, 1003), (2001, 2002, 2003, 2004)):
        told = [found.due(now) for now in moments]
        assert max(map(len, told)) <= 10
        assert told[-1] == set()
        assert sorted(holder for some in told for holder in some) == sorted(f"user:{number}" for number in range(25))
    found.begin(900)  # the clock was set back, and a full set came
    for number in range(25):
        found.put(Rule(number, f"user:{number}", "/a/b", "both", True, 1000))
    found.begin(3000)
    assert found.due(3000) == set()


def test_replacing_timed_rules_does_not_pile_up() -> None:
    """The moments of rules that have been replaced are forgotten."""
    found = RuleSet()
    for number in range(SPARE_MAX * 3):
        found.put(Rule(1, "user:1", "/a/b", "both", True, 1000 + number))
    assert len(found._moments) == len(found._whose) <= SPARE_MAX + 4
    assert found.due(1000 + SPARE_MAX * 3) == {"user:1"}


def test_the_newest_of_several_denials_is_named() -> None:
    """So that all workers and the admin name the same rule."""
    found = rules(("/a/b", False), ("/a/b", True), ("/a/b", False), ("/a/b", True))
    rule = found.decide(("user:1",), "ann", "/a/b", "subscribe", 0)
    assert rule is not None
    assert rule.id == 2


def test_covering_is_in_the_order_of_decision() -> None:
    """Also rules that are not in force, and of the other action."""
    found = rules(("/a/**", True), ("/a/b", True), ("/*/b", False), ("/a/b", False), ("/a/c", True))
    found.put(Rule(9, "everyone", "/{username}/*", "publish", True, 5, 6))
    assert [rule.id for rule in found.covering(("user:1", "everyone"), "a", "/a/b")] == [3, 1, 9, 0, 2]
    assert [rule.id for rule in found.covering(("user:1", "everyone"), "ann", "/a/b")] == [3, 1, 0, 2]


def test_replacing_and_removing_tell_who_is_concerned() -> None:
    """Both the old holder and the new one."""
    found = rules(("/a/b", True), ("/a/{username}", True))
    assert (set(found.holders), found.names) == ({"user:1"}, 1)
    found.remove(1)
    assert found.names == 0
    assert found.put(Rule(0, "group:2", "/a/c", "both", True)) == {"user:1", "group:2"}
    assert verdict(found, "/a/b") is None
    assert found.remove(0) == {"group:2"}
    assert found.remove(0) == set()
    assert not found.rules


SEGMENT = st.sampled_from(["a", "b", "ann"])
PATTERN = st.lists(st.sampled_from(["a", "b", "*", "{username}"]), min_size=2, max_size=4).flatmap(
    lambda parts: st.sampled_from([parts, [*parts, "**"]])
)


def covers(pattern: list[str], segments: list[str]) -> list[int] | None:
    """The model: the specificity of a match, segment by segment, or None."""
    found = []
    for number, part in enumerate(pattern):
        if part == "**":
            return [*found, 0] if len(segments) > number else None
        if number >= len(segments):
            return None
        if part == segments[number] or (part == "{username}" and segments[number] == "ann"):
            found.append(2)
        elif part == "*":
            found.append(1)
        else:
            return None
    return found if len(segments) == len(pattern) else None


@given(st.lists(st.tuples(PATTERN, st.booleans()), max_size=8), st.lists(SEGMENT, min_size=2, max_size=5))
def test_it_agrees_with_the_model(entries: list, segments: list) -> None:
    """Any rules, any subject; and the same after every rule was put in and out again."""
    found = rules(*(("/" + "/".join(pattern), allow) for pattern, allow in entries))
    matches = [(covers(pattern, segments), not allow) for pattern, allow in entries]
    best = max((match for match in matches if match[0] is not None), default=None)
    subject = "/" + "/".join(segments)
    assert verdict(found, subject) is (None if best is None else not best[1])
    first = next(iter(found.covering(("user:1",), "ann", subject)), None)
    assert (None if first is None else first.allow) is verdict(found, subject)
    for number in list(found.rules):
        found.remove(number)
    assert verdict(found, subject) is None
    assert not found._roots


@pytest.mark.parametrize("name", ["", "a/b", "*", "**", "x\x00"])
@pytest.mark.parametrize("text", ["{username}", "{user_id}"])
def test_a_name_that_no_segment_can_be_allows_nothing_and_denies_everything(name: str, text: str) -> None:
    """Neither does it widen a right, nor is a deny lost by it."""
    names = {"user": name, "uid": "1"} if text == "{username}" else {"user": "ann", "uid": name}
    asked = {"holders": ["user:1"], "action": "subscribe", "now": 0} | names
    for pattern, subject in (("/a/?", "/a/b"), ("/a/?/**", "/a/b/c"), ("/?/?", "/a/b"), ("/*/?/x", "/a/b/x")):
        named = pattern.replace("?", text)
        assert rules((named, True)).decide(subject=subject, **asked) is None
        assert rules(("/**", False), (named, True)).decide(subject=subject, **asked).id == 0
        assert rules(("/**", True), (named, False)).decide(subject=subject, **asked).id == 1


def test_ids_that_share_rules_share_no_cohort() -> None:
    """Two who differ by their ids alone have different keys, once a rule has an id in its pattern."""
    grants = RuleGrants(SECRET)
    for pattern, same in (("/a/*", True), ("/a/{user_id}", False)):
        whole = RuleSet()
        whole.put(Rule(1, "everyone", pattern, SUBSCRIBE, True))
        grants.replace(whole, {}, {}, 1, 0)
        one, other = (grants.principal(mint("ann", uid), 0) for uid in ("1", "2"))
        assert (grants.rights_key(one) == grants.rights_key(other)) is same
        proxy = grants.rights_proxy(one)
        assert [grants.check(proxy, SUBSCRIBE, f"/a/{uid}", 0) == "" for uid in "12"] == [True, same]
