"""The token endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import Client
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from entitlement.sessions import session_id
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import Claims, verify
from realtime import checks
from realtime.conf import conf

pytestmark = pytest.mark.django_db(transaction=True)


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


class Badges(BaseAuthentication):
    """An authenticator as a project's API has it: ``Authorization: Badge NAME SECONDS``."""

    def authenticate(self, request: Request) -> tuple[User, dict[str, float]] | None:
        """The user of a badge, and until when it is good."""
        kind, *rest = get_authorization_header(request).decode().split() or [""]
        if kind != "Badge":
            return None
        if len(rest) != 2:
            raise AuthenticationFailed("a badge has a name and a time")
        user = User.objects.filter(username=rest[0]).first()
        if user is None:
            raise AuthenticationFailed("nobody has this badge")
        return user, {"exp": time.time() + float(rest[1])} if rest[1] != "0" else {}

    def authenticate_header(self, request: Request) -> str:
        """What is asked for."""
        return 'Badge realm="desk"'


BADGES = f"{Badges.__module__}.{Badges.__qualname__}"
SESSION = "rest_framework.authentication.SessionAuthentication"


def ask(client: Client, badge: str = "") -> tuple[int, Any]:
    """The status, and the claims of the token, or what is said instead."""
    answer = client.post("/realtime/token/", headers={"Authorization": badge} if badge else {})
    if answer.status_code != 200:
        return answer.status_code, answer
    return 200, verify(answer.json()["token"], Keys(conf.token_secret), now=0)


def named(settings: Any, *paths: str) -> None:
    settings.REST_FRAMEWORK = settings.REST_FRAMEWORK | {"DEFAULT_AUTHENTICATION_CLASSES": list(paths)}


def test_who_may_use_the_projects_api_gets_a_token(bob: User, settings: Any) -> None:
    """By its own authenticators, without a cookie; a page's session goes on as before."""
    assert ask(Client(), "Badge bob 0")[0] == 401, "nobody has named it"
    named(settings, BADGES)
    status, claims = ask(Client(enforce_csrf_checks=True), "Badge bob 0")
    assert (status, claims.user, claims.uid, claims.session) == (200, "bob", str(bob.pk), "")
    status, answer = ask(Client(), "Badge eve 0")
    assert (status, answer["WWW-Authenticate"]) == (401, 'Badge realm="desk"')
    assert ask(Client(), "Badge")[0] == 401
    page = Client()
    page.force_login(bob)
    status, claims = ask(page)
    assert (status, claims.user, bool(claims.session)) == (200, "bob", True)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert ask(strict)[0] == 403, "a cookie alone is still not enough"


def test_a_token_that_is_given_for_another_does_not_outlive_it(bob: User, settings: Any) -> None:
    named(settings, BADGES)
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECONDS": 3600}
    now = int(time.time()) * 1000

    def lasts(badge: str) -> float:
        claims = ask(Client(), badge)[1]
        assert isinstance(claims, Claims)
        return (claims.expires - now) / 1000

    assert 3590 <= lasts("Badge bob 0") <= 3700, "it says no end"
    assert 3590 <= lasts("Badge bob 99999999") <= 3700
    assert 200 <= lasts("Badge bob 300") <= 400
    assert ask(Client(), "Badge bob -5")[0] == 401


def test_a_badge_beside_the_session_of_somebody_else(bob: User, settings: Any) -> None:
    """The token is the badge's, and does not end with a session that is not that user's."""
    named(settings, BADGES, SESSION)
    page = Client()
    page.force_login(User.objects.create_user("ann"))
    status, claims = ask(page, "Badge bob 0")
    assert (status, claims.user, claims.session) == (200, "bob", "")
    assert ask(page)[1].user == "ann"


def stand_in(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware by which a user acts as somebody else for the time of a session."""

    def answer(request: HttpRequest) -> HttpResponse:
        if name := request.session.get("acts_as"):
            request.user = User.objects.get(username=name)
        return get_response(request)

    return answer


def test_who_acts_as_somebody_else_does_so_until_the_session_ends(bob: User, settings: Any) -> None:
    """The user is not the session's, and the token is."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{stand_in.__module__}.{stand_in.__qualname__}"]
    page = Client()
    page.force_login(User.objects.create_user("ann"))
    session = page.session
    session["acts_as"] = "bob"
    session.save()
    status, claims = ask(page)
    assert (status, claims.user, claims.session) == (200, "bob", session_id(session.session_key))


def test_a_deactivated_user_gets_none(bob: User, settings: Any) -> None:
    named(settings, BADGES)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert ask(Client(), "Badge bob 0")[0] == 401


def test_the_setting_wins(bob: User, settings: Any) -> None:
    named(settings, BADGES)
    settings.REALTIME = settings.REALTIME | {"TOKEN_AUTHENTICATORS": [SESSION]}
    assert ask(Client(), "Badge bob 0")[0] == 401
    page = Client()
    page.force_login(bob)
    assert ask(page, "Badge bob 0")[1].session
    settings.REALTIME = settings.REALTIME | {"TOKEN_AUTHENTICATORS": [BADGES]}
    assert ask(page)[0] == 401, "the session was not named"


def test_the_frameworks_own_defaults_are_not_taken(bob: User) -> None:
    """They take passwords: whoever wants that names them."""
    assert ask(Client(), "Basic Ym9iOmRlbW8=")[0] == 401


@pytest.mark.parametrize("given", ["nowhere.Badges", "realtime.nowhere", "realtime.api.TokenView", "badges", SESSION])
def test_an_authenticator_that_is_none_is_named(given: Any, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"TOKEN_AUTHENTICATORS": given if given == SESSION else [given]}
    [error] = checks.check_token_authenticators()
    assert (error.id, "TOKEN_AUTHENTICATORS" in error.hint) == ("realtime.E016", True)
