"""What the settings of the log do under runrealtime, and in Django's own log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from realtime.management.commands import runrealtime
from tests.support.realtime.server import WebServer
from tests.support.sidecar import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until


def test_all_settings_of_the_log_reach_the_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "FASTPATH_LOG_LEVEL": "info,clients=warning",
        "FASTPATH_LOG_FORMAT": "json",
        "FASTPATH_LOG_FILE": "/var/log/fastpath/fastpath.log",
        "FASTPATH_LOG_BYTES": "0",
        "FASTPATH_LOG_FILES": "3",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    environment = runrealtime._sidecar().environment()
    assert {name: environment[name] for name in given} == given


@pytest.mark.parametrize(
    ("engine", "journal"),
    [("", "interval"), ("memory", "interval"), ("redis://h", None), ("redis+sentinel://a,b/n", None), ("later", None)],
)
def test_a_sidecar_keeps_a_journal_where_its_engine_may_have_one(
    engine: str, journal: str | None, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REALTIME = settings.REALTIME | {"DATA": str(tmp_path)}
    monkeypatch.setenv("FASTPATH_ENGINE", engine)
    monkeypatch.delenv("FASTPATH_JOURNAL", raising=False)
    assert runrealtime._sidecar().environment().get("FASTPATH_JOURNAL") == journal


@pytest.mark.parametrize(
    ("environment", "form"),
    [({}, "text"), ({"FASTPATH_LOG_FORMAT": "json"}, "json"), ({"REALTIME_LOG_FORMAT": "text"}, "text")],
)
@pytest.mark.slow
def test_django_s_log_has_the_form_of_the_sidecar_s(
    environment: dict[str, str], form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = (
        "import django, logging\n"
        "django.setup()\n"
        "logging.getLogger('realtime.hooks').warning('a name\\n%s', '\\x1b[31m')\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "REALTIME_"))}
    own = {"DJANGO_SETTINGS_MODULE": "realtime.settings", "REALTIME_VAR": str(tmp_path_factory.mktemp("var"))}
    if form == "text":
        own |= {"FASTPATH_LOG_FORMAT": "json"} if environment else {}  # its own setting has the last word
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=kept | own | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    [line] = done.stderr.splitlines()
    if form == "json":
        assert json.loads(line)["event"] == "a name\n\x1b[31m"
        assert json.loads(line)["part"] == "realtime.hooks"
    else:
        assert line.endswith(" WARNING realtime.hooks a name\\n\\x1b[31m")


def test_a_form_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import realtime.settings"],
        cwd=ROOT,
        env=os.environ | {"REALTIME_LOG_FORMAT": "xml"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "REALTIME_LOG_FORMAT is text or json, not 'xml'" in done.stderr


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_a_request_that_is_refused_has_one_line(tmp_path: Path) -> None:
    """Django's own line about it would say no more than the access log, nor would Daphne's three of a WebSocket."""
    refused = {
        "/nothing-here": (404, {}),
        "/realtime/token/": (405, {}),
        "/api/stats/?token=none": (401, {}),
        "/snapshot?subject=/a/b": (503, {}),  # there is no sidecar
        "/no-socket": (403, UPGRADE),
    }
    with WebServer("clients://127.0.0.1:1", REALTIME_VAR=str(tmp_path), FASTPATH_CONTROL=str(tmp_path / "c")) as web:
        before = len(web.output)
        for path, (status, headers) in refused.items():
            connection = HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_SECONDS)
            connection.request("GET", path, headers=headers)
            assert connection.getresponse().status == status, path
            connection.close()
        connection = HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        # A connection that was closed may be seen to be after the next one has come.
        until(lambda: all(path.partition("?")[0] in web.output[before:] for path in (*refused, "/healthz")))
    lines = web.output[before:].splitlines()
    for path in refused:
        assert sum(path.partition("?")[0] in line for line in lines) == 1, path
    assert sum("client port does not answer" in line for line in lines) == 1, "that there is no sidecar"
    assert len(lines) == len(refused) + 2, web.output


def test_a_fault_has_its_traceback(tmp_path: Path) -> None:
    """Which the access log cannot tell."""
    program = (
        "import django, logging\n"
        "django.setup()\n"
        "log = logging.getLogger('django.request')\n"
        "log.warning('Not Found: /x', extra={'status_code': 404})\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: log.error('Internal Server Error: /y', exc_info=True)\n"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "realtime.settings", "REALTIME_VAR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert "Not Found" not in done.stderr
    assert "Internal Server Error: /y" in done.stderr
    assert "ZeroDivisionError" in done.stderr
