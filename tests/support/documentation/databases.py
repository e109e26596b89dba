"""Servers of databases as docs/operate/databases.md has their superuser prepare them, and its settings of a project."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.guide import every, one
from tests.support.mariadb import MariaDB
from tests.support.mariadb import program as mariadb_program
from tests.support.postgres import Postgres
from tests.support.postgres import program as postgres_program
from tests.support.waiting import PATIENCE_SECONDS

PAGE = "docs/operate/databases.md"
PASSWORD = "choose one"
"""As the page prints it."""

SETTINGS = {block.text.split("backends.")[1].partition('"')[0]: block for block in every(PAGE, "python", "# mysite/")}
"""The page's blocks for a project's settings, by the name of Django's backend."""


@contextmanager
def served(backend: str) -> Iterator[dict[str, str]]:
    """A server of a backend of Django, with the page's role and database; the variables by which a project finds it."""
    if backend == "postgresql":
        with Postgres() as postgres:
            argv = [postgres_program("psql"), "-v", "ON_ERROR_STOP=1", "-h", postgres.host, "-U", "postgres"]
            _type(argv, one(PAGE, "sql", "CREATE ROLE"))
            yield {"DATABASE_HOST": postgres.host, "DATABASE_PASSWORD": PASSWORD}
    elif backend == "mysql":
        with MariaDB() as mariadb:
            argv = [mariadb_program("mariadb"), "--no-defaults", "--user=root", f"--socket={mariadb.socket}"]
            _type(argv, one(PAGE, "sql", "CREATE USER"))
            yield {"DATABASE_HOST": mariadb.socket, "DATABASE_PASSWORD": PASSWORD}
    else:
        assert backend == "sqlite3"
        yield {}


def _type(argv: list[str], text: str) -> None:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=6 * PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
