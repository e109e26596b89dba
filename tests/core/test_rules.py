"""Rules: the most specific pattern wins, deny wins a tie, validity bounds, against a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.rules import Rule, RuleSet

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
    match = found.decide(holders, "ann", subject, "subscribe", now)
    return None if match is None else not match.denies


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
    assert found.next_change(0) == 100
    assert found.next_change(100) == 200
    assert found.next_change(200) is None
    assert found.changed_between(99, 100) == {"user:1"}
    assert found.changed_between(100, 199) == set()


def test_replacing_and_removing_tell_who_is_concerned() -> None:
    """Both the old holder and the new one."""
    found = rules(("/a/b", True))
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
    for number in list(found.rules):
        found.remove(number)
    assert verdict(found, subject) is None
    assert not found._roots
