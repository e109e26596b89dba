"""Requests for events."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from fastpath.core.events.cursor import encode_cursor
from fastpath.core.events.request import opening, parse_events_request
from fastpath.core.protocol.errors import InvalidMessage


def test_subjects_and_options() -> None:
    query = f"subjects=/a/b,{quote('/chat/é')}&subject={quote('/with/a,comma')}&subjects=/a/b&history=3&conflation=500"
    asked = parse_events_request(f"{query}&slow=conflate&token=x.y.z")
    assert asked.subjects == ["/a/b", "/chat/é", "/with/a,comma"]
    assert (asked.history, asked.conflation, asked.slow, asked.since) == (3, 500, "conflate", {})
    assert opening(asked) == b"retry: 2000\n\n"


def test_where_it_was() -> None:
    cursor = encode_cursor({"/a/b": (7, 41), "/c/d": (7, 1)}, ["/a/b"])
    for query, header in (("", cursor), (f"&since={cursor}", ""), ("&since=1,1", cursor)):
        since = {"/a/b": (7, 41), "/c/d": (7, 1), "/c/*": (0, 0)}
        assert parse_events_request(f"subjects=/a/b,/c/*{query}", header).since == since
    assert parse_events_request("subjects=/a/b,/c/d&since=7,41").since == {"/a/b": (7, 41), "/c/d": (7, 41)}


def test_a_cursor_that_is_none_is_told() -> None:
    asked = parse_events_request("subjects=/a/b", "no cursor!")
    assert asked.since == {}
    assert b"event: refused\n" in opening(asked)
    assert parse_events_request("subjects=/a/b,/c/*", "-").since == {"/a/b": (0, 0), "/c/*": (0, 0)}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "invalid"),
        ("subjects=", "invalid"),
        ("subjects=/a/b&history=-1", "invalid"),
        ("subjects=/a/b&history=many", "invalid"),
        ("subjects=/a/b&conflation=1.5", "invalid"),
        (f"subjects=/a/b&history={'9' * 17}", "invalid"),
        ("subjects=/a/b&slow=never", "invalid"),
        ("subject=%ff", "invalid"),
        ("&".join("subject=/a/b" for _ in range(1001)), "invalid"),
        ("subjects=" + ",".join(f"/a/{number}" for number in range(1001)), "limit"),
    ],
)
def test_what_is_no_request(query: str, code: str) -> None:
    with pytest.raises(InvalidMessage) as error:
        parse_events_request(query)
    assert error.value.code == code
