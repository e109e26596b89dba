"""What depends on the database holds on PostgreSQL as well: the same tests, in a process with other settings."""

from __future__ import annotations

import pytest

from tests.support.postgres import Postgres
from tests.support.suites import LIVE, PUBLISHING, SECONDS_MAX, SUITES, run_suite

ALONE = "PostgreSQL alone"
OWN = {
    # The outbox is of PostgreSQL and SQLite.
    PUBLISHING: "tests/realtime/publishing tests/realtime/management/commands/test_realtime_outbox.py",
    ALONE: "tests/postgres/cases",
}
ALL = SUITES | OWN

AT_EACH_COMMIT = (LIVE, PUBLISHING, ALONE)
"""Where the database decides who gets what, and what is told of nowhere else."""


@pytest.mark.postgres
@pytest.mark.timeout(SECONDS_MAX + 20)
@pytest.mark.parametrize(
    "suite", [pytest.param(name, marks=[] if name in AT_EACH_COMMIT else [pytest.mark.slow]) for name in ALL]
)
def test_suite(postgres: Postgres, suite: str, subtests: pytest.Subtests) -> None:
    run_suite(subtests, ALL[suite].split(), "tests.support.postgres_settings", TEST_POSTGRES_HOST=postgres.host)
