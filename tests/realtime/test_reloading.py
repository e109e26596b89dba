"""The web server of `runrealtime --reload` alone, in a new project: how it ends when code changes, or is broken."""

from __future__ import annotations

import os
import time
import urllib.request
from pathlib import Path

import pytest

from realtime.reloading import CHANGED, WAITING
from tests.support.guide import Project
from tests.support.realtime.server import Program
from tests.support.waiting import PATIENCE_SECONDS, until

LISTENING = r"Listening on TCP address 127.0.0.1:(\d+)(?s:.*)watching for changes"

VIEWS = """
from django.http import HttpResponse
from django.shortcuts import render

urlpatterns += [path("shown/", lambda request: render(request, "shown.html"))]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """With a page of a template, and files that are as old as those of any project."""
    made = Project(tmp_path)
    made.append("mysite/urls.py", VIEWS)
    (tmp_path / "templates" / "shown.html").write_text("before")
    for file in tmp_path.glob("**/*.*"):
        os.utime(file, (time.time() - 100,) * 2)
    return made


def web(project: Project, ready: str) -> Program:
    """As `runrealtime --reload` starts it."""
    argv = [project.python, "-m", "realtime.reloading", "-b", "127.0.0.1", "-p", "0", "mysite.asgi:application"]
    more = {"DJANGO_SETTINGS_MODULE": "mysite.settings", "PYTHONPATH": f"{project.environment['PYTHONPATH']}:."}
    return Program(argv, more, ready, folder=project.folder, base=project.environment)


def page(server: Program) -> str:
    """What it shows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.found[1]}/shown/", timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())


def test_it_ends_when_code_changes_and_not_when_a_template_does(project: Project) -> None:
    """With the status that asks to be started again; a template is read anew."""
    with web(project, LISTENING) as server:
        assert page(server) == "before"
        (project.folder / "templates" / "shown.html").write_text("after")
        until(lambda: page(server) == "after")
        project.append("mysite/urls.py", "# changed")
        assert server.wait() == CHANGED
    assert server.output.count("mysite/urls.py changed, reloading.") == 1
    assert "Traceback" not in server.output


@pytest.mark.parametrize(
    ("file", "broken", "told", "traces"),
    [
        ("urls", "def broken(:", "SyntaxError: invalid syntax", 1),
        ("settings", "1 // 0", "ZeroDivisionError", 1),
        ("settings", "REALTIME = {'LISTENN': 1}", 'REALTIME["LISTENN"] is not a setting', 0),
        ("asgi", "import nowhere", "No module named 'nowhere'", 1),
    ],
)
def test_broken_code_is_told_once_and_what_mends_it_ends_the_wait(
    project: Project, file: str, broken: str, told: str, traces: int
) -> None:
    """It serves nothing meanwhile; what only a check says has no trace."""
    path = project.folder / "mysite" / f"{file}.py"
    whole = path.read_text()
    path.write_text(f"{whole}\n{broken}\n")
    os.utime(path, (time.time() - 100,) * 2)
    with web(project, f"{WAITING}(?s:.*)watching for changes") as server:
        path.write_text(whole)
        assert server.wait() == CHANGED
    assert (server.output.count(told), server.output.count("Traceback (most recent")) == (1, traces), server.output
