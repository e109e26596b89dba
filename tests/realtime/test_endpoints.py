"""What clients are told of where to connect: below a prefix, behind a login for all pages, and under WSGI."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from websockets.sync.client import connect

from tests.support.guide import Project
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

MIDDLEWARE = "django.contrib.auth.middleware.LoginRequiredMiddleware"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of the guide's, with pages for who is signed in."""
    made = Project(tmp_path, f'MIDDLEWARE += ["{MIDDLEWARE}"]\nALLOWED_HOSTS = ["*"]')
    made.migrate()
    return made


def servers(url: str) -> list[str]:
    """The addresses that a page is told."""
    with urllib.request.urlopen(f"{url}/realtime/api/servers/", timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
        return [server["url"] for server in json.load(answer)["servers"]]


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """Everybody may do everything."""
    with Sidecar(mode="none") as running:
        yield running


def web(project: Project, sidecar: Sidecar, *options: str) -> Program:
    """The project's web server alone."""
    argv = [sys.executable, "-m", "realtime.web", "-b", "127.0.0.1", "-p", "0", *options, "mysite.asgi:application"]
    more = {"DJANGO_SETTINGS_MODULE": "mysite.settings", "FASTPATH_LISTEN": sidecar.settings["listen"]}
    ready = r"Listening on TCP address [\d.]+:(\d+)"
    return Program(argv, more, ready, folder=project.folder, base=project.environment)


@pytest.mark.parametrize("by", ["FORCE_SCRIPT_NAME", pytest.param("root path", marks=pytest.mark.slow), "proxy"])
def test_the_relay_below_a_prefix(project: Project, sidecar: Sidecar, by: str) -> None:
    """The address that a page is told is one that takes it, whether or not a proxy takes the prefix off."""
    if by == "FORCE_SCRIPT_NAME":
        project.append("mysite/settings.py", 'FORCE_SCRIPT_NAME = "/app"')
    options = [] if by == "FORCE_SCRIPT_NAME" else ["--root-path", "/app"]
    with web(project, sidecar, *options) as program:
        site = f"127.0.0.1:{program.found[1]}"
        (relay,) = [url for url in servers(f"http://{site}/app") if site in url]
        assert relay == f"ws://{site}/app/ws"
        with connect(relay.replace("/app", "") if by == "proxy" else relay) as client:
            client.send('{"op":"connect","id":1}')
            assert json.loads(client.recv(timeout=PATIENCE_SECONDS))["op"] == "connected"
        events = f"http://{site}{'' if by == 'proxy' else '/app'}/events?subjects=/orders/**"
        with urllib.request.urlopen(events, timeout=PATIENCE_SECONDS) as answer:
            assert answer.readline() == b"retry: 2000\n"


def test_a_wsgi_process_tells_of_no_relay(project: Project, sidecar: Sidecar) -> None:
    """It has none; where a proxy has one, REALTIME["SERVERS"] says so."""
    port = sidecar.client_url.rpartition(":")[2].partition("/")[0]
    serve = (
        "import sys; from wsgiref.simple_server import make_server; from mysite.wsgi import application\n"
        "server = make_server('127.0.0.1', 0, application); print('at', server.server_port); server.serve_forever()"
    )
    more = {"FASTPATH_LISTEN": sidecar.settings["listen"]}

    def wsgi() -> Program:
        argv = [sys.executable, "-c", serve]
        return Program(argv, more, r"at (\d+)\n", folder=project.folder, base=project.environment)

    with wsgi() as program:
        assert servers(f"http://127.0.0.1:{program.found[1]}") == [f"ws://127.0.0.1:{port}/ws"]
    project.append("mysite/settings.py", 'REALTIME = {"SERVERS": ["{web}"]}')
    with wsgi() as program:
        assert servers(f"http://127.0.0.1:{program.found[1]}") == [f"ws://127.0.0.1:{program.found[1]}/ws"]


def test_over_tls_the_proxy_in_front_may_have_what_wsgi_has_not(settings: Any) -> None:
    """A page over TLS may not open the plain port: /ws of the site is all that can be."""
    settings.REALTIME = settings.REALTIME | {"SERVERS": None}
    (server,) = Client().get("/api/servers/", secure=True).json()["servers"]
    assert server == {"url": "wss://testserver/ws", "weight": 100}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/servers/", 200),
        ("/api/servers", 200),
        ("/healthz", 200),
        ("/favicon.ico", 200),
        ("/readyz", 503),
        ("/snapshot?subject=/a/b", 503),
        ("/realtime/token/", 405),
        ("/api/stats/", 401),
        ("/metrics", 401),
        ("/accounts/login/", 200),
        ("/", 302),
        ("/monitoring/", 302),
    ],
)
def test_a_login_for_all_pages_leaves_what_is_for_everybody(settings: Any, path: str, status: int) -> None:
    """Programs that have a token, a password or no need of either are not sent to a login page; pages are."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    settings.REALTIME = settings.REALTIME | {"CONTROL": "/nowhere/fastpath.sock"}
    assert Client().get(path).status_code == status
