"""The server that the suites run on, one for each process of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.support.postgres import Postgres

# Only in the process that test_suites.py starts, whose database is PostgreSQL.
collect_ignore = [] if settings.DATABASES["default"]["ENGINE"].endswith("postgresql") else ["cases"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Debian's PostgreSQL."""
    with Postgres() as server:
        yield server
