"""What the view forwards, over a real sidecar that asks rules: snapshots by token or session, and what is short."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from entitlement.models import Action, Rule
from entitlement.tokens import mint
from realtime import publish
from realtime.nodes.control_sockets import control
from tests.support.edge.wire import WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

IBM, NEWS = "/stocks/us/IBM", "/news/us"

pytestmark = pytest.mark.django_db(transaction=True)


def ask(client: Client, subject: str | None = IBM, **more: Any) -> Any:
    """GET /snapshot."""
    headers = more.pop("headers", None)
    return client.get("/snapshot", ({} if subject is None else {"subject": subject}) | more, headers=headers)


@pytest.mark.usefixtures("entitled")
def test_found_with_a_token_in_the_address_a_header_or_a_session(bob: User) -> None:
    """All three say the same."""
    publish(IBM, "193", {"volume": "6.62M"})
    position = publish(IBM, "195", {"ask": "190", "raw": b"\xff"})
    assert position is not None
    token, _ = mint(bob)
    signed_in = Client()
    signed_in.force_login(bob)
    answers = [ask(Client(), token=token), ask(Client(), headers={"Authorization": f"Bearer {token}"}), ask(signed_in)]
    for answer in answers:
        assert answer.status_code == 200
        body = answer.json()
        assert body.pop("time") > 0
        assert body == {
            "subject": IBM,
            "content": "195",
            "fields": {"volume": "6.62M", "ask": "190", "raw": {"b": "/w=="}},
            "epoch": position.epoch,
            "seq": position.seq,
            "as_of": None,
            "kind": "snapshot",
        }
        assert "no-store" in answer["Cache-Control"]


@pytest.mark.usefixtures("entitled")
def test_it_says_as_of_when_its_newest_message_is(bob: User, carrier: Sidecar) -> None:
    Rule.objects.create(user=bob, pattern=IBM, action=Action.PUBLISH)
    token, _ = mint(bob)
    until(lambda: control().check(IBM, "publish", token)["allowed"])
    with WirePublisher(carrier, token) as publisher:
        for as_of in ("yesterday", {"time": "2026-11-24T09:00:00Z", "batch": 7}):
            (seq,) = publisher.publish([IBM, "196", {}, {"as_of": as_of}])
            assert seq > 0
            assert ask(Client(), token=token).json()["as_of"] == as_of


@pytest.mark.usefixtures("entitled")
def test_what_cannot_be_answered_says_why(bob: User, client: Client) -> None:
    """403 without the right, 404 without a snapshot, 400 for what is no subject, 401 for what is no token."""
    publish(NEWS, "secret")
    token, _ = mint(bob)
    denied = ask(client, NEWS, token=token)
    assert (denied.status_code, denied["Content-Type"]) == (403, "application/problem+json")
    assert denied.json() == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "no rule allows it",
    }
    assert ask(client).status_code == 403, "anonymous visitors have no rule"
    assert ask(client, "/stocks/us/NONE", token=token).status_code == 404
    assert ask(client, "/stocks/", token=token).json()["detail"] == "last segment empty"
    assert ask(client, "stocks", token=token).status_code == 400
    assert ask(client, None).status_code == 400
    bad = ask(client, token="x.y.z")
    assert (bad.status_code, bad["WWW-Authenticate"]) == (401, "Bearer")
    assert client.post("/snapshot").status_code == 405


@pytest.mark.usefixtures("entitled")
def test_an_ended_token_is_refused(bob: User, client: Client) -> None:
    """As soon as its time is over."""
    token, _ = mint(bob, seconds=1)
    until(lambda: ask(client, token=token).status_code == 401)


@pytest.mark.usefixtures("entitled")
def test_anonymous_visitors_have_their_own_rules(client: Client) -> None:
    """A rule for everyone counts without a token as well."""
    Rule.objects.create(everyone=True, pattern=NEWS)
    publish(NEWS, "hello")
    until(lambda: ask(client, NEWS).status_code == 200)


def test_not_ready_and_away_mean_try_again(carrier: Sidecar, bob: User, client: Client) -> None:
    """Before the rights have come, and while there is no sidecar."""
    carrier.kill()
    carrier.start()
    token, _ = mint(bob)
    early = ask(client, token=token)
    assert (early.status_code, early["Retry-After"]) == (503, "1")
    carrier.kill()
    away = ask(client, token=token)
    assert (away.status_code, away["Retry-After"]) == (503, "1")
    assert "runrealtime" in away.json()["detail"]


@pytest.mark.usefixtures("entitled")
def test_what_is_short_is_forwarded_and_streams_are_not(bob: User, client: Client) -> None:
    """With a body and its headers; what would hold a thread for long says what it needs."""
    Rule.objects.create(user=bob, pattern=NEWS, action=Action.PUBLISH)
    token, _ = mint(bob)
    until(lambda: control().check(NEWS, "publish", token)["allowed"])
    bearer = {"Authorization": f"Bearer {token}", "Idempotency-Key": "one"}
    body = {"subject": NEWS, "content": "hello"}
    first, again = (
        client.post("/api/publish", body, content_type="application/json", headers=bearer).json()["results"]
        for _ in range(2)
    )
    assert first == again
    assert first[0]["status"] == "ok"
    client.force_login(bob)
    alone = client.post("/api/publish", body, content_type="application/json").json()["results"]
    assert alone[0]["status"] == "denied", "a session gives no right to publish"
    assert client.get("/api/history", {"subject": IBM, "token": token}).json()["subjects"][0]["status"] == "ok"
    waiting = client.get("/api/history", {"subject": IBM, "since": "1,1", "wait": "1", "token": token})
    assert (waiting.status_code, waiting.json()["status"]) == (501, 501)
    for path in ("/events?subjects=/a", "/session/stream"):
        assert (client.get(path).status_code, client.get(path)["Content-Type"]) == (501, "application/problem+json")


@pytest.mark.usefixtures("entitled")
def test_an_empty_length_is_none(bob: User, client: Client) -> None:
    """As some servers of WSGI have it for a request without a body."""
    publish(IBM, "193")
    place = {"subject": IBM, "token": mint(bob)[0]}
    assert client.get("/snapshot", place, CONTENT_LENGTH="", CONTENT_TYPE="").json()["content"] == "193"


@pytest.mark.usefixtures("entitled")
def test_a_body_that_django_does_not_read_is_413(client: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    body = {"subject": NEWS, "content": "x" * 200}
    assert client.post("/api/publish", body, content_type="application/json").status_code == 413


def test_without_a_plain_port_and_without_a_sidecar_it_is_away(client: Client, settings: Any) -> None:
    for url in ("", "ws://127.0.0.1:1/ws"):
        settings.REALTIME = settings.REALTIME | {"RELAY_URL": url}
        away = ask(client)
        assert (away.status_code, away["Retry-After"]) == (503, "1")
