"""Cursors: what a reader hands back stands for what it was given, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.events.cursor import CURSOR_BYTES_MAX, UNKNOWN, decode_cursor, encode_cursor
from fastpath.core.protocol.errors import InvalidMessage

SUBJECTS = st.sampled_from(["/a/b", "/a/c", "/chat/é", "/x/y/z", "/stocks/us/IBM"])
NUMBERS = st.integers(0, 2**53)


@given(
    st.dictionaries(SUBJECTS, st.tuples(st.sampled_from([0, 1, 1_700_000_000_000]), NUMBERS)),
    st.lists(SUBJECTS, unique=True),
)
def test_it_comes_back_as_it_was(positions: dict[str, tuple[int, int]], asked: list[str]) -> None:
    text = encode_cursor(positions, asked)
    assert decode_cursor(text, asked) == positions
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum()


@given(st.text(max_size=60))
def test_any_other_text_is_refused_or_harmless(text: str) -> None:
    try:
        found = decode_cursor(text, ["/a/b"])
    except InvalidMessage as error:
        assert error.code == "invalid"
    else:
        assert all(epoch >= 0 and seq >= 0 for epoch, seq in found.values())


def test_a_place_that_the_request_does_not_have_is_left_out() -> None:
    text = encode_cursor({"/a/b": (1, 2), "/a/c": (1, 3)}, ["/a/b", "/a/c"])
    assert decode_cursor(text, ["/a/b"]) == {"/a/b": (1, 2)}


def test_it_is_bounded() -> None:
    many = {f"/quite/long/subject/number/{number}": (1, number) for number in range(500)}
    assert encode_cursor(many, []) == UNKNOWN
    assert encode_cursor(many, list(many)[:1]) == UNKNOWN
    asked = list(many)
    assert len(encode_cursor(many, asked)) < CURSOR_BYTES_MAX, "places of the request are short"
    with pytest.raises(InvalidMessage):
        decode_cursor("A" * (CURSOR_BYTES_MAX + 1), [])
