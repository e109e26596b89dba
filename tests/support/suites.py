"""Suites of other folders, run once more in a process with another database."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.support.second_look import FOLDER
from tests.support.sidecar import ROOT

SUITES = {
    "rules": "tests/entitlement --ignore=tests/entitlement/following/test_agent.py "
    "--ignore=tests/entitlement/following/test_migrating.py --ignore=tests/entitlement/following/test_revocation.py "
    "--ignore=tests/entitlement/test_truth.py",
    "rules on live connections": "tests/entitlement/following/test_agent.py "
    "tests/entitlement/following/test_revocation.py",
    "rules around migrations": "tests/entitlement/following/test_migrating.py",
    "rules of the table": "tests/entitlement/test_truth.py",
    "statistics": "tests/realtime/stats --ignore=tests/realtime/stats/test_access.py "
    "--ignore=tests/realtime/stats/test_figures.py",
    "publish": "tests/realtime/publishing/test_publisher.py tests/realtime/publishing/test_commit_hook.py "
    "tests/realtime/test_api.py",
}
"""What depends on the database, whichever it is."""

SECONDS_MAX = 600
"""The longest takes 120 s on two idle cores."""


def run_suite(arguments: str, settings: str, **own: str) -> None:
    """The tests that are not slow, with these settings and environment; shows what pytest says of those that fail."""
    xdist = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with (
        tempfile.TemporaryDirectory() as results
    ):  # a second look is at the suite, not at tests of it without its database
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *arguments.split()],
            cwd=ROOT,
            env=xdist | {"DJANGO_SETTINGS_MODULE": settings, FOLDER: results} | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stdout
