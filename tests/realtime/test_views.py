"""Who may see which page, and what its script is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.test import Client, RequestFactory

from realtime.views import page_context
from tests.support.sidecar import Sidecar


@pytest.mark.django_db
def test_the_board_asks_to_sign_in() -> None:
    """And comes back to where it was."""
    answer = Client().get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/accounts/login/?next=/")


@pytest.mark.django_db
def test_the_console_is_for_staff_and_who_has_the_permission() -> None:
    """Who is not signed in is asked to; the admin links to it."""
    client = Client()
    assert client.get("/console/")["Location"] == "/accounts/login/?next=/console/"
    bob = User.objects.create_user("bob")
    client.force_login(bob)
    assert client.get("/console/").status_code == 403
    assert b"/console/" not in client.get("/").content
    bob.user_permissions.add(Permission.objects.get(codename="use_console"))
    assert client.get("/console/").status_code == 200
    assert b"/console/" in client.get("/").content
    client.force_login(User.objects.create_superuser("root"))
    assert b'href="/console/"' in client.get("/admin/").content


@pytest.mark.django_db
def test_signing_out_is_a_post() -> None:
    """A link on another page must not be able to do it."""
    client = Client()
    client.force_login(User.objects.create_user("bob"))
    assert client.get("/accounts/logout/").status_code == 405
    assert client.post("/accounts/logout/")["Location"] == "/accounts/login/"
    assert "_auth_user_id" not in client.session


def test_the_browser_finds_its_icon() -> None:
    """Without a page to look into."""
    answer = Client().get("/favicon.ico")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")


def test_what_the_script_is_told(carrier: Sidecar) -> None:
    """Addresses, the token's endpoint, the user; all of it fit for JSON."""
    request = RequestFactory().get("/", headers={"host": "localhost:8000"})
    request.user = User(username="alice")
    context = page_context(request)
    config = json.loads(json.dumps(context["config"]))
    port = carrier.client_url.rsplit(":", 1)[1]
    own = {"url": f"ws://localhost:{port}", "weight": 100}  # this request came by WSGI, where there is no relay
    assert (config["servers"], config["servers_url"]) == ([own], "/api/servers/")
    assert (config["token_url"], config["user"], config["demo"]) == ("/realtime/token/", "alice", False)
    assert context["sidecar_error"] == ""


@pytest.mark.parametrize("hidden", ["", "CSRF_COOKIE_HTTPONLY", "CSRF_USE_SESSIONS"])
def test_the_script_has_the_token_that_django_asks_of_it(carrier: Sidecar, settings: Any, hidden: str) -> None:
    """Its own, and where a newer one is, if a script may read that; by the names that the project has chosen."""
    settings.CSRF_COOKIE_NAME, settings.CSRF_HEADER_NAME = "shop", "HTTP_X_SHOP_TOKEN"
    if hidden:
        setattr(settings, hidden, True)
    request = RequestFactory().get("/", headers={"host": "localhost:8000"})
    request.user = User(username="alice")
    config = page_context(request)["config"]
    assert (config["csrf_header"], config["csrf_cookie"]) == ("X-SHOP-TOKEN", "" if hidden else "shop")
    assert len(config["csrf_token"]) == 64


@pytest.mark.django_db
def test_the_board_is_told_what_the_jobs_make(carrier: Sidecar) -> None:
    """The instruments, and the subjects of bars, movers and alerts; other pages need none of it."""
    client = Client(headers={"host": "localhost:8000"})
    client.force_login(User.objects.create_superuser("root"))
    config = client.get("/").context["config"]
    apple = {"subject": "/stocks/us/AAPL", "symbol": "AAPL", "name": "Apple", "exchange": "NASDAQ"}
    assert apple in config["instruments"]
    assert len(config["instruments"]) == 20
    assert config["market"]["bars"]["AAPL"] == {
        "1s": "/bars-1s/us/AAPL", "1m": "/bars-1m/us/AAPL", "1d": "/bars-1d/us/AAPL"
    }  # fmt: skip
    assert len(config["market"]["bars"]) == len(config["instruments"])
    assert (config["market"]["movers"], config["market"]["alerts"]) == ("/movers/us/*", "/alerts/us/*")
    assert config["market"]["intervals"] == ["1s", "1m", "1d"]
    assert "market" not in client.get("/console/").context["config"]


def test_a_page_says_that_the_sidecar_is_away(settings: Any, tmp_path: Path) -> None:
    """It is shown all the same."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    request = RequestFactory().get("/", headers={"host": "localhost:8000"})
    request.user = AnonymousUser()
    assert "runrealtime" in page_context(request)["sidecar_error"]


@pytest.mark.django_db
def test_the_login_page_names_the_users_of_the_demonstration_only_there(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their password is public; another site's login page says nothing of them."""
    monkeypatch.delenv("REALTIME_DEMO", raising=False)
    assert b"alice" not in client.get("/accounts/login/").content
    monkeypatch.setenv("REALTIME_DEMO", "1")
    assert b"alice" in client.get("/accounts/login/").content
