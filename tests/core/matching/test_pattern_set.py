"""A set of patterns covers what each of them covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.matching.pattern_set import PatternSet
from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol import subject as rights

SEGMENTS = st.sampled_from(["a", "b", "__sys__"])
SUBJECTS = st.lists(SEGMENTS, min_size=2, max_size=4).map(lambda parts: "/" + "/".join(parts))
PATTERNS = st.one_of(
    st.lists(st.one_of(SEGMENTS, st.just("*")), min_size=2, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.lists(st.one_of(SEGMENTS, st.just("*")), max_size=3).map(lambda parts: "/" + "/".join([*parts, "**"])),
)


@given(st.lists(PATTERNS, max_size=5), SUBJECTS)
def test_it_covers_what_one_of_its_patterns_covers(patterns: list[str], subject: str) -> None:
    assert PatternSet(patterns).covers(subject) == any(covers(pattern, subject) for pattern in patterns)


@given(PATTERNS, SUBJECTS)
def test_a_right_covers_what_a_subscription_does_and_the_servers_own_too(pattern: str, subject: str) -> None:
    wanted, given_ = pattern[1:].split("/"), subject[1:].split("/")
    own = given_[0] == "__sys__" and wanted[0] in ("*", "**")
    assert covers(pattern, subject) == (rights.covers(wanted, given_) and not own)
    named = ["{username}" if segment == "a" else segment for segment in wanted]
    assert rights.covers(named, given_, "a") == rights.covers(wanted, given_)
    assert not rights.covers(named, given_) or "a" not in wanted


def test_many_patterns_that_all_fit_half_way_cost_no_more_than_each_once() -> None:
    patterns = ["/" + "/".join("a*"[n >> bit & 1] for bit in range(10)) + "/z" for n in range(1000)]
    cover = PatternSet(patterns)
    assert cover.covers("/a" * 10 + "/z")
    assert not cover.covers("/a" * 11)


def test_patterns_are_read_from_a_text() -> None:
    assert PatternSet.parse(" /chat/*, /news/** ").covers("/news/a/b")
    assert not PatternSet.parse("")
    for wrong in ("/chat", "chat/*", "/a/**/b", "/a/{username}"):
        with pytest.raises(ValueError):
            PatternSet.parse(wrong)
