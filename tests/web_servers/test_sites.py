"""A whole site behind each web server: what goes where, what is told to whom, and time-outs that are in force."""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import pytest

from tests.support import web_servers
from tests.support.certificates import Certificate
from tests.support.edge.wire import Ended, Socket, WireClient, WirePublisher
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import Sidecar
from tests.support.stand_in import StandIn
from tests.support.waiting import until
from tests.support.web_servers import Front, Places

pytestmark = [pytest.mark.slow, pytest.mark.webservers]

SITES: dict[str, Callable[[Places], Front]] = {
    "nginx": web_servers.nginx_site,
    "apache": web_servers.apache_site,
    "haproxy": web_servers.haproxy_site,
}
IDLE_SECONDS = 1


class Site(NamedTuple):
    """A web server, and who stands for Django and for the sidecar behind it."""

    name: str
    front: Front
    django: StandIn
    sidecar: StandIn


@pytest.fixture(scope="module")
def certificate(folder: Path) -> Certificate:
    """Of the site, with a file among its static ones."""
    (folder / "static").mkdir()
    (folder / "static" / "app.js").write_text("export const answer = 42;\n" * 1000)
    return Certificate(folder)


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest, folder: Path, certificate: Certificate) -> Iterator[Site]:
    """One of each."""
    with StandIn("django") as django, StandIn("sidecar") as sidecar:
        places = Places(
            folder, certificate, sidecar.address, django.address, metrics=sidecar.address, seconds=IDLE_SECONDS
        )
        with SITES[request.param](places) as front:
            yield Site(request.param, front, django, sidecar)


def asked(front: Front, path: str, source: str = "", **headers: str) -> dict[str, Any]:
    """What the server behind was asked."""
    with front.answer(path, source, **headers) as answer:
        assert answer.status == 200, path
        said: dict[str, Any] = json.load(answer)
    return said


def test_each_path_goes_to_who_has_it(site: Site) -> None:
    of_sidecar = ("/api/publish", "/api/history?subject=/a/b", "/snapshot?subject=/a/b&token=t")
    of_django = (
        "/",
        "/board/",
        "/admin/login/?next=/",
        "/api/servers/",
        "/api/stats/?seconds=60",
        "/wsx",
        "/eventsx",
        "/snapshots",
    )
    for server, paths in (("sidecar", of_sidecar), ("django", of_django)):
        for path in paths:
            said = asked(site.front, path)
            assert (said["server"], said["path"]) == (server, path)


def test_pages_are_told_how_they_were_asked(site: Site) -> None:
    """And what a browser says itself of that is not passed on."""
    headers = asked(site.front, "/", Host="live.example.com", X_Forwarded_Proto="http")["headers"]
    assert (headers["host"], headers["x-forwarded-proto"]) == ("live.example.com", "https")
    plain = urllib.request.Request(f"http://127.0.0.1:{[*site.front.ports.values()][1]}/board/", method="HEAD")
    with pytest.raises(urllib.error.HTTPError) as redirected:
        urllib.request.build_opener(NoRedirect).open(plain)
    redirected.value.close()
    assert redirected.value.code == 301
    assert redirected.value.headers["Location"].startswith("https://")
    assert redirected.value.headers["Location"].endswith("/board/")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Answers a redirect as it is."""

    def redirect_request(self, *_: Any) -> None:
        """Not followed."""


def test_static_files_come_from_the_folder(site: Site) -> None:
    if site.name == "haproxy":
        assert asked(site.front, "/static/app.js")["server"] == "django"
        return
    with site.front.answer("/static/app.js") as answer:
        assert (answer.status, answer.read()[:12]) == (200, b"export const")
        assert "javascript" in answer.headers["Content-Type"]


def test_an_event_goes_on_at_once_and_uncompressed(site: Site) -> None:
    site.sidecar.go_on.clear()
    with site.front.answer("/events?subjects=/a/b", Accept_Encoding="gzip, deflate") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Content-Encoding"] is None
        assert answer.read1(100) == b"data: first\n\n"  # nothing else comes before that is read
        site.sidecar.go_on.set()
        assert answer.read() == b"data: second\n\n"


def test_tokens_are_not_written_down(site: Site) -> None:
    asked(site.front, "/api/servers/?token=secret-token")
    written = [path for path in site.front.folder.rglob("*") if path.is_file() and path != site.front.file]
    if site.name != "haproxy":  # which logs to a socket
        until(lambda: any("/api/servers/" in path.read_text(errors="replace") for path in written))
    assert not any("secret-token" in path.read_text(errors="replace") for path in written)
    assert "secret-token" not in site.front.output


def test_a_silent_socket_ends_with_the_time_out(site: Site) -> None:
    """Without pings: that they keep a socket open is seen elsewhere, with the same lines."""
    begun = time.monotonic()
    with site.front.client() as client, pytest.raises(Ended):
        client.next_frame()
    assert time.monotonic() - begun >= IDLE_SECONDS * 0.9


@pytest.mark.parametrize("start", [web_servers.nginx_stream, web_servers.haproxy_tcp], ids=["nginx", "haproxy"])
def test_a_silent_stream_ends_with_the_time_out(
    folder: Path, certificate: Certificate, start: Callable[[Places], Front]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, StandIn("metrics") as health:
        here = f"127.0.0.1:{silent.getsockname()[1]}"
        places = Places(folder, certificate, here, "", here, health.address, IDLE_SECONDS)
        tls = certificate.trusting() if start is web_servers.nginx_stream else None
        with start(places) as front:
            begun = time.monotonic()
            with Socket(f"127.0.0.1:{front.port}", tls=tls) as client:
                assert client.rest() == b""
            assert time.monotonic() - begun >= IDLE_SECONDS * 0.9


def test_behind_another_proxy_apache_believes_that_one_alone(folder: Path, certificate: Certificate) -> None:
    with StandIn("sidecar") as sidecar:
        places = Places(folder, certificate, sidecar.address, sidecar.address)
        with web_servers.apache_site(places, behind="127.0.0.9") as apache:
            for source, said, wanted in (
                ("127.0.0.9", "198.51.100.9", "198.51.100.9"),
                ("127.0.0.9", "10.1.1.1, 198.51.100.9", "198.51.100.9"),
                ("127.0.0.2", "198.51.100.9", "127.0.0.2"),
            ):
                headers = asked(apache, "/api/history", source, X_Forwarded_For=said)["headers"]
                assert headers["x-forwarded-for"].split(", ")[-1] == wanted


def test_haproxy_sends_nobody_to_a_node_that_is_not_ready(folder: Path, certificate: Certificate) -> None:
    with StandIn("sidecar") as sidecar:
        places = Places(folder, certificate, sidecar.address, sidecar.address, metrics=sidecar.address)
        with web_servers.haproxy_site(places) as haproxy, haproxy.client() as old:
            assert asked(haproxy, "/api/history")["server"] == "sidecar"
            sidecar.is_draining = True

            def is_refused() -> bool:
                with haproxy.answer("/api/history") as answer:
                    return answer.status == 503

            until(is_refused, 20)
            assert old.silent()


@contextmanager
def django(unix: Path, **environment: str) -> Iterator[Program]:
    """This repository's project on a unix socket, as it is behind a proxy with TLS."""
    argv = [sys.executable, "-m", "realtime.web", "-u", str(unix), "realtime.asgi:application"]
    production = {
        "REALTIME_HTTPS": "proxy",
        "REALTIME_DEBUG": "0",
        "DJANGO_SETTINGS_MODULE": "realtime.settings",
        "REALTIME_VAR": str(unix.parent / "var"),
    }
    with Program(argv, production | environment, "Configuring endpoint unix") as program:
        until(unix.exists)
        yield program


def test_a_page_finds_its_sidecar_through_nginx(folder: Path, certificate: Certificate) -> None:
    """All real: the list of servers from Django names the site itself, and there is the sidecar."""
    ports = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    places = Places(folder, certificate, ports[0], "", ports[1])
    by_unix = places.in_place(web_servers.listeners(f"{web_servers.PAGES}/nginx.md")[0])
    copytree(ROOT / "realtime" / "static" / "realtime", folder / "static" / "realtime")  # as `collectstatic` does
    with (
        Sidecar(listen=by_unix, trusted_proxies="unix") as sidecar,
        django(folder / "web.sock", FASTPATH_CONTROL=sidecar.control, FASTPATH_LISTEN=by_unix),
        web_servers.nginx_site(places, unix=True) as nginx,
    ):
        host = f"localhost:{nginx.port}"
        with nginx.answer("/api/servers/", Host=host) as answer:
            [server] = json.load(answer)["servers"]
        assert server["url"] == f"wss://{host}/ws"
        with nginx.answer("/static/realtime/client.js") as answer:
            assert b"export" in answer.read()
        with (
            WireClient(f"ws://{host}/ws", tls=nginx.trusting, headers=f"Origin: https://{host}\r\n") as client,
            WirePublisher(sidecar) as publisher,
        ):
            client.subscribe("/whole/site")
            publisher.publish(["/whole/site", "x"])
            assert client.texts(1) == ["x"]
