"""A set of patterns covers what each of them covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.matching.pattern_set import PatternSet
from fastpath.core.matching.subscribed_patterns import covers

SEGMENTS = st.sampled_from(["a", "b", "__sys__"])
SUBJECTS = st.lists(SEGMENTS, min_size=2, max_size=4).map(lambda parts: "/" + "/".join(parts))
PATTERNS = st.one_of(
    st.lists(st.one_of(SEGMENTS, st.just("*")), min_size=2, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.lists(st.one_of(SEGMENTS, st.just("*")), max_size=3).map(lambda parts: "/" + "/".join([*parts, "**"])),
)


@given(st.lists(PATTERNS, max_size=5), SUBJECTS)
def test_it_covers_what_one_of_its_patterns_covers(patterns: list[str], subject: str) -> None:
    assert PatternSet(patterns).covers(subject) == any(covers(pattern, subject) for pattern in patterns)


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
