"""What depends on the database holds on MariaDB as well: the same tests, in a process with other settings."""

from __future__ import annotations

import pytest

from tests.support.mariadb import MariaDB
from tests.support.suites import PUBLISHING, SECONDS_MAX, SUITES, run_suite

ROW = "tests/realtime/publishing/test_removal.py::test_as_a_row_of_the_outbox"
ALL = SUITES | {
    PUBLISHING: f"{SUITES[PUBLISHING]} --deselect={ROW}",  # there is no outbox on MariaDB
    "MariaDB alone": "tests/mariadb/cases",
}


@pytest.mark.mariadb
@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX + 20)
@pytest.mark.parametrize("suite", ALL)
def test_suite(mariadb: MariaDB, suite: str, subtests: pytest.Subtests) -> None:
    run_suite(subtests, ALL[suite].split(), "tests.support.mariadb_settings", TEST_MARIADB_SOCKET=mariadb.socket)
