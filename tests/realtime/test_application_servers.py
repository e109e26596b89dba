"""Servers of docs/operate/application-servers.md, by the commands that stand there, in an environment of their own.

Each serves one project of the guide's blocks with WhiteNoise, beside ``runrealtime --without-web``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from fastpath.client.control.client import Control
from tests.support.guide import Project, Running, every
from tests.support.ports import free_port
from tests.support.processes import descendants, running
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = "docs/operate/application-servers.md"
CSRF = "c" * 32
PRODUCTION = {"DJANGO_SETTINGS_MODULE": "mysite.production"}
SESSION = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
user, _ = get_user_model().objects.get_or_create(username="ann")
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
print(session.session_key)
"""


class Server(NamedTuple):
    """``command``: what the page's command begins with; ``instead``: what it says in its place."""

    command: str
    has_relay: bool
    instead: tuple[str, str] = ("", "")


SERVERS = {
    "uvicorn": Server("uvicorn --port", True),
    "hypercorn": Server("hypercorn --bind", True),
    "granian": Server("granian --interface", True),
    "gunicorn": Server("gunicorn --bind", False),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the servers' commands, in an environment that has this one's packages besides."""
    folder = tmp_path_factory.mktemp("servers")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    argv = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q"]
    argv += ["-r", str(ROOT / "requirements-servers.txt"), "-c", str(ROOT / "constraints.txt")]
    subprocess.run(argv, check=True, timeout=400)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    return folder / "bin"


class Site(NamedTuple):
    """The project, what runs beside its server, and the cookie of a signed-in user."""

    project: Project
    beside: Running
    cookie: str
    manifest: dict[str, str]


@pytest.fixture(scope="module")
def site(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Of the guide's blocks and this page's own, with static files named by their content."""
    project = Project(tmp_path_factory.mktemp("project"), python=str(programs / "python"))
    for block in every(PAGE, "python", "# mysite/production.py\n"):
        project.write(block)
    project.append("mysite/production.py", 'ALLOWED_HOSTS = ["127.0.0.1"]')
    project.manage("migrate", "-v0")
    project.manage("collectstatic", "--noinput", "-v0", "--settings", "mysite.production")
    session = project.shell(SESSION).strip()
    project.manage("entitlement_rules", "allow", "user:ann", "/orders/**")
    manifest = json.loads((project.folder / "static" / "staticfiles.json").read_text())["paths"]
    with project.running("--without-web", **PRODUCTION) as beside:
        yield Site(project, beside, f"sessionid={session}; csrftoken={CSRF}", manifest)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, programs: Path, site: Site) -> Iterator[tuple[Server, Program, str]]:
    """Running on a free port, and its address; it ends by itself when it is told to, and leaves nothing behind."""
    chosen, port = SERVERS[request.param], free_port()
    lines = [line for block in every(PAGE, "sh", "pip install") for line in block.text.splitlines()]
    command = next(line for line in lines if line.startswith(chosen.command))
    assert all(part in command for part in ("8000", chosen.instead[0]))
    argv = command.replace("8000", str(port)).replace(*chosen.instead).split()
    argv[0] = str(programs / argv[0])
    listen = f"clients://{site.beside.client_url.split('/')[2]},publishers://127.0.0.1:1"
    base = site.project.environment | {"PATH": f"{programs}:{os.environ['PATH']}", "FASTPATH_LISTEN": listen}
    with Program(argv, PRODUCTION, "", folder=site.project.folder, base=base) as program:
        until(lambda: _answers(f"http://127.0.0.1:{port}/order/") or program.process.poll() is not None, 60)
        yield chosen, program, f"http://127.0.0.1:{port}"
        pids = descendants(program.process.pid) | {program.process.pid}
        program.process.terminate()
        program.wait()
    until(lambda: not running(pids))
    assert "Traceback" not in program.output


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS):  # noqa: S310 - our own server
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


def get(url: str, data: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Status and text of an answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data, sent)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def ask(client: ClientConnection, op: str, **arguments: Any) -> Any:
    """Send a command and return what comes next."""
    client.send(json.dumps({"op": op, "id": 1} | arguments))
    return json.loads(client.recv(timeout=PATIENCE_SECONDS))


def token_of(url: str, site: Site) -> str:
    """As a page of the site asks for it."""
    status, text = get(f"{url}/realtime/token/", b"", Cookie=site.cookie, X_CSRFToken=CSRF)
    assert status == 200, text
    return str(json.loads(text)["token"])


def test_pages_static_files_tokens_and_messages(server: tuple[Server, Program, str], site: Site) -> None:
    """And the relay and streams, where the server has them: else they are refused, and not listed."""
    chosen, _, url = server
    assert get(f"{url}/order/")[0] == 200
    for name in ("realtime/client.js", "admin/css/base.css"):
        assert get(f"{url}/static/{site.manifest[name]}")[0] == 200, name
    assert get(f"{url}/realtime/token/", b"", X_CSRFToken=CSRF)[0] in (401, 403)
    token = token_of(url, site)
    servers = json.loads(get(f"{url}/realtime/api/servers/", Cookie=site.cookie)[1])
    relay = url.replace("http", "ws") + "/ws"
    assert (relay in {one["url"] for one in servers["servers"]}) == chosen.has_relay
    site.project.shell(f"from realtime import publish; publish('/orders/42', 'by {chosen.command}')")
    bearer = {"Authorization": f"Bearer {token}"}
    until(lambda: get(f"{url}/realtime/snapshot?subject=/orders/42", **bearer)[0] == 200)
    snapshot = json.loads(get(f"{url}/realtime/snapshot?subject=/orders/42", **bearer)[1])
    assert snapshot["content"] == f"by {chosen.command}"
    if not chosen.has_relay:
        assert get(f"{url}/realtime/events?subject=/orders/42", **bearer)[0] in (404, 501)
        with pytest.raises(InvalidHandshake):
            connect(relay)
        return
    with connect(relay) as client:
        assert ask(client, "connect", token=token)["user"] == "ann"
        assert ask(client, "subscribe", subjects=["/orders/42"])["op"] == "subscribed"
        until(lambda: chosen.command in client.recv(timeout=PATIENCE_SECONDS))
    events = urllib.request.Request(f"{url}/events?subject=/orders/42", headers=bearer)  # noqa: S310 - our own server
    with urllib.request.urlopen(events, timeout=PATIENCE_SECONDS) as stream:  # noqa: S310
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        until(lambda: chosen.command.encode() in stream.readline())


def test_a_browser_that_does_not_read_costs_a_bounded_amount(server: tuple[Server, Program, str], site: Site) -> None:
    """The server keeps no more than its own buffers of what is not read: the rest waits in the sidecar."""
    chosen, program, url = server
    if not chosen.has_relay:
        return
    token, socket = token_of(url, site), site.project.folder / "var" / "fastpath.sock"
    address = url.replace("http", "ws") + "/ws"
    with connect(address, max_queue=1, close_timeout=1) as client, Control(socket) as control:
        ask(client, "connect", token=token)
        assert ask(client, "subscribe", subjects=["/orders/slow"])["op"] == "subscribed"
        before = memory(program)
        for _ in range(100):
            control.publish([["/orders/slow", "x" * 100_000]] * 10)
        assert memory(program) - before < 40 << 20, "the server keeps what its reader does not take"
        read = 0
        with suppress(ConnectionClosed):  # the sidecar keeps it, or lets go of who is too slow
            while read < 100_000_000:
                read += len(client.recv(timeout=PATIENCE_SECONDS))
        assert read > 1_000_000
        with connect(address) as other:
            assert ask(other, "connect", token=token)["op"] == "connected", "others are not held up"


def memory(program: Program) -> int:
    """What the server and its workers have resident, in bytes."""
    pids = descendants(program.process.pid) | {program.process.pid}
    sizes = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
    return sum(sizes) * os.sysconf("SC_PAGE_SIZE")
