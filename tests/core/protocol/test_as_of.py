"""As of when: what is taken is what every client reads, and what was stored before that was asked is made readable."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath.core.protocol.as_of import NUMBER_MAX, check_as_of, readable_as_of
from fastpath.core.protocol.columns import ColumnBatch, expand
from fastpath.core.protocol.errors import InvalidMessage

TAKEN = (
    "",
    "2026-01-02T03:04:05Z",
    "🎉" * 256,
    0,
    -NUMBER_MAX,
    NUMBER_MAX,
    {},
    {"time": NUMBER_MAX, "batch": 0, "job": "é" * 256, "version": NUMBER_MAX},
    {"time": "yesterday"},
)
REFUSED = (
    NUMBER_MAX + 1,
    -NUMBER_MAX - 1,
    1_795_883_791_704_842_422,
    1 << 70,
    1.5,
    True,
    None,
    b"x",
    [1],
    "x" * 257,
    "\ud83c",
    {"when": 1},
    {"time": NUMBER_MAX + 1},
    {"time": -1},
    {"time": True},
    {"version": "7"},
    {"version": NUMBER_MAX + 1},
    {"job": "\ud83c"},
    {"job": "x" * 257},
    {1: 1},
)


@pytest.mark.parametrize("as_of", TAKEN)
def test_what_is_taken(as_of: Any) -> None:
    check_as_of(as_of)
    assert readable_as_of(as_of) == as_of


@pytest.mark.parametrize("as_of", REFUSED)
def test_what_is_refused(as_of: Any) -> None:
    """With a reason; stored before, a number that is too large is read as its digits, the rest as nothing."""
    with pytest.raises(InvalidMessage) as raised:
        check_as_of(as_of)
    assert raised.value.code == "invalid"
    assert readable_as_of(as_of) == (str(as_of) if type(as_of) is int else None)


def test_nanoseconds_are_told_what_to_do() -> None:
    """It is what one gives who does not know that JavaScript reads it."""
    for as_of in (1_795_883_791_704_842_422, {"time": 1_795_883_791_704_842_422}):
        with pytest.raises(InvalidMessage, match="give ms instead of ns, or its digits as a text"):
            check_as_of(as_of)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_run_that_was_stored_before_is_readable(rows: int) -> None:
    """Staged rows and those in a journal become messages when they are released or replayed."""
    run = ColumnBatch("/a/b", ["x"] * rows, None, {"as_of": 1 << 60, "closure": "c"})
    assert [one.as_of for one in expand(run)] == [str(1 << 60)] * rows
