"""What depends on the database holds on PostgreSQL as well: the same tests, in a process with other settings."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.postgres import Postgres
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
    "publish": "tests/realtime/publishing/test_publisher.py tests/realtime/test_api.py",
    "PostgreSQL alone": "tests/postgres/cases",
}

SECONDS_MAX = 600
"""The longest takes 100 s on two idle cores."""


@pytest.mark.postgres
@pytest.mark.timeout(SECONDS_MAX + 20)
@pytest.mark.parametrize("suite", SUITES)
def test_suite(postgres: Postgres, suite: str) -> None:
    """The tests that are not slow; what pytest says of those that fail is shown."""
    own = {"DJANGO_SETTINGS_MODULE": "tests.support.postgres_settings", "TEST_POSTGRES_HOST": postgres.host}
    xdist = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *SUITES[suite].split()],
        cwd=ROOT,
        env=xdist | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout
