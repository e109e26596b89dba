"""Rows of options as they come over the wire, and the patterns that they may have."""

import msgspec
import pytest

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.limits import CONFLATION_MS_MAX
from fastpath.core.protocol.options import CACHE_MESSAGES_MAX, CACHE_SECONDS_MAX, OptionRow, check_option_pattern


def row(**values: object) -> OptionRow:
    """As Django sends it."""
    return msgspec.convert({"id": 1, "pattern": "/a/**"} | values, OptionRow)


def test_what_is_not_set_is_none() -> None:
    assert row() == OptionRow(1, "/a/**", None, None, None, None, None, None, None)
    assert row(cache_messages=0).cache_messages == 0


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("cache_messages", CACHE_MESSAGES_MAX),
        ("cache_ms", CACHE_SECONDS_MAX * 1000),
        ("conflation_ms", CONFLATION_MS_MAX),
    ],
)
def test_each_has_its_bounds(name: str, most: int) -> None:
    assert getattr(row(**{name: most}), name) == most
    for wrong in (-1, most + 100, "1", 1.5):
        with pytest.raises(msgspec.ValidationError):
            row(**{name: wrong})


def test_an_interval_is_one_of_the_grid() -> None:
    with pytest.raises(msgspec.ValidationError):
        row(conflation_ms=150)


@pytest.mark.parametrize("pattern", ["/a/b", "/a/*", "/**", "/user/ann/**", "/*/b/**"])
def test_patterns_that_are_taken(pattern: str) -> None:
    check_option_pattern(pattern)


@pytest.mark.parametrize("pattern", ["a/b", "/a", "/a/**/b", "/inbox/{username}", "/__sys__/stats/**", "/a/b*"])
def test_patterns_that_are_not(pattern: str) -> None:
    with pytest.raises(InvalidSubject):
        check_option_pattern(pattern)
