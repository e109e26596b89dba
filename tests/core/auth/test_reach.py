"""How much of a pattern may be read: as if every subject that it covers had been asked about."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.auth.basic_grants import BasicGrants
from fastpath.core.auth.grants import DENIED, PARTIAL, SAMPLES_MAX, Grants
from fastpath.core.auth.hook_grants import CustomGrants
from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import SUBSCRIBE, Rule, RuleSet
from fastpath.core.matching.subscribed_patterns import covers
from tests.support.core.rights import SECRET, mint

NOW = 1_700_000_000_000
NAMES = ("a", "b", "ann", "user")
SEGMENTS = (*NAMES, "z", "__sys__", "presence")
SUBJECTS = ["/" + "/".join(parts) for length in range(2, 5) for parts in product(SEGMENTS, repeat=length)]
PRESENCES = ["/__sys__/presence" + subject for subject in SUBJECTS]
ENDS = st.sampled_from(["", "/*", "/**", "/a", "/ann"])
WANTED = st.builds(
    lambda first, middle, end: "/" + "/".join([first, *middle]) + end,
    st.sampled_from([*NAMES, "*", "__sys__", "__sys__/presence"]),
    st.lists(st.sampled_from([*NAMES, "*"]), max_size=1),
    st.sampled_from(["/*", "/**"]),
) | st.just("/**")
PATTERNS = st.builds(
    lambda first, middle, end: "/" + "/".join([first, *middle]) + end,
    st.sampled_from([*NAMES, "*", "__sys__", "{username}"]),
    st.lists(st.sampled_from([*NAMES, "*", "{username}"]), min_size=1, max_size=2),
    ENDS,
) | st.just("/**")
RULES = st.lists(
    st.tuples(
        PATTERNS,
        st.booleans(),
        st.sampled_from(["user:1", "everyone"]),
    ),
    max_size=6,
)


def grants_of(rules: list[tuple[str, bool, str]]) -> RuleGrants:
    grants, whole = RuleGrants(SECRET), RuleSet()
    for number, (pattern, allow, who) in enumerate(rules, 1):
        whole.put(Rule(number, who, pattern, SUBSCRIBE, allow))
    grants.replace(whole, {}, {}, 1, NOW)
    return grants


@settings(max_examples=250, deadline=None)
@given(RULES, WANTED, st.lists(PATTERNS, max_size=3))
def test_it_is_what_all_subjects_together_say(
    rules: list[tuple[str, bool, str]], pattern: str, permitted: list[str]
) -> None:
    """Compared with each subject of up to four segments, of names in the rules and others, and with who is there."""
    grants = grants_of(rules)
    ann = grants.principal(mint("ann", seconds=10**9, permissions={"sub": permitted}), NOW)
    subjects = SUBJECTS + PRESENCES if pattern.startswith("/__sys__/") else SUBJECTS
    answers = {not grants.check(ann, SUBSCRIBE, one, NOW) for one in subjects if covers(pattern, one)}
    reach = grants.reach(ann, pattern, NOW)
    if reach.looked < SAMPLES_MAX and answers:
        assert reach.rights == {(True,): "", (False,): DENIED}.get(tuple(answers), PARTIAL), (rules, pattern, reach)
        assert bool(reach.reason) == bool(reach.rights)


@pytest.mark.parametrize(
    ("rules", "pattern", "rights", "reason"),
    [
        ([], "/s/*", DENIED, "no rule allows it"),
        ([("/s/**", True, "everyone")], "/s/*", "", ""),
        ([("/s/1", True, "everyone")], "/s/*", PARTIAL, "no rule allows it"),
        ([("/s/*", True, "everyone")], "/s/**", PARTIAL, "no rule allows it"),
        ([("/s/**", True, "everyone"), ("/s/us/*", False, "everyone")], "/s/us/*", DENIED, "rule 2 denies it"),
        ([("/s/**", True, "everyone"), ("/s/us/*", False, "everyone")], "/s/**", PARTIAL, "rule 2 denies it"),
        ([("/s/**", True, "everyone"), ("/s/us/*", False, "user:2")], "/s/**", "", ""),
        ([("/**", True, "everyone")], "/**", "", ""),
        ([("/{username}/*", True, "everyone")], "/ann/*", "", ""),
        ([("/{username}/*", True, "everyone")], "/bob/*", DENIED, "no rule allows it"),
        ([("/{username}/*", True, "everyone")], "/*/*", PARTIAL, "no rule allows it"),
        ([], "/user/ann/**", "", ""),
        ([], "/user/bob/**", DENIED, "no rule allows it"),
        ([("/chat/*", True, "everyone")], "/__sys__/presence/chat/*", "", ""),
        ([("/chat/*", True, "everyone")], "/__sys__/presence/**", PARTIAL, "no rule allows it"),
        ([("/chat/*", True, "everyone")], "/__sys__/**", PARTIAL, "no rule allows it"),
        ([("/chat/*", True, "everyone")], "/__sys__/*/chat/*", PARTIAL, "no rule allows it"),
        ([], "/__sys__/presence/**", PARTIAL, "no rule allows it"),
        ([], "/__sys__/presence/user/ann/**", "", ""),
        ([], "/__sys__/presence/user/**", PARTIAL, "no rule allows it"),
        ([], "/__sys__/presence/*/*", DENIED, "no rule allows it"),
        ([("/user/bob/**", True, "everyone")], "/__sys__/presence/*/bob/*", PARTIAL, "no rule allows it"),
    ],
)
def test_by_rules(rules: list[tuple[str, bool, str]], pattern: str, rights: str, reason: str) -> None:
    grants = grants_of(rules)
    reach = grants.reach(grants.principal(mint("ann", seconds=10**9), NOW), pattern, NOW)
    assert (reach.rights, reach.reason) == (rights, reason)


def test_very_many_rules_cost_no_more() -> None:
    """What is not found out is not claimed: it is no denial."""
    some = [(f"/s/{number}", False, "everyone") for number in range(5000)]
    grants = grants_of([*some, ("/s/last", True, "everyone")])
    reach = grants.reach(grants.principal(mint("ann", seconds=10**9), NOW), "/s/*", NOW)
    assert (reach.rights, reach.looked) == (PARTIAL, SAMPLES_MAX)
    grants = grants_of([(f"/s/{number}", True, "everyone") for number in range(5000)])
    reach = grants.reach(grants.principal(mint("ann", seconds=10**9), NOW), "/s/*", NOW)
    assert (reach.rights, reach.looked) == (PARTIAL, 2)


def test_in_other_modes() -> None:
    """Where nobody, or a hook, is asked nothing is told; superusers may all; without a token nothing."""
    for grants in (Grants(), BasicGrants("secret"), CustomGrants(frozenset([SUBSCRIBE])), RuleGrants(SECRET)):
        assert grants.reach(grants.principal("", NOW), "/s/*", NOW).rights == ""
    custom = CustomGrants(frozenset())
    assert custom.reach(custom.principal("", NOW), "/s/*", NOW)[:2] == (DENIED, "the hook is not asked about subscribe")
    jwt = JwtGrants(Keys(SECRET))
    assert jwt.reach(jwt.principal("", NOW), "/s/*", NOW)[:2] == (DENIED, "a token is needed")
    rules = grants_of([])
    assert rules.reach(rules.principal(mint("root", su=True, seconds=10**9), NOW), "/s/*", NOW).rights == ""
