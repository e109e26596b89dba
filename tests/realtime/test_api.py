"""The snapshot endpoint and the token endpoint, over a real sidecar that asks rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from entitlement.models import Rule
from entitlement.tokens import mint
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify
from realtime import publish
from realtime.conf import conf
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
            "kind": "snapshot",
        }
        assert "no-store" in answer["Cache-Control"]


@pytest.mark.usefixtures("entitled")
def test_what_cannot_be_answered_says_why(bob: User, client: Client) -> None:
    """403 without the right, 404 without a snapshot, 400 for what is no subject, 401 for what is no token."""
    publish(NEWS, "secret")
    token, _ = mint(bob)
    denied = ask(client, NEWS, token=token)
    assert (denied.status_code, list(denied.json())) == (403, ["detail"])
    assert ask(client).status_code == 403, "anonymous visitors have no rule"
    assert ask(client, token=token).status_code == 404
    assert ask(client, "/stocks/", token=token).json() == {"detail": "last segment empty"}
    assert ask(client, "stocks", token=token).status_code == 400
    assert ask(client, None).status_code == 400
    bad = ask(client, token="x.y.z")
    assert (bad.status_code, bad["WWW-Authenticate"]) == (401, "Bearer")
    assert client.post("/snapshot").status_code == 405


@pytest.mark.usefixtures("entitled")
def test_an_ended_token_is_refused(bob: User, client: Client) -> None:
    """As soon as its time is over."""
    token, _ = mint(bob, seconds=1)
    until(lambda: ask(client, token=token).status_code == 401, 5)


@pytest.mark.usefixtures("entitled")
def test_anonymous_visitors_have_their_own_rules(client: Client) -> None:
    """A rule for everyone counts without a token as well."""
    Rule.objects.create(everyone=True, pattern=NEWS)
    publish(NEWS, "hello")
    until(lambda: ask(client, NEWS).status_code == 200)


def test_not_ready_and_away_mean_try_again(carrier: Sidecar, bob: User, client: Client) -> None:
    """Before the rights have come, and while there is no sidecar."""
    token, _ = mint(bob)
    early = ask(client, token=token)
    assert (early.status_code, early["Retry-After"]) == (503, "1")
    carrier.kill()
    away = ask(client, token=token)
    assert (away.status_code, away["Retry-After"]) == (503, "1")
    assert "runrealtime" in away.json()["detail"]


def test_a_signed_in_user_gets_a_token(bob: User, settings: Any, tmp_path: Path) -> None:
    """The sidecar need not run for it; it belongs to the session."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    client = Client()
    assert client.post("/realtime/token/").status_code == 401
    client.force_login(bob)
    answer = client.post("/realtime/token/")
    assert answer.status_code == 200
    body = answer.json()
    claims = verify(body["token"], Keys(conf.token_secret), now=0)
    assert (body["user"], body["expires"]) == ("bob", claims.expires)
    assert (claims.user, bool(claims.session)) == ("bob", True)
    assert client.get("/realtime/token/").status_code == 405


def test_another_site_cannot_have_a_token_made(bob: User) -> None:
    """The session's cookie alone is not enough."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    assert client.post("/realtime/token/").status_code == 403
