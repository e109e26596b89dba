"""runrealtime --reload: Django begins anew with each change of the code, the sidecar and its sockets stay."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient
from tests.support.guide import Project, Running
from tests.support.processes import command_line, descendants, running
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

VIEWS = """
from django.http import HttpResponse
from django.shortcuts import render

def added(request):
    return HttpResponse("there")

def broken(request):
    return HttpResponse(str(1 // 0))

def shown(request):
    return render(request, "shown.html")

urlpatterns += [path("added/", added), path("broken/", broken), path("shown/", shown)]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """What the guide makes of a new project, with a rule for everybody, and a process beside the web server."""
    made = Project(tmp_path, 'REALTIME = {"OUTBOX": True}')
    made.manage("migrate", "-v0")
    made.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    return made


def answer(site: Running, path: str) -> tuple[int, str]:
    """Status and text of a page; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(site.url + path, timeout=PATIENCE_SECONDS) as page:  # noqa: S310 - our own server
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def outbox(site: Running) -> int:
    """The pid of the process that runs the project's code beside the web server."""
    found = [pid for pid in descendants(site.process.pid) if b"realtime_outbox" in command_line(pid)]
    return found[0] if len(found) == 1 else 0


def watched(site: Running, times: int) -> None:
    """Wait until the web server that was started for the n-th time sees each change."""
    until(lambda: site.output.count("watching for changes") >= times, 60)


def test_new_code_answers_while_a_socket_stays_open(project: Project) -> None:
    """Of a page, of a template without a restart, and of what runs beside the web server; a trace stands there once."""
    (project.folder / "templates" / "shown.html").write_text("before")
    socket = project.folder / "var" / "fastpath.sock"
    with project.running("--reload") as site, Control(socket) as control, WireClient(site.client_url) as client:
        client.ask("connect", "connected")
        client.subscribe("/orders/42")
        watched(site, 1)
        sidecar, sending = control.hello()["pid"], until(lambda: outbox(site), 30)
        assert answer(site, "/added/")[0] == 404
        project.append("mysite/urls.py", VIEWS)
        until(lambda: client.quiet() and answer(site, "/added/") == (200, "there"), 60)
        assert f"{project.folder}/mysite/urls.py changed, reloading." in site.output
        until(lambda: outbox(site) not in (0, sending), 60)

        watched(site, 2)
        assert answer(site, "/shown/") == (200, "before")
        (project.folder / "templates" / "shown.html").write_text("after")
        until(lambda: answer(site, "/shown/") == (200, "after"), 30)
        assert site.output.count("changed, reloading.") == 1
        assert "web ended" not in site.output

        assert answer(site, "/broken/")[0] == 500
        until(lambda: "ZeroDivisionError" in site.output)
        project.shell("from realtime import publish; publish('/orders/42', 'shipped')")
        assert client.texts(1) == ["shipped"]
        assert control.hello()["pid"] == sidecar
        pids = descendants(site.process.pid)
    until(lambda: not running(pids), 20)
    assert site.output.count("Traceback (most recent call last)") == site.output.count("ZeroDivisionError:") == 1


def test_code_that_cannot_be_loaded_is_told_once_until_it_is_mended(project: Project) -> None:
    """By the web server alone: the rest goes on with what it has; also what is wrong in the settings."""
    urls, settings = project.folder / "mysite" / "urls.py", project.folder / "mysite" / "settings.py"
    whole = urls.read_text()
    with project.running("--reload") as site, WireClient(site.client_url) as client:
        client.ask("connect", "connected")
        client.subscribe("/orders/42")
        watched(site, 1)
        sending, right = until(lambda: outbox(site), 30), settings.read_text()
        urls.write_text(whole + "\ndef broken(:\n")
        until(lambda: site.output.count("waiting for that to be mended") == 1, 60)
        watched(site, 2)
        urls.write_text(whole + VIEWS)
        settings.write_text(right + "\nREALTIME = {'LISTENN': 1}\n")
        until(lambda: site.output.count("waiting for that to be mended") == 2, 60)
        assert 'REALTIME["LISTENN"] is not a setting' in site.output
        watched(site, 3)
        settings.write_text(right + "\n1 // 0\n")
        until(lambda: site.output.count("waiting for that to be mended") == 3, 60)
        watched(site, 4)
        assert outbox(site) == sending
        settings.write_text(right)
        until(lambda: answer(site, "/added/") == (200, "there"), 60)
        project.shell("from realtime import publish; publish('/orders/42', 'shipped')")
        assert client.texts(1) == ["shipped"]
    assert site.output.count("SyntaxError:") == site.output.count("ZeroDivisionError:") == 1
    assert site.output.count("Traceback (most recent call last)") == 2


def test_it_needs_the_web_server(project: Project) -> None:
    """For it is that whose code is watched."""
    done = project.manage("runrealtime", "--reload", "--without-web", check=False)
    assert (done.returncode, "leave out --without-web" in done.stderr) == (1, True)
