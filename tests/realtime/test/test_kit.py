"""Assertions, and what they say when they fail."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from realtime import publish, publish_many
from realtime.publishing.backends import Sidecar, backend
from realtime.test import Kit


@pytest.fixture
def kit() -> Iterator[Kit]:
    """Begun."""
    own = Kit()
    own.begin()
    yield own
    own.end()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"content": {"b": [1], "a": "1.50"}},
        {"content": {"a": Decimal("1.50"), "b": (1,)}},
        {"content": '{"a":"1.50","b":[1]}'},
        {"fields": {"n": 3}},
        {"fields": {"n": "3"}, "times": 1},
        {"fields": {}},
    ],
)
def test_what_was_published_is_found(kit: Kit, asked: Any) -> None:
    publish("/orders/1", {"a": Decimal("1.50"), "b": [1]}, {"n": 3, "m": b"\xff"})
    assert kit.assert_published("/orders/1", **asked).seq == 1


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"content": {"a": 2}}, r"with \{'a': 2\} was not published; published were:\n  /orders/1 'x'"),
        ({"content": "X"}, "with 'X' was not published"),
        ({"fields": {"n": 4}}, r"and the fields \{'n': 4\} was not"),
        ({"fields": {"none": 4}}, "was not"),
        ({"times": 3}, "was 2 times instead of 3 published"),
    ],
)
def test_what_was_not_is_told_with_what_was(kit: Kit, asked: Any, why: str) -> None:
    publish_many([("/orders/1", "x", {"n": 3})] * 2)
    with pytest.raises(AssertionError, match=why):
        kit.assert_published("/orders/1", **asked)
    with pytest.raises(AssertionError, match="/orders/2 was not published; published were"):
        kit.assert_published("/orders/2")
    with pytest.raises(AssertionError, match="/orders/1 was published"):
        kit.assert_not_published("/orders/1")
    kit.assert_not_published("/orders/2")


def test_a_long_list_is_cut(kit: Kit) -> None:
    with pytest.raises(AssertionError, match="nothing was published"):
        kit.assert_published("/orders/1")
    publish_many([("/orders/1", str(number)) for number in range(25)])
    with pytest.raises(AssertionError, match="and 15 more"):
        kit.assert_not_published()


def test_outside_of_a_test_it_says_so_and_the_settings_are_as_before() -> None:
    own = Kit()
    own.begin()
    own.end()
    with pytest.raises(RuntimeError, match="outside of a test"):
        own.as_user()
    assert isinstance(backend(), Sidecar)
