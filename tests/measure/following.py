"""Rights that end in Django's database, until the last client knows: on each database, and without triggers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres
from tests.support.sidecar import ROOT

from .rows import row

SECOND = 1.0


@contextmanager
def scenario(name: str, settings: str = "realtime.settings", **more: str) -> Iterator[Iterator[float]]:
    """The values of a scenario of tests/measure/django_project.py, whose process has a database of its own."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": settings} | more
    with subprocess.Popen(
        [sys.executable, "-m", "tests.measure.django_project", name],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asks, said = process.stdin, process.stdout

        def values() -> Iterator[float]:
            while True:
                asks.write("once more\n")
                asks.flush()
                took = next((line for line in said if line.startswith("took ")), "")
                assert took, f"the project of the scenario {name} ended"
                yield float(took.split()[1])

        try:
            yield values()
        finally:
            asks.close()
            process.wait(60)


@row("django-right-revoked", at_most=SECOND)
def sqlite() -> Iterator[float]:
    """What ends in Django ends on every worker within a second: sign-out, user, password, token, group, rule."""
    with scenario("revoked") as values:
        yield from values


@row("django-right-revoked-postgres", at_most=SECOND)
def postgres() -> Iterator[float]:
    """The same with PostgreSQL."""
    with (
        Postgres() as server,
        scenario("revoked", "tests.support.postgres_settings", TEST_POSTGRES_HOST=server.host) as values,
    ):
        yield from values


@row("django-right-revoked-mariadb", at_most=SECOND)
def mariadb() -> Iterator[float]:
    """The same with MariaDB."""
    with (
        MariaDB() as server,
        scenario("revoked", "tests.support.mariadb_settings", TEST_MARIADB_SOCKET=server.socket) as values,
    ):
        yield from values


@row("django-without-triggers", at_most=SECOND)
def without_triggers() -> Iterator[float]:
    """The same while the triggers are missing and the tables are compared."""
    with scenario("without_triggers") as values:
        yield from values


@row("django-truncated-postgres", at_most=SECOND)
def truncated() -> Iterator[float]:
    """The same when a table is emptied, on PostgreSQL."""
    with (
        Postgres() as server,
        scenario("truncated", "tests.support.postgres_settings", TEST_POSTGRES_HOST=server.host) as values,
    ):
        yield from values


@row("django-emptied-mariadb", at_most=SECOND)
def emptied() -> Iterator[float]:
    """The same when a table is emptied, on MariaDB, which tells no trigger of it."""
    with (
        MariaDB() as server,
        scenario("truncated", "tests.support.mariadb_settings", TEST_MARIADB_SOCKET=server.socket) as values,
    ):
        yield from values


@row("django-password-mqtt", at_most=SECOND)
def password() -> Iterator[float]:
    """A new password, and the end of the user, close the connections of MQTT within a second."""
    with scenario("password") as values:
        yield from values


@row("django-recheck", at_most=SECOND)
def recheck() -> Iterator[float]:
    """What a project's hook no longer allows ends within a second of recheck()."""
    with scenario("recheck") as values:
        yield from values


@row("django-pages-beside-silent-node", at_most=1.0)
def pages() -> Iterator[float]:
    """Ten server lists take less than a second though a node keeps silent, once it is known to be away."""
    with scenario("pages") as values:
        yield from values


@row("django-server-list", at_most=3.0)
def server_list() -> Iterator[float]:
    """A node that drains or is away leaves the server list within three seconds."""
    with scenario("server_list") as values:
        yield from values


@row("django-publish-silent-node", at_most=2.0)
def publish() -> Iterator[float]:
    """Ten publications beside each other to a node that hangs take no longer than PUBLISH_SECONDS, here 0.5."""
    with scenario("publish") as values:
        yield from values


@row("django-nodes-asked-together", at_most=2.7)
def asked_together() -> Iterator[float]:
    """Two nodes that hang are waited for together, for the two seconds that were said."""
    with scenario("asked_together") as values:
        yield from values


@row("django-hooks-beside-sleeping", at_most=0.1)
def hooks() -> Iterator[float]:
    """Who asks a project's hook does not wait for questions of others that sleep: the middle one of 50 answers."""
    with scenario("hooks") as values:
        yield from values
