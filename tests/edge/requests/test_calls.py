"""Requests by plain HTTP: replies, problems by their status, and callers that leave."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fastpath.client import Reply, Request, ResponderError, blocking
from tests.support.edge.calling import HttpPeer, Response, call_bytes
from tests.support.edge.wire import WireClient
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint


def ask(peer: HttpPeer, subject: str, content: Any = "x", **keys: Any) -> Response:
    return peer.ask("POST", "/api/request", json.dumps({"subject": subject, "content": content} | keys).encode())


@pytest.fixture(scope="module")
def answering(shared: Sidecar) -> Iterator[blocking.BlockingClient]:
    """A client whose handlers answer below ``/http``."""

    def answer(request: Request) -> Reply | str:
        match request.subject:
            case "/http/error":
                raise ResponderError("no_such_stock", "there is no ZZZ")
            case "/http/half":
                request.reply(b"\xff", {"b": b"\x01"})
                raise ResponderError("no_more", "there is nothing behind the first")
            case "/http/three":
                request.reply("1")
                request.reply("2")
            case "/http/large":
                for _ in range(9):
                    request.reply(b"x" * (1 << 19))
            case "/http/bytes":
                return Reply(b"\xff", {"user": request.user, "b": b"\x01"})
        return f"{request.content} {request.fields}"

    with blocking.connect(shared.client_url) as client:
        client.respond("/http/*", answer)
        yield client


def test_replies(shared: Sidecar, answering: object) -> None:
    with HttpPeer(shared) as peer:
        one = ask(peer, "/http/one", fields={"a": "1"})
        assert (one.status, one.json) == (200, {"replies": [{"content": "x {'a': '1'}", "fields": {}}]})
        assert [reply["content"] for reply in ask(peer, "/http/three", replies=9).json["replies"]] == ["1", "2", "x {}"]
        assert len(ask(peer, "/http/three", replies=2).json["replies"]) == 2
        raw = ask(peer, "/http/bytes", {"b": "gA=="})
        assert raw.json["replies"] == [{"content": {"b": "/w=="}, "fields": {"user": "", "b": {"b": "AQ=="}}}]
        body = msgspec.msgpack.encode({"subject": "/http/bytes", "content": b"\x80"})
        packed = peer.ask(
            "POST", "/api/request", body, Content_Type="application/msgpack", Accept="application/msgpack"
        )
        assert packed.json == {"replies": [{"content": b"\xff", "fields": {"user": "", "b": b"\x01"}}]}


def test_problems(shared: Sidecar, answering: object) -> None:
    with HttpPeer(shared) as peer, blocking.connect(shared.client_url) as client:
        blocked = threading.Event()
        client.respond("/wait/*", lambda request: str(blocked.wait(10)))
        for answer, status, code, own in (
            (ask(peer, "/nobody/here"), 503, "no_responders", True),
            (ask(peer, "/http/error"), 422, "no_such_stock", False),
            (ask(peer, "/http/large", replies=10), 413, "too_large", True),
            (ask(peer, "/wait/x", timeout=200), 504, "timeout", True),
            (ask(peer, "nothing"), 400, "invalid", True),
            (ask(peer, "/__sys__/x"), 403, "denied", True),
        ):
            assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), answer
            assert (answer.json["code"], answer.json["own"], answer.json["status"]) == (code, own, status)
            assert answer.json["detail"]
        blocked.set()


@pytest.mark.parametrize("kind", ["application/json", "application/msgpack"])
def test_replies_before_an_error_are_json_as_the_error_is(shared: Sidecar, answering: object, kind: str) -> None:
    with HttpPeer(shared) as peer:
        body = json.dumps({"subject": "/http/half", "content": "", "replies": 5}).encode()
        answer = peer.ask("POST", "/api/request", body, Accept=kind)
        assert (answer.status, answer.json["code"]) == (422, "no_more")
        assert answer.json["replies"] == [{"content": {"b": "/w=="}, "fields": {"b": {"b": "AQ=="}}}]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"subject":"/a/b"}',
        b'{"subject":"/a/b","content":1}',
        b'{"subject":"/a/b","content":"","more":1}',
        b'{"subject":"/a/b","content":"","timeout":0}',
        b'{"subject":"/a/b","content":"","timeout":30001}',
        b'{"subject":"/a/b","content":"","replies":0}',
        b'{"subject":"/a/b","content":"","replies":1001}',
        b'{"subject":"/a/b","content":"","fields":{"":"x"}}',
    ],
)
def test_a_body_that_is_none_is_refused_and_the_connection_goes_on(shared: Sidecar, body: bytes) -> None:
    with HttpPeer(shared) as peer:
        assert peer.ask("POST", "/api/request", body).status == 400
        assert ask(peer, "/nobody/here").status == 503


def test_a_caller_that_leaves_is_told_to_the_responder(shared: Sidecar) -> None:
    with WireClient(shared) as responder:
        responder.ask("respond", "responding", patterns=["/leaves/x"])
        with HttpPeer(shared) as peer:
            body = json.dumps({"subject": "/leaves/x", "content": "", "timeout": 30000}).encode()
            peer.send(call_bytes("POST", "/api/request", body))
            to = responder.answer("asked")["to"]
        assert responder.answer("over") == {"op": "over", "to": to, "reason": "whoever asked is gone"}
        assert responder.ask("reply", "replied", to=to, content="")["status"] == "gone"


def test_a_caller_that_says_its_end_and_reads_on_is_answered(shared: Sidecar) -> None:
    """As `nc -N`, and some balancers: what it has sent behind, too; then the connection ends."""
    with WireClient(shared) as responder, HttpPeer(shared) as peer:
        responder.ask("respond", "responding", patterns=["/half/x"])
        body = json.dumps({"subject": "/half/x", "content": ""}).encode()
        peer.send(2 * call_bytes("POST", "/api/request", body))
        peer.sock.shutdown(socket.SHUT_WR)
        for content, connection in (("one", ""), ("two", "close")):
            responder.ask("reply", "replied", to=responder.answer("asked")["to"], content=content)
            answer = peer.response()
            assert answer.json["replies"][0]["content"] == content
            assert answer.headers.get("connection", "") == connection
        assert peer.ended


def test_rights() -> None:
    """Who asks needs the right to publish, who answers the right to read."""
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        load_rights(sidecar.control, rule(1, "user:ann", "/q/**", action="publish"), rule(2, "user:bob", "/q/a"))
        with blocking.connect(sidecar.client_url, mint("bob")) as bob, HttpPeer(sidecar) as peer:
            bob.respond("/q/*", lambda request: request.user)
            token = {"Authorization": f"Bearer {mint('ann')}"}

            def status(subject: str, **headers: str) -> int:
                body = json.dumps({"subject": subject, "content": ""}).encode()
                return peer.ask("POST", "/api/request", body, **headers).status

            assert [status("/q/a", **token), status("/q/b", **token), status("/r/a", **token)] == [200, 503, 403]
            assert status("/q/a") == 403
            assert status("/q/a", Authorization="Bearer nonsense") == 401
