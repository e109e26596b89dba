"""A faulty pattern is told where it is wrong, why, and what to write; patterns that cover and overlap are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entitlement.patterns import fault, overlap, repaired, wider
from fastpath.core.auth.rules import Rule, RuleSet
from fastpath.core.protocol.subject import check_pattern, specificity

FAULTS = [
    # pattern, what begins the sentence, what it offers
    ("stocks/**", "No leading slash (character 1): ", "/stocks/**"),
    ("/stocks//IBM", "Empty segment (character 9): ", "/stocks/*/IBM"),
    ("/stocks/", "Last segment empty (character 8): ", "/stocks/**"),
    ("/", "A single empty segment (character 1): ", "/**"),
    ("/stocks", "Only one segment (character 8): ", "/stocks/**"),
    ("/stocks/**/IBM", "** only as the last segment (character 9): ", "/stocks/*/IBM"),
    ("/stocks/IB*", "* must be a whole segment (character 9): ", "/stocks/*"),
    ("/stocks/***", "* must be a whole segment (character 9): ", "/stocks/*"),
    (
        "/inbox/{user}",
        "Only {username} or {user_id} may stand in braces, as a whole segment (character 8): ",
        "/inbox/{username}",
    ),
    (
        "/orders/{id}",
        "Only {username} or {user_id} may stand in braces, as a whole segment (character 9): ",
        "/orders/*",
    ),
    ("/orders/{userid}", "Only {username} or {user_id} may stand in braces", "/orders/{user_id}"),
    ("/user/{user_id}/**", "Behind /user/ stands a name, not {user_id} (character 7): ", "/user/{username}/**"),
    ("/a" * 33, "Too many segments (character 66): ", "/a" * 31 + "/**"),
    ("/a\x00/b", "Reserved segment (character 3): ", "/a/b"),
    ("/stocks/" + "ä" * 300, "Too long (character 261): ", ""),
    ("/a/\ud800", "Not utf-8 (character 4): ", ""),
    ("", "No leading slash (character 1): ", ""),
    ("a//**/b*/", "No leading slash (character 1): ", "/a/*/*/*/**"),
]


@pytest.mark.parametrize(("pattern", "begins", "offer"), FAULTS)
def test_where_it_is_wrong_and_what_is_right(pattern: str, begins: str, offer: str) -> None:
    """The place is counted from 1; what is offered is a pattern."""
    text = fault(pattern)
    assert text.startswith(begins)
    assert repaired(pattern) == offer
    assert text.endswith(f"Write {offer} instead." if offer else ".")
    if offer:
        check_pattern(offer)
    else:
        assert "instead" not in text


@given(st.text(alphabet="ab*{}/\x00", max_size=12))
def test_every_fault_has_a_sentence(pattern: str) -> None:
    """And what is offered is free of faults."""
    text = fault(pattern)
    offer = repaired(pattern)
    assert fault(offer) == "" or offer == ""
    assert (text == "") == (offer == pattern != "")


PATTERN = st.lists(st.sampled_from(["a", "b", "*"]), min_size=2, max_size=4).flatmap(
    lambda parts: st.sampled_from(["/" + "/".join(parts), "/" + "/".join([*parts, "**"])])
)
SUBJECT = st.lists(st.sampled_from(["a", "b"]), min_size=2, max_size=5).map(lambda parts: "/" + "/".join(parts))


def _covers(pattern: str, subject: str, user: str = "") -> bool:
    rules = RuleSet()
    rules.put(Rule(1, "x", pattern, "both", True))
    return bool(rules.covering(["x"], user, subject))


@given(PATTERN, PATTERN, SUBJECT)
def test_wider_and_overlap_agree_with_the_rules(one: str, other: str, subject: str) -> None:
    """A wider pattern covers each subject of the narrower; a subject of both shows that they overlap."""
    found = wider(one)
    assert found is not None
    assert one in found
    if other in found and _covers(one, subject):
        assert _covers(other, subject)
    if _covers(one, subject) and _covers(other, subject):
        assert overlap(one, other)
        assert overlap(other, one)
    assert (other in (wider(subject) or ())) == _covers(other, subject)


def test_wider_with_a_user_and_its_bound() -> None:
    """Those with the user's name; and a subject of many segments has too many to list."""
    found = wider("/inbox/ann", "ann")
    assert found == {"/**", "/inbox/**", "/*/**", "/inbox/ann", "/*/ann", "/inbox/*", "/*/*"} | {
        "/inbox/{username}",
        "/*/{username}",
    }
    assert wider("/a" * 20) is None


def test_specificity_orders_as_the_rules_do() -> None:
    """From the left: a name before *, and * before **."""
    assert specificity("/a/b") == specificity("/a/{username}") > specificity("/a/*")
    ordered = ["/a/*", "/a/**", "/*/b", "/**"]
    assert sorted(ordered, key=specificity, reverse=True) == ordered
    assert not overlap("/a/b", "/a/b/c")
    assert overlap("/a/{username}", "/a/b")
