"""POST /api/disconnect and /api/unsubscribe: for superusers, on any worker, and what becomes of what is malformed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer, Response
from tests.support.edge.spread import spread
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until

ROOT = {"Authorization": f"Bearer {mint('root', superuser=True)}"}


@pytest.fixture(scope="module")
def node() -> Iterator[Sidecar]:
    """Two workers that ask rules, of which there are none."""
    with Sidecar(mode="rules", token_secret=SECRET, workers=2) as running:
        let_in(running)
        yield running


def let_in(sidecar: Sidecar) -> None:
    """Send the rights: ann may do everything, as far as a rule can say that."""
    with Control(sidecar.control) as control:
        control.rules_begin(1)
        everything = {"id": 1, "who": "user:ann", "pattern": "/**", "action": "both", "allow": True}
        control.rules_chunk(rules=[everything])
        control.rules_commit(1)


def operate(where: Sidecar, verb: str, body: Any, **headers: str) -> Response:
    """POST /api/VERB."""
    with HttpPeer(where) as peer:
        return peer.ask("POST", f"/api/{verb}", json.dumps(body).encode(), **(headers or ROOT))


def disconnect(where: Sidecar, body: Any, **headers: str) -> Response:
    """POST /api/disconnect."""
    return operate(where, "disconnect", body, **headers)


def unsubscribe(where: Sidecar, body: Any, **headers: str) -> Response:
    """POST /api/unsubscribe."""
    return operate(where, "unsubscribe", body, **headers)


def test_all_of_a_user_on_every_worker(node: Sidecar) -> None:
    """Asked of either worker, in either form; others stay."""
    with spread(node, 2, token=mint("ann")) as some, WireClient(node) as other:
        other.ask("connect", "connected", token=mint("bob"))
        answer = disconnect(node, {"user": "ann", "reason": "maintenance"})
        assert (answer.status, answer.json) == (200, {"clients": 2, "publishers": 0, "away": []})
        for client in some.all:
            assert client.closed() == (4506, "closed_by_operator")
        other.ask("ping", "pong")
    body = msgspec.msgpack.encode({"user": "nobody"})
    for _ in range(6):  # some of them by the other worker
        with HttpPeer(node) as peer:
            told = peer.ask("POST", "/api/disconnect", body, Content_Type="application/msgpack", **ROOT)
            assert told.json == {"clients": 0, "publishers": 0, "away": []}


def test_one_connection_by_its_name(node: Sidecar) -> None:
    with WireClient(node) as client, Control(node.control) as control:
        client.ask("connect", "connected", token=mint("ann"))
        (row,) = until(lambda: control.clients(user="ann")["clients"])
        assert disconnect(node, {"connection": row["connection"]}).json["clients"] == 1
        assert client.closed() == (4506, "closed_by_operator")
    for name in (row["connection"], "7.1.1"):
        gone = [disconnect(node, {"connection": name}) for _ in range(3)]
        assert {answer.status for answer in gone} <= {404, 503}
        assert {answer.headers["content-type"] for answer in gone} == {"application/problem+json"}


def test_who_is_no_superuser_may_not(node: Sidecar) -> None:
    """Whatever a rule gives: publishing everywhere is no operator's right."""
    body = {"disconnect": {"user": "root"}, "unsubscribe": {"user": "root", "subject": "/a/b"}}
    for verb, asked in body.items():
        for token in (mint("ann"), ""):
            headers = {"Authorization": f"Bearer {token}"} if token else {"Accept": "*/*"}
            answer = operate(node, verb, asked, **headers)
            assert (answer.status, answer.json["detail"]) == (403, "operators are superusers")
        assert operate(node, verb, asked, Authorization="Bearer x").status == 401


MALFORMED: list[Any] = [
    {},
    [],
    "x",
    {"user": ""},
    {"user": 1},
    {"user": "a", "more": 1},
    {"user": "a", "connection": "0.1.1"},
    {"user": "a", "reason": "x" * 101},
    {"connection": "x"},
]


@pytest.mark.parametrize("body", MALFORMED, ids=str)
def test_what_is_malformed(node: Sidecar, body: Any) -> None:
    assert disconnect(node, body).status == 400


@pytest.mark.parametrize("body", [*MALFORMED, {"user": "a"}, {"user": "a", "subject": "/a"}], ids=str)
def test_an_unsubscription_that_is_malformed(node: Sidecar, body: Any) -> None:
    subject = {"subject": "/a/b"} if isinstance(body, dict) and body.get("user") != "a" else {}
    assert unsubscribe(node, subject | body if isinstance(body, dict) else body).status == 400


def test_subscriptions_of_a_user_end_on_every_worker(node: Sidecar) -> None:
    """By name and by pattern; the client is told why, is sent nothing more of them, and may subscribe again."""
    subjects = ["/chat/**", "/chat/a/b", "/news/one", "/chat/c"]
    with spread(node, 2, token=mint("ann")) as some, WireClient(node) as other, HttpPeer(node) as sender:
        other.ask("connect", "connected", token=mint("root", superuser=True))
        for client in [*some.all, other]:
            client.ask("subscribe", "subscribed", subjects=subjects)
        answer = unsubscribe(node, {"user": "ann", "subject": "/chat/**", "reason": "off topic"})
        assert (answer.status, answer.json) == (200, {"clients": 2, "subscriptions": 6, "away": []})
        for client in some.all:
            told = client.answer("revoked")
            assert (sorted(told["subjects"]), told["reason"]) == (["/chat/**", "/chat/a/b", "/chat/c"], "off topic")
        sent = [{"subject": one, "content": one} for one in ("/chat/a/b", "/chat/c", "/chat/new", "/news/one")]
        sender.publish(sent, **ROOT)
        assert sorted(other.texts(4)) == ["/chat/a/b", "/chat/c", "/chat/new", "/news/one"]
        for client in some.all:
            assert client.texts(1) == ["/news/one"]
        again = some.first.ask("subscribe", "subscribed", subjects=["/chat/c"])
        assert again["results"][0]["sid"]


def test_subscriptions_of_one_connection(node: Sidecar) -> None:
    """To one subject by name: what a pattern brings goes on by the pattern."""
    with WireClient(node) as client, Control(node.control) as control:
        client.ask("connect", "connected", token=mint("ann"))
        (row,) = until(lambda: control.clients(user="ann")["clients"])
        client.ask("subscribe", "subscribed", subjects=["/one/a", "/one/b", "/one/*"])
        whose = {"connection": row["connection"]}
        assert unsubscribe(node, whose | {"subject": "/one/c"}).json == {"clients": 0, "subscriptions": 0, "away": []}
        assert control.unsubscribe("/one/a", **whose, reason="why") == {"clients": 1, "subscriptions": 1}
        told = client.answer("revoked")
        assert (told["subjects"], told["reason"]) == (["/one/a"], "why")
        assert unsubscribe(node, whose | {"subject": "/one/*"}).json["subscriptions"] == 2
        assert sorted(client.answer("revoked")["subjects"]) == ["/one/*", "/one/b"]
        client.subscribe("/two/*")
        with HttpPeer(node) as sender:
            sender.publish({"subject": "/two/new", "content": "x"}, **ROOT)
        assert client.texts(1) == ["x"]
        assert unsubscribe(node, whose | {"subject": "/two/*"}).json["subscriptions"] == 1
        assert client.answer("revoked")["subjects"] == ["/two/*", "/two/new"]
        (gone,) = until(lambda: control.clients(user="ann")["clients"])
        assert gone["subscriptions"] == 0
    until(lambda: not control_clients(node))
    assert unsubscribe(node, {"connection": row["connection"], "subject": "/one/a"}).status in (404, 503)


def control_clients(node: Sidecar) -> list[Any]:
    """The connections of ann."""
    with Control(node.control) as control:
        return list(control.clients(user="ann")["clients"])
