"""Why somebody may read a subject, in words: the same yes or no as the check, in every mode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.auth.basic_grants import BasicGrants
from fastpath.core.auth.grants import Grants, Why
from fastpath.core.auth.hook_decisions import HookDecisions, HookState
from fastpath.core.auth.hook_grants import CustomGrants, hooked
from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.reasons import ASKED, NOT_READY
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import PUBLISH, SUBSCRIBE, Rule, RuleSet
from fastpath.core.protocol.subject import PRESENCE
from tests.support.tokens import SECRET, mint, mint_jwt

NOW = 1_700_000_000_000


def ruled(*rules: Rule) -> RuleGrants:
    """Mode ``rules`` with these in force."""
    grants, whole = RuleGrants(SECRET), RuleSet()
    for rule in rules:
        whole.put(rule)
    grants.replace(whole, {}, {}, 1, NOW)
    return grants


RULES = (
    Rule(1, "everyone", "/a/**", SUBSCRIBE, True),
    Rule(2, "user:ann", "/a/no", SUBSCRIBE, False),
    Rule(3, "group:3", "/{username}/*", SUBSCRIBE, True),
)


@pytest.mark.parametrize(
    ("token", "subject", "why"),
    [
        ("ann", "/a/one", Why(True, "rule 1 allows /a/** to everyone", 1)),
        ("ann", "/a/no", Why(False, "rule 2 denies /a/no to user:ann", 2)),
        ("ann", "/ann/x", Why(True, "rule 3 allows /{username}/* to group:3", 3)),
        ("ann", "/bob/x", Why(False, "no rule allows it")),
        ("ann", PRESENCE + "/a/one", Why(True, "rule 1 allows /a/** to everyone", 1)),
        ("root", "/x/y", Why(True, "a superuser may read everything")),
        ("", "/a/one", Why(True, "rule 1 allows /a/** to everyone", 1)),
    ],
)
def test_rules(token: str, subject: str, why: Why) -> None:
    grants = ruled(*RULES)
    minted = mint(token, groups=["3"], superuser=token == "root") if token else ""
    principal = grants.principal(minted, 0)
    assert grants.explain(principal, subject, NOW) == why
    assert why.allowed == (not grants.check(principal, SUBSCRIBE, subject, NOW))


PERMITTED = {"sub": ["/a/*", "/orders/{user_id}/**", "/user/bob/x"], "pub": ["/b/c"], "all": ["/c/**"]}


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("/orders/7/1", Why(True, "the token permits /orders/{user_id}/**")),
        ("/orders/8/1", Why(False, "neither a rule nor the token allows it")),
        ("/c/1/2", Why(True, "the token permits /c/**")),
        ("/b/c", Why(False, "neither a rule nor the token allows it")),
        ("/a/one", Why(True, "rule 1 allows /a/** to everyone", 1)),
        ("/a/no", Why(False, "rule 2 denies /a/no to user:7", 2)),
        (PRESENCE + "/c/1", Why(True, "the token permits /c/**")),
        (PRESENCE + "/a/no", Why(False, "rule 2 denies /a/no to user:7", 2)),
        ("/user/ann/x", Why(True, "it is the user's own")),
        ("/user/bob/x", Why(True, "the token permits /user/bob/x")),
        ("/user/bob/y", Why(False, "neither a rule nor the token allows it")),
    ],
)
def test_what_a_token_permits_beside_the_rules(subject: str, why: Why) -> None:
    """It is asked where no rule is about the subject: a rule that denies wins, however specific the permission is."""
    grants = ruled(
        RULES[0], Rule(2, "user:7", "/a/no", SUBSCRIBE, False), Rule(3, "everyone", "/d/**", SUBSCRIBE, False)
    )
    principal = grants.principal(mint("ann", "7", permissions=PERMITTED), 0)
    assert grants.explain(principal, subject, NOW) == why
    assert why.allowed == (not grants.check(principal, SUBSCRIBE, subject, NOW))


def test_what_a_token_permits_to_publish() -> None:
    grants = ruled(Rule(1, "everyone", "/c/**", PUBLISH, False))
    ann = grants.principal(mint("ann", "7", permissions=PERMITTED | {"pub": ["/b/c", "/c/more/specific"]}), 0)
    asked = {subject: grants.check(ann, PUBLISH, subject, NOW) for subject in ("/b/c", "/a/x", "/c/more/specific")}
    assert asked == {
        "/b/c": "",
        "/a/x": "neither a rule nor the token allows it",
        "/c/more/specific": "rule 1 denies it",
    }


def test_a_permission_is_of_its_token_alone() -> None:
    """Tokens that permit the same share a set while one of them is here, and a right's key; others do not."""
    grants = ruled()
    one, same = (grants.principal(mint(name, permissions={"sub": ["/a/*"]}), 0) for name in ("ann", "bob"))
    other = grants.principal(mint("eve", permissions={"sub": ["/b/*"]}), 0)
    named = grants.principal(mint("max", permissions={"sub": ["/a/{username}"]}), 0)
    none = grants.principal(mint("zoe", permissions={"sub": []}), 0)
    assert one.permitted is same.permitted
    keys = [grants.rights_key(principal) for principal in (one, other, named, none)]
    assert len(set(keys)) == 4
    assert grants.rights_key(one) == grants.rights_key(same)
    assert grants.rights_key(named) != grants.rights_key(
        grants.principal(mint("tim", permissions={"sub": ["/a/{username}"]}), 0)
    )
    proxy = grants.rights_proxy(named)
    assert [grants.check(proxy, SUBSCRIBE, subject, NOW) == "" for subject in ("/a/max", "/a/tim")] == [True, False]
    grants.keys_changed()
    assert grants.current(one).permitted is one.permitted
    assert (none.permitted, grants.principal("", 0).permitted) == (None, None)


def test_before_the_rules_have_come() -> None:
    grants = RuleGrants(SECRET)
    assert grants.explain(grants.principal("", 0), "/a/b", NOW) == Why(False, NOT_READY)


def test_other_modes() -> None:
    assert Grants().explain(Grants().principal("", 0), "/a/b", NOW).allowed
    basic = BasicGrants("secret")
    assert basic.explain(basic.principal("", 0), "/a/b", NOW) == Why(
        True, "in mode basic everybody may read everything"
    )
    tokens = JwtGrants(SECRET)
    ann = tokens.principal(mint_jwt("ann", subscribe=["/a/*"]), 0)
    assert tokens.explain(ann, "/a/b", NOW) == Why(True, "the token permits /a/*")
    assert tokens.explain(ann, "/b/b", NOW) == Why(False, "no permission in the token covers it")
    assert tokens.explain(tokens.principal("", 0), "/a/b", NOW) == Why(False, "a token is needed")
    custom = CustomGrants(frozenset(["publish"]))
    assert custom.explain(custom.principal("x", 0), "/a/b", NOW) == Why(False, "the hook is not asked about subscribe")


class Party:
    """Somebody whom a hook is asked about."""

    waits = False


def test_what_a_hook_has_said_is_told_without_asking_it() -> None:
    asking = HookDecisions([SUBSCRIBE], 1)
    grants = hooked(CustomGrants, asking)(asking.events)
    principal = grants.principal("x", 0)
    principal.asked = asked = HookState(asking, Party())  # type: ignore[arg-type]
    assert grants.explain(principal, "/a/b", NOW) == Why(False, ASKED)
    assert not asked.wanted, "nothing is asked for it"
    asked.note((SUBSCRIBE, "/a/b"), "not you", NOW + 1)
    assert grants.explain(principal, "/a/b", NOW) == Why(False, "not you")
    asked.note((SUBSCRIBE, "/a/b"), "", NOW + 1)
    assert grants.explain(principal, "/a/b", NOW) == Why(
        True, "mode custom leaves it to the hook; the hook has allowed it"
    )


patterns = st.sampled_from(["/a/**", "/a/b", "/a/*", "/**", "/{username}/*", "/ann/b", "/*/b"])


@given(
    st.lists(st.tuples(st.sampled_from(["everyone", "user:ann", "group:3"]), patterns, st.booleans()), max_size=8),
    st.sampled_from(["/a/b", "/a/c", "/ann/b", "/x/y/z", PRESENCE + "/a/b"]),
    st.lists(patterns, max_size=3),
)
def test_it_is_always_the_answer_of_the_check(
    rules: list[tuple[str, str, bool]], subject: str, permitted: list[str]
) -> None:
    """Nor does a permission change what a rule says."""
    grants = ruled(*(Rule(number, who, text, SUBSCRIBE, allow) for number, (who, text, allow) in enumerate(rules)))
    plain = grants.principal(ANN, 0)
    principal = grants.principal(mint("ann", groups=["3"], permissions={"sub": permitted}), 0)
    alone = grants.check(plain, SUBSCRIBE, subject, NOW)
    if alone != "no rule allows it":
        assert grants.check(principal, SUBSCRIBE, subject, NOW) == alone
    assert grants.explain(principal, subject, NOW).allowed == (not grants.check(principal, SUBSCRIBE, subject, NOW))


ANN = mint("ann", groups=["3"])


def test_what_is_a_users_own() -> None:
    """In each mode that knows names, without anything that permits it; the same yes or no in words."""
    rules = ruled(Rule(1, "everyone", "/**", SUBSCRIBE, True), Rule(2, "user:help", "/user/*/x", SUBSCRIBE, True))
    tokens, custom = JwtGrants(SECRET), CustomGrants(frozenset([SUBSCRIBE]))
    bearers = {name: custom.principal(name, 0) for name in ("a/b", "ann", "")}
    for name, bearer in bearers.items():
        bearer.user = name
    own, allowed = "it is the user's own", "rule 2 allows /user/*/x to user:help"
    for grants, principal, why in (
        (rules, rules.principal(mint("a/b"), 0), Why(True, own)),
        (rules, rules.principal(mint("ann"), 0), Why(False, "no rule allows it")),
        (rules, rules.principal("", 0), Why(False, "no rule allows it")),
        (rules, rules.principal(mint("help"), 0), Why(True, allowed, 2)),
        (tokens, tokens.principal(mint_jwt("a/b"), 0), Why(True, own)),
        (
            tokens,
            tokens.principal(mint_jwt("ann", both=["/**"]), 0),
            Why(False, "no permission in the token covers it"),
        ),
        (tokens, tokens.principal("", 0), Why(False, "a token is needed")),
        (custom, bearers["a/b"], Why(True, own)),
        (custom, bearers["ann"], Why(False, "it is another user's own")),
        (custom, bearers[""], Why(False, "it is another user's own")),
    ):
        for subject in ("/user/a%2Fb/x", PRESENCE + "/user/a%2Fb/x"):
            assert grants.explain(principal, subject, NOW) == why, (grants.mode, principal.user)
            assert why.allowed == (not grants.check(principal, SUBSCRIBE, subject, NOW))
