"""The server that the suites run on, one for each process of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.support.mariadb import MariaDB

# Only in the process that test_suites.py starts, whose database is MariaDB.
collect_ignore = [] if settings.DATABASES["default"]["ENGINE"].endswith("mysql") else ["cases"]


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """Debian's MariaDB."""
    with MariaDB() as server:
        yield server
