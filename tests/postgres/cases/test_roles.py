"""An agent whose database user may read and write rows, and make no triggers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import ProgrammingError, connection
from msgspec.msgpack import encode as packb

from entitlement.following import triggers
from realtime.models import OutboxMessage
from realtime.publishing.outbox.store import OutboxStore
from tests.support.entitlement.watched import Watched, node, running
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import until

__all__ = ["node", "running"]

pytestmark = pytest.mark.django_db(transaction=True)

ROLE = "application"


def _run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def role() -> Iterator[str]:
    """It may what an application has to."""
    _run(f"CREATE ROLE {ROLE} LOGIN")
    _run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {ROLE}")
    _run(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}")
    yield ROLE
    _run(f"DROP OWNED BY {ROLE}")
    _run(f"DROP ROLE {ROLE}")


def test_it_compares_the_tables_and_says_that_it_may_not(node: Sidecar, role: str, tmp_path: Path) -> None:
    environment = os.environ | {"REALTIME_DATABASE": connection.settings_dict["NAME"], "TEST_POSTGRES_USER": role}
    command = [sys.executable, "-m", "django", "realtime_agent", "--control", node.control]
    log = tmp_path / "log"

    def log_says(words: str) -> bool:
        return words in log.read_text()

    with log.open("w") as file, subprocess.Popen(command, cwd=ROOT, env=environment, stderr=file) as agent:
        try:
            with Watched(node, agent=False) as watched:
                until(lambda: watched.control.health()["ready"])
                triggers.remove(connection)
                until(lambda: log_says("the missing triggers cannot be installed from here"), 60)
                watched.all_end()
                assert watched.control.stats()["triggers_missing"] == len(triggers.missing(connection))
                until(lambda: watched.control.health()["ready"])
        finally:
            agent.terminate()
            triggers.install(connection)
    assert log.read_text().count("cannot be installed from here") == 1
    assert log_says("run migrate")


@pytest.mark.parametrize("path", ["public", "pg_catalog", "mine, pg_catalog"])
def test_who_may_only_insert_into_the_outbox_can(path: str) -> None:
    """Whatever its search path finds, a table of the same name too; each commit has its place, and none is its own."""
    _run("CREATE ROLE writer LOGIN")
    _run("CREATE SCHEMA mine AUTHORIZATION writer")
    _run("GRANT INSERT ON realtime_outboxmessage TO writer")
    insert = """
        INSERT INTO public.realtime_outboxmessage (subject, message, size, created, code, reason)
        VALUES (%s, %s, 1, now(), '', '')"""
    own = connection.copy()
    own.settings_dict = own.settings_dict | {"USER": "writer"}
    try:
        with own.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE mine.realtime_outboxmessage (id bigint, position bigint, subject text, code text)"
            )
            cursor.execute(f"SET search_path TO {path}")
            for content in ("a", "b"):
                cursor.execute(insert, ["/orders/42", packb(["/orders/42", content, {}, {}])])
            with pytest.raises(ProgrammingError, match="permission denied"):
                cursor.execute("SELECT * FROM public.realtime_outboxmessage")
            with pytest.raises(ProgrammingError, match="permission denied"):
                cursor.execute("CREATE TRIGGER t AFTER INSERT ON mine.realtime_outboxmessage FOR EACH ROW EXECUTE "
                               "FUNCTION public.realtime_outbox_place()")  # fmt: skip
        places = list(OutboxMessage.objects.order_by("id").values_list("position", flat=True))
        assert None not in places and places == sorted(set(places)) and len(places) == 2
        store = OutboxStore("default")
        assert store.lead() and [one.row.wire[1] for one in store.take()] == ["a", "b"]
    finally:
        own.close()
        _run("DROP SCHEMA mine CASCADE")
        _run("DROP OWNED BY writer")
        _run("DROP ROLE writer")


def test_a_table_that_is_in_use_is_not_waited_for(node: Sidecar, caplog: pytest.LogCaptureFixture) -> None:
    """Everybody else would wait behind the agent; it comes again."""
    caplog.set_level(logging.INFO, "entitlement.polling")
    other = connection.copy()
    with Watched(node) as watched:
        triggers.remove(connection)
        other.set_autocommit(False)
        try:
            with other.cursor() as cursor:
                cursor.execute("LOCK TABLE entitlement_rule IN ROW EXCLUSIVE MODE")
            until(lambda: "a table is in use" in caplog.text, 60)
            watched.all_end()
            assert triggers.missing(connection)
        finally:
            other.close()
        until(lambda: not triggers.missing(connection), 60)
