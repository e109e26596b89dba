"""Django's development server with the sidecar beside it: what a reload leaves alone, and what ends with it."""

from __future__ import annotations

import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient
from tests.support.guide import Project
from tests.support.ports import free_port
from tests.support.processes import descendants, running, send
from tests.support.realtime.server import Program
from tests.support.waiting import PATIENCE_SECONDS, until

NEW_PAGE = """
from django.http import HttpResponse
urlpatterns += [path("added/", lambda request: HttpResponse("there"))]
"""


class Development(Program):
    """``manage.py runserver`` of a project, on a free port."""

    def __init__(self, project: Project, *options: str) -> None:
        port = free_port()
        self.urls = project.folder / "mysite" / "urls.py"
        self.url = f"http://127.0.0.1:{port}"
        argv = [project.python, "manage.py", "runserver", f"127.0.0.1:{port}", *options]
        ready = r"Starting development server at .*(?s:.*)Quit the server"
        super().__init__(argv, {}, ready, 60, folder=project.folder, base=project.environment)

    def said(self, pattern: str) -> str:
        """What the output says, as soon as it does."""
        return until(lambda: re.search(pattern, self.output), 20)[1]

    def reload_until(self, condition: Callable[[], bool]) -> None:
        """Touch a file until it is so: what changes before Django's reloader has looked at it first is passed over."""
        for seconds in (10, 40, 90):
            os.utime(self.urls)
            with suppress(AssertionError):
                until(condition, seconds)
                return
        raise AssertionError(self.output)

    def status(self, path: str) -> int:
        """What a page answers; 0 while nobody does."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """What the guide makes of a new project, with a rule for everybody."""
    made = Project(tmp_path)
    made.migrate()
    made.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    return made


def sidecar_of(project: Project) -> int:
    with Control(str(project.folder / "var" / "fastpath.sock")) as control:
        return int(control.hello()["pid"])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_reload_of_django_ends_no_socket(project: Project) -> None:
    """One sidecar for all reloads, which a second server of the project uses as well; at the end nothing is left."""
    with Development(project) as server:
        site = server.said(r" web +(http://\S+)/")
        assert site == server.url
        assert {"admin", "monitoring", "console"} < set(re.findall(r"^ +(\w+) +http", server.output, re.MULTILINE))
        assert "board" not in server.output
        sidecar, pids = sidecar_of(project), descendants(server.process.pid)
        with WireClient(server.said(r"WebSocket +(ws://\S+)")) as client:
            client.ask("connect", "connected")
            client.subscribe("/orders/42")
            assert server.status("/added/") == 404
            project.append("mysite/urls.py", NEW_PAGE)
            server.reload_until(lambda: client.quiet() and server.status("/added/") == 200)
            assert sidecar_of(project) == sidecar
            project.shell("from realtime import publish; publish('/orders/42', 'shipped')")
            assert client.texts(1) == ["shipped"]
        with WireClient(server.said(r"relay +(ws://\S+)")) as relayed:
            relayed.ask("connect", "connected")
        with Development(project) as second:
            assert second.said(r"Using the sidecar \(pid (\d+)\)") == str(sidecar)
            assert second.status("/order/") == 200
            assert second.status("/static/realtime/client.js") == 200
        assert sidecar_of(project) == sidecar
        server.process.terminate()
        assert server.wait(60) == 0
        until(lambda: not running(pids), 20)
        assert "Traceback" not in server.output


@pytest.mark.slow
def test_ctrl_c_ends_all_of_it_also_without_the_reloader(project: Project) -> None:
    """The terminal sends SIGINT to everybody at once."""
    with Development(project, "--noreload") as server:
        pids = descendants(server.process.pid)
        assert server.status("/order/") == 200
        send(signal.SIGINT, [server.process.pid, *pids])
        assert server.wait(60) == 0
        until(lambda: not running(pids), 20)
        assert "Traceback" not in server.output


@pytest.mark.slow
def test_where_there_can_be_no_sidecar_pages_are_served_all_the_same(tmp_path: Path) -> None:
    """And why is said: here the database is not migrated; with the flag or the setting it is not tried."""
    project = Project(tmp_path)
    with Development(project) as server:
        assert "Without the sidecar, and so without live data:\nCommandError: the database is not up" in server.output
        assert server.status("/order/") == 200
        server.process.terminate()
        assert server.wait(60) == 0
    with Development(project, "--no-sidecar", "--noreload") as server:
        assert server.status("/order/") == 200
        assert "sidecar" not in server.output
    project.append("mysite/settings.py", 'REALTIME = {"RUNSERVER": False}')
    with Development(project, "--noreload") as server:
        assert server.status("/order/") == 200
        assert "sidecar" not in server.output
