"""What bodies and queries of REST mean: tables of what is read, and of what is refused with which reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fastpath.core.protocol.codec import JSON, MSGPACK
from fastpath.core.protocol.errors import InvalidMessage
from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.rest import (
    PUBLICATIONS_MAX,
    form_of,
    read_count,
    read_key,
    read_position,
    read_publications,
    shown,
    wanted_form,
)


def test_content_types_and_what_is_wanted() -> None:
    assert form_of("application/json; charset=utf-8") == form_of("Application/JSON") == JSON
    assert form_of("application/msgpack") == form_of("application/x-msgpack") == MSGPACK
    assert form_of("") is form_of("text/json") is form_of("application/json, application/msgpack") is None
    assert wanted_form("") == wanted_form("*/*") == wanted_form("text/html,application/json") == JSON
    assert wanted_form("text/html, application/msgpack;q=0.5") == MSGPACK


def test_a_publication_with_all_that_it_may_have() -> None:
    body = (
        b'{"subject":"/a/b","content":{"b":"AP8="},"fields":{"f":"g"},"retained":false,"qos":"standard",'
        b'"as_of":{"version":3},"reply_to":"/r/s","closure":"c"}'
    )
    ((message,), refused) = read_publications(body, JSON)
    assert refused == {}
    assert (message.subject, message.content, message.fields, message.retained) == (
        *("/a/b", b"\x00\xff", {"f": "g"}),
        False,
    )
    assert (message.qos, message.as_of, message.reply_to, message.closure) == ("standard", {"version": 3}, "/r/s", "c")
    assert (message.epoch, message.seq, message.publisher, message.publication) == (0, 0, None, 0)


@pytest.mark.parametrize("row", [{}, {"content": ""}, {"content": {"b": ""}, "retained": True}])
def test_a_removal(row: dict[str, Any]) -> None:
    ((message,), refused) = read_publications(msgspec.json.encode(row | {"subject": "/a/b", "removed": True}), JSON)
    assert refused == {}
    assert (message.content or "", message.fields) == ("", None)
    assert (message.removed, message.replace, message.retained) == (True, True, True)
    message.weigh()
    assert shown(message, "historical", JSON)["removed"] is True


@pytest.mark.parametrize(
    "body", [{"messages": [{"subject": "/a/b", "content": "1"}]}, [{"subject": "/a/b", "content": "1"}]]
)
def test_one_or_many_in_both_forms(body: Any) -> None:
    for form, data in ((JSON, msgspec.json.encode(body)), (MSGPACK, msgspec.msgpack.encode(body))):
        ((message,), refused) = read_publications(data, form)
        assert (message.content, refused) == ("1", {})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no content": ({"subject": "/a/b"}, "invalid"),
    "no content, and no removal": ({"subject": "/a/b", "removed": False}, "invalid"),
    "a removal with content": ({"subject": "/a/b", "content": "x", "removed": True}, "invalid"),
    "a removal that is not retained": ({"subject": "/a/b", "removed": True, "retained": False}, "invalid"),
    "no subject": ({"content": "x"}, "invalid"),
    "a number": ({"subject": "/a/b", "content": 1}, "invalid"),
    "bad base64": ({"subject": "/a/b", "content": {"b": "!"}}, "invalid"),
    "an unknown name": ({"subject": "/a/b", "content": "x", "retain": False}, "invalid"),
    "a text for a truth": ({"subject": "/a/b", "content": "x", "retained": "no"}, "invalid"),
    "another quality": ({"subject": "/a/b", "content": "x", "qos": "best"}, "invalid"),
    "a long closure": ({"subject": "/a/b", "content": "x", "closure": "c" * 257}, "invalid"),
    "a long reply_to": ({"subject": "/a/b", "content": "x", "reply_to": "/" * 513}, "invalid"),
    "as_of of a list": ({"subject": "/a/b", "content": "x", "as_of": [1]}, "invalid"),
    "a field that is a list": ({"subject": "/a/b", "content": "x", "fields": {"f": []}}, "invalid"),
    "a field without name": ({"subject": "/a/b", "content": "x", "fields": {"": "x"}}, "invalid"),
    "too many fields": ({"subject": "/a/b", "content": "x", "fields": {str(n): "x" for n in range(257)}}, "too_large"),
}


@pytest.mark.parametrize(("row", "code"), REFUSED.values(), ids=REFUSED)
def test_one_that_is_none_refuses_itself_alone(row: dict[str, Any], code: str) -> None:
    good = {"subject": "/a/b", "content": "x"}
    rows, refused = read_publications(msgspec.json.encode([good, row, good]), JSON)
    assert {index: one for index, (one, _) in refused.items()} == {1: code}
    assert refused[1][1]
    assert [type(one) is Message for one in rows] == [True, False, True]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"5", b"null", b"[]", b"[[]]", b'{"messages":5}', b'{"messages":[],"a":1}', b"[" * 10_000]
)
def test_a_body_that_is_none(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        read_publications(body, JSON)


def test_a_body_has_a_bound() -> None:
    row = {"subject": "/a/b", "content": "x"}
    assert len(read_publications(msgspec.json.encode([row] * PUBLICATIONS_MAX), JSON)[0]) == PUBLICATIONS_MAX
    with pytest.raises(InvalidMessage, match="at most"):
        read_publications(msgspec.json.encode([row] * (PUBLICATIONS_MAX + 1)), JSON)


def test_keys() -> None:
    assert [read_key(text) for text in ("", "k", '"k"', '"', "a b")] == ["", "k", "k", '"', "a b"]
    for text in ('""', "x" * 201, "ü", "a\x7f"):
        with pytest.raises(InvalidMessage):
            read_key(text)


def test_positions_and_counts() -> None:
    assert read_position("17,0") == (17, 0)
    for text in ("", "1", "1,", ",1", "1,2,3", "-1,2", "1, 2", "1,²", "1" * 17 + ",1"):
        with pytest.raises(InvalidMessage):
            read_position(text)
    assert (read_count("n", "1", 1, 5), read_count("n", "5", 1, 5)) == (1, 5)
    for text in ("", "0", "6", "-1", "1.0", "²", "9" * 10):
        with pytest.raises(InvalidMessage, match="n is a whole number from 1 to 5"):
            read_count("n", text, 1, 5)


def test_a_message_as_it_is_shown() -> None:
    message = Message("/a/b", b"\xff", {"f": b"\x00", "g": "h"}, epoch=3, seq=4, time=5, reply_to="/r/s")
    assert shown(message, "historical", MSGPACK)["content"] == b"\xff"
    assert shown(message, "historical", JSON) == {
        "subject": "/a/b",
        "content": {"b": "/w=="},
        "fields": {"f": {"b": "AA=="}, "g": "h"},
        "epoch": 3,
        "seq": 4,
        "time": 5,
        "as_of": None,
        "kind": "historical",
        "reply_to": "/r/s",
    }
