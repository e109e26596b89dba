"""Sessions of each store of Django's: when they end, and requests of pages that do not put that off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import login, logout
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.signed_cookies import SessionStore as CookieStore
from django.contrib.sessions.models import Session
from django.core import signing
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.utils import timezone

from entitlement.sessions import UNTOLD_SECONDS, seconds_left
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify
from realtime.conf import conf
from tests.support.stand_in import StandIn

pytestmark = pytest.mark.django_db(transaction=True)

STORES = ("db", "cached_db", "cache", "signed_cookies")
COOKIE = django_settings.SESSION_COOKIE_NAME


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, settings: Any) -> Iterator[str]:
    """Each of Django's stores, whose sessions any request puts off."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "sessions"}}
    settings.SESSION_ENGINE = f"django.contrib.sessions.backends.{request.param}"
    settings.SESSION_SAVE_EVERY_REQUEST = True
    yield request.param
    caches["default"].clear()


@pytest.fixture
def page(bob: User, store: str) -> Client:
    """A page of bob's, who may see the monitoring."""
    bob.user_permissions.add(Permission.objects.get(codename="view_monitoring"))
    client = Client()
    client.force_login(bob)
    return client


def session_of(client: Client) -> SessionBase:
    """As the store has it."""
    found: SessionBase = import_module(django_settings.SESSION_ENGINE).SessionStore(client.cookies[COOKIE].value)
    return found


def saved(client: Client) -> tuple[Any, ...]:
    """All that would tell that the session was saved again."""
    key = client.cookies[COOKIE].value
    row = Session.objects.filter(session_key=key).values_list("expire_date", "session_data").first()
    return key, row, getattr(caches["default"], "_expire_info", {}).copy()


ASKED: dict[str, Callable[[Client], HttpResponse]] = {
    "a token": lambda page: page.post("/realtime/token/"),
    "servers": lambda page: page.get("/api/servers/"),
    "a snapshot": lambda page: page.get("/snapshot?subject=/a/b"),
    "statistics": lambda page: page.get("/api/stats/"),
    "a series": lambda page: page.get("/api/stats/series/"),
    "metrics": lambda page: page.get("/metrics"),
    "what needs attention": lambda page: page.get("/monitoring/data/attention/"),
    "a page that shows itself anew": lambda page: page.get("/monitoring/clients/", headers={"X-Live": "1"}),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_pages_ask_by_themselves_leaves_the_session_as_it_was(page: Client, settings: Any, what: str) -> None:
    """Its end, its data and its cookie; what a user asks for does put it off."""
    before = saved(page)
    with StandIn("sidecar") as sidecar:
        settings.REALTIME = settings.REALTIME | {"RELAY_URL": f"ws://{sidecar.address}/ws"}
        answer = ASKED[what](page)
    assert answer.status_code == 200
    assert COOKIE not in answer.cookies
    assert saved(page) == before
    if what == "a token":
        assert "Cookie" in answer["Vary"]
    assert COOKIE in page.get("/monitoring/clients/").cookies


def test_a_token_ends_with_the_session(page: Client, store: str, settings: Any) -> None:
    """Not with the end that the session would have if it were saved now."""
    settings.SESSION_COOKIE_AGE = 1000
    session = session_of(page)
    session.save()
    page.cookies[COOKIE] = session.session_key
    assert 0 < seconds_left(session) <= 1000
    age(page, session, by=900)
    answer = page.post("/realtime/token/")
    left = verify(answer.json()["token"], Keys(conf.token_secret), now=0).expires / 1000 - time.time()
    assert left <= (UNTOLD_SECONDS if store == "cache" else 100)
    assert left > 30
    age(page, session, by=101)
    assert page.post("/realtime/token/").status_code == 401


@pytest.mark.parametrize("expiry", [300, timedelta(seconds=300), "a date"])
def test_a_session_with_an_end_of_its_own(page: Client, store: str, expiry: Any) -> None:
    """In seconds since it was saved, or as a date."""
    session = session_of(page)
    session.set_expiry(timezone.now() + timedelta(seconds=300) if expiry == "a date" else expiry)
    session.save()
    page.cookies[COOKIE] = session.session_key
    assert 30 < seconds_left(session) <= 300
    age(page, session, by=250)
    if store in ("db", "cached_db") or (store == "signed_cookies" and expiry == 300):
        assert seconds_left(session_of(page)) <= 50


def age(page: Client, session: SessionBase, by: float) -> None:
    """The session was saved so many seconds earlier."""
    key = session.session_key
    for row in Session.objects.filter(session_key=key):
        row.expire_date -= timedelta(seconds=by)
        row.save()
    ends = getattr(caches["default"], "_expire_info", {})
    for name in ends:
        ends[name] -= by
    if isinstance(session, CookieStore):
        signer = signing.Signer(salt="django.contrib.sessions.backends.signed_cookies")
        value, moment, _ = page.cookies[COOKIE].value.rsplit(":", 2)
        key = signer.sign(f"{value}:{signing.b62_encode(signing.b62_decode(moment) - int(by))}")
    page.cookies[COOKIE] = key


def signs_in(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware that signs in whom a header names, and out who is to go; it notes each request in the session."""

    def answer(request: HttpRequest) -> HttpResponse:
        if name := request.headers.get("X-Name"):
            login(request, User.objects.get(username=name), "django.contrib.auth.backends.ModelBackend")
        if request.headers.get("X-Go"):
            logout(request)
        request.session["seen"] = time.monotonic()
        response = get_response(request)
        response["X-Seen"] = request.session["seen"]  # it is there as before for who looks at it
        return response

    return answer


def test_what_other_middleware_does_with_sessions(bob: User, store: str, settings: Any) -> None:
    """Who is signed in by the request itself has a session from then on, who is signed out by it has none."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.signs_in"]
    page = Client()
    answer = page.post("/realtime/token/", headers={"X-Name": "bob"})
    assert answer.status_code == 200
    assert answer.cookies[COOKIE].value
    before = saved(page)
    answer = page.post("/realtime/token/")
    assert (answer.status_code, COOKIE in answer.cookies, saved(page)) == (200, False, before)
    assert answer["X-Seen"]
    assert page.post("/realtime/token/", headers={"X-Go": "1"}).status_code == 401
    assert page.post("/realtime/token/").status_code == 401
