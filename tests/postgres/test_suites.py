"""What depends on the database holds on PostgreSQL as well: the same tests, in a process with other settings."""

from __future__ import annotations

import pytest

from tests.support.postgres import Postgres
from tests.support.suites import SECONDS_MAX, SUITES, run_suite

OWN = {
    "outbox": "tests/realtime/publishing/outbox tests/realtime/management/commands/test_realtime_outbox.py",
    "PostgreSQL alone": "tests/postgres/cases",
}
ALL = SUITES | OWN

AT_EACH_COMMIT = ("rules", "rules of the table", "statistics", "publish", "PostgreSQL alone")
"""Those that see most in little time."""


@pytest.mark.postgres
@pytest.mark.timeout(SECONDS_MAX + 20)
@pytest.mark.parametrize(
    "suite", [pytest.param(name, marks=[] if name in AT_EACH_COMMIT else [pytest.mark.slow]) for name in ALL]
)
def test_suite(postgres: Postgres, suite: str) -> None:
    run_suite(ALL[suite], "tests.support.postgres_settings", TEST_POSTGRES_HOST=postgres.host)
