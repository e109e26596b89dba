"""What the settings of the log do under runrealtime, and in Django's own log."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from realtime.management.commands import runrealtime
from tests.support.sidecar import ROOT


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
