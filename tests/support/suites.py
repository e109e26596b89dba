"""Suites of other folders, run once more in a process with another database; each test reports by its own name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tests.support.promises import BrokenPromise
from tests.support.sidecar import ROOT

LIVE = "rules on live connections"
PUBLISHING = "publishing"

SUITES = {
    "rules": "tests/entitlement --ignore=tests/entitlement/following/test_agent.py "
    "--ignore=tests/entitlement/following/test_migrating.py --ignore=tests/entitlement/following/test_revocation.py "
    "--ignore=tests/entitlement/test_truth.py --ignore=tests/entitlement/following/test_polling.py",
    LIVE: "tests/entitlement/following/test_agent.py tests/entitlement/following/test_revocation.py",
    "rules around migrations": "tests/entitlement/following/test_migrating.py",
    "rules of the table": "tests/entitlement/test_truth.py",
    "statistics": "tests/realtime/stats --ignore=tests/realtime/stats/test_access.py "
    "--ignore=tests/realtime/stats/test_figures.py",
    PUBLISHING: "tests/realtime/publishing --ignore=tests/realtime/publishing/outbox",
    "the HTTP API": "tests/realtime/test_api.py",
}
"""What depends on the database, whichever it is."""

SECONDS_MAX = 600
"""The longest takes 120 s on two idle cores."""

REPORTS = "TEST_SUITEREPORTS"
"""Names the file that the process writes its reports to."""


class Inner(NamedTuple):
    """A test of a suite that has ended, or what failed before or after it."""

    nodeid: str
    failed: bool
    promise: bool
    """It failed with BrokenPromise."""
    text: str


def run_suite(subtests: pytest.Subtests, arguments: list[str], settings: str, **own: str) -> None:
    """Run the tests that are not slow, with these settings and environment; each is a subtest by its own name."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", __name__, "-m", "not slow"),
                *arguments,
            ],
            cwd=ROOT,
            # What failed has its second look with the suite that it is of.
            env=outside | {"DJANGO_SETTINGS_MODULE": settings, REPORTS: str(reports), "TEST_RESULTS": folder} | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        lines = reports.read_text(encoding="utf-8").splitlines() if reports.exists() else []
    found = [Inner(*json.loads(line)) for line in lines]
    for inner in found:
        with subtests.test(inner.nodeid):
            if inner.promise:
                raise BrokenPromise(inner.text)
            if inner.failed:
                pytest.fail(inner.text, pytrace=False)
    if done.returncode and not any(inner.failed for inner in found):
        pytest.fail(f"it ended with {done.returncode}, and no test of it failed:\n{done.stdout}", pytrace=False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Hook of pytest in that process; without its variable, nothing."""
    if (path := os.environ.get(REPORTS)) and (report.failed or report.when == "call"):
        text = report.longreprtext + "".join(f"\n--- {title} ---\n{text}" for title, text in report.sections)
        inner = Inner(report.nodeid, report.failed, getattr(report, "broken_promise", False), text)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(inner) + "\n")
