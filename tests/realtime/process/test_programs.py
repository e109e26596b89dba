"""Programs that serve a project are told which one: without DJANGO_SETTINGS_MODULE they serve none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("realtime.web", ["-b", "127.0.0.1", "-p", "0", "realtime.asgi:application"]),
        ("realtime.outside", []),
        ("realtime.jmx", ["--listen", "jmx://127.0.0.1:0"]),
    ],
)
@pytest.mark.parametrize("value", [None, ""])
def test_without_settings_nothing_is_served(
    tmp_path: Path, module: str, arguments: list[str], value: str | None
) -> None:
    """2 and a sentence that says what to set; this repository's settings, which make files, are not even read."""
    environment = {name: given for name, given in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"REALTIME_VAR": str(tmp_path / "var"), "REALTIME_STATS_LISTEN": "http://127.0.0.1:0"}
    if value is not None:
        environment["DJANGO_SETTINGS_MODULE"] = value
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"{module}: DJANGO_SETTINGS_MODULE is not set")
    assert f"DJANGO_SETTINGS_MODULE=mysite.settings python -m {module}" in line
    assert not (tmp_path / "var").exists()


@pytest.mark.slow
def test_a_thread_that_waits_for_the_loop_does_not_keep_the_web_server(tmp_path: Path) -> None:
    """As that of a synchronous consumer that leaves its groups when the loop has ended."""
    (tmp_path / "waiting.py").write_text(
        "import threading\n"
        "from realtime.asgi import application\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
    )
    argv = [sys.executable, "-m", "realtime.web", "-b", "127.0.0.1", "-p", "0", "waiting:application"]
    with Program(argv, {"PYTHONPATH": str(tmp_path)}, r"Listening on TCP address") as web:
        web.process.terminate()
        assert web.wait(3 * PATIENCE_SECONDS) == 0
