"""The apps in another Django project, as docs/django.md says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.web.server import ROOT, Program

SETTINGS = """
INSTALLED_APPS = ["daphne", *INSTALLED_APPS, "channels", "rest_framework", "realtime", "entitlement"]
ASGI_APPLICATION = "shop.asgi.application"
REALTIME = {
    "CONTROL": os.environ.get("FASTPATH_CONTROL") or BASE_DIR / "run" / "fastpath.sock",
    "LISTEN": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
}
"""
URLS = """
from django.http import HttpResponse
from django.urls import include
from realtime import publish
def order(request):
    return HttpResponse(str(publish("/orders/all", "42", {"state": "new"}).seq))
urlpatterns += [path("", include("realtime.endpoints")), path("order/", order)]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new project with the lines of the guide, migrated."""
    for command in (["-m", "django", "startproject", "shop", "."],):
        subprocess.run([sys.executable, *command], cwd=tmp_path, check=True)
    (tmp_path / "run").mkdir()
    settings, urls = tmp_path / "shop" / "settings.py", tmp_path / "shop" / "urls.py"
    settings.write_text("import os\n" + settings.read_text() + SETTINGS)
    urls.write_text(urls.read_text() + URLS)
    guide = (ROOT / "docs" / "django.md").read_text()
    (asgi,) = re.findall(r"```python\n# mysite/asgi\.py\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "shop" / "asgi.py").write_text(asgi.replace("mysite", "shop"))
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=tmp_path, env=environment(), check=True)
    return tmp_path


def environment() -> dict[str, str]:
    """Nothing of this project's but the packages."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "REALTIME_", "DJANGO_"))
    }
    return kept | {"PYTHONPATH": str(ROOT)}


def test_one_command_runs_it_and_a_view_publishes(project: Path) -> None:
    """Their settings, URLs and ASGI application; our supervisor."""
    argv = [sys.executable, "manage.py", "runrealtime", "--port", "0"]
    program = Program(argv, {}, r"Everything is running\.(?s:.*)Ctrl-C", folder=project, base=environment())
    with program:
        site = re.search(r"board +(http://\S+)/", program.output)
        assert site is not None
        with urllib.request.urlopen(f"{site[1]}/order/", timeout=5) as answer:  # noqa: S310 - our own server
            assert answer.read() == b"1"
        check = subprocess.run(
            [sys.executable, "manage.py", "check"], cwd=project, env=environment(), capture_output=True, text=True
        )
        assert (check.returncode, "realtime." in check.stderr) == (0, False), check.stderr
