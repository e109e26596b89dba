"""Subjects and patterns: the table of protocol.md 2, both ways."""

import json
import re
from pathlib import Path

import pytest

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import (
    RESERVED,
    check_pattern,
    check_subject,
    is_reserved,
    is_system,
    may_depend_on_name,
    owner_of,
    user_segment,
)

ROOT = Path(__file__).parents[3]

INVALID = [
    ("/Stocks//IBM/BID", "empty segment"),
    ("Stocks/IBM/BID", "no leading slash"),
    ("/Stocks/IBM/BID/", "last segment empty"),
    ("/", "a single empty segment"),
    ("/Stocks", "only one segment"),
    ("", "no leading slash"),
    ("//", "empty segment"),
    ("/a/*", "reserved segment"),
    ("/a/**/b", "reserved segment"),
    ("/a/b\x00c", "reserved segment"),
    ("/a/" + "x" * 510, "too long"),
    ("/a/" + "é" * 255, "too long"),
    ("/a" * 33, "too many segments"),
    ("/a/\ud800", "not UTF-8"),
]

VALID = [
    "/Stocks/IBM/BID",
    "/a/b",
    "/a/*b",
    "/börse/日本",
    "/a/ b ",
    "/a" * 32,
    "/A/b",
    "/a/{username}",
    "/a/{user_id}",
    "/__sys__/stats",
]


@pytest.mark.parametrize(("subject", "reason"), INVALID)
def test_invalid_subjects_say_why(subject: str, reason: str) -> None:
    """Each with the reason of the reference."""
    with pytest.raises(InvalidSubject) as caught:
        check_subject(subject)
    assert caught.value.reason == reason


@pytest.mark.parametrize("subject", VALID)
def test_valid_subjects_pass(subject: str) -> None:
    """Two or more non-empty segments of any script."""
    check_subject(subject)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("/a/**/b", "** only as the last segment"),
        ("/a/b*", "* must be a whole segment"),
        ("/a/***", "* must be a whole segment"),
        ("/user/{user_id}/**", "behind /user/ stands a name, not {user_id}"),
        ("/a/x{user_id}", "only {username} or {user_id} may stand in braces, as a whole segment"),
        ("/a/{user}", "only {username} or {user_id} may stand in braces, as a whole segment"),
        ("/a/x{username}", "only {username} or {user_id} may stand in braces, as a whole segment"),
        ("/a", "only one segment"),
        ("a/b", "no leading slash"),
    ],
)
def test_invalid_patterns_say_why(pattern: str, reason: str) -> None:
    """A pattern is a subject with wildcards as whole segments."""
    with pytest.raises(InvalidSubject) as caught:
        check_pattern(pattern)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "pattern", ["/**", "/a/b", "/a/*", "/*/b", "/a/**", "/*/**", "/users/{username}", "/u/{username}/{user_id}/**"]
)
def test_valid_patterns_pass(pattern: str) -> None:
    """The wildcards of protocol.md 2.3."""
    check_pattern(pattern)


def test_the_first_segment_decides_what_is_the_servers() -> None:
    """Only a whole first segment counts."""
    assert is_system("/__sys__/stats")
    assert not is_system("/__system__/stats")
    assert not is_system("/a/__sys__")


def test_clients_and_server_set_the_same_first_segments_apart() -> None:
    """Each is one line of a table; a user's own and topics of MQTT are published to, the server's own are not."""
    assert {segment: is_system(f"/{segment}/x") for segment in RESERVED} == {
        "__sys__": True,
        "__mqtt__": False,
        "user": False,
    }
    assert all(map(is_reserved, RESERVED))
    assert not is_reserved("users")
    script = (ROOT / "realtime" / "static" / "realtime" / "client" / "session" / "wanted.js").read_text()
    (listed,) = re.findall(r"^const RESERVED = (\[.*\]);$", script, re.MULTILINE)
    assert json.loads(listed) == list(RESERVED)


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("ann", "ann"),
        ("ann@example.com", "ann@example.com"),
        ("Jürgen 日本", "Jürgen 日本"),
        ("a/b", "a%2Fb"),
        ("a%2Fb", "a%252Fb"),
        ("*", "%2A"),
        ("{username}", "%7Busername%7D"),
        ("a+b#c", "a%2Bb%23c"),
        ("a\x00", "a%00"),
        ("", ""),
    ],
)
def test_a_name_as_a_segment(name: str, segment: str) -> None:
    """One segment of a subject, of a pattern and of a topic of MQTT, and no other name's."""
    assert user_segment(name) == segment
    if name:
        check_subject(f"/user/{segment}/x")
        check_pattern(f"/user/{segment}/**", names=False)
        assert owner_of(f"/user/{segment}/x") == segment


@pytest.mark.parametrize(
    ("subject", "owner"),
    [
        ("/user/ann/x", "ann"),
        ("/user/ann/x/y", "ann"),
        ("/__sys__/presence/user/ann/x", "ann"),
        ("/user/ann", ""),
        ("/users/ann/x", ""),
        ("/a/user/ann/x", ""),
        ("/__sys__/presence/user/ann", ""),
    ],
)
def test_whose_own_a_subject_is(subject: str, owner: str) -> None:
    assert owner_of(subject) == owner
    assert may_depend_on_name(subject) or not owner
