"""publish() with an outbox writes rows, in the caller's transaction and nowhere else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from fastpath.core.protocol.trace_context import trace_of
from realtime import MessageTooLarge, OutboxFull, apublish, apublish_many, publish, publish_many
from realtime.models import OutboxMessage
from realtime.publishing.failures import failures
from tests.support.sidecar import ROOT

SUBJECT = "/orders/42"

pytestmark = pytest.mark.usefixtures("outbox")


def written() -> list[Any]:
    """The contents of the rows, in the order in which they are sent."""
    rows = OutboxMessage.objects.order_by("position", "id").values_list("message", flat=True)
    return [msgspec.msgpack.decode(bytes(row))[1] for row in rows]


def test_publish_and_its_family_are_imported_before_the_apps_are_loaded() -> None:
    """As by the module of a Celery application, or a program that calls django.setup() below its imports."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    program = "import realtime\nfor name in realtime.__all__: getattr(realtime, name)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=60)


def test_a_row_keeps_the_trace_that_it_was_published_in(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which whoever sends it later knows nothing of."""
    settings.REALTIME = settings.REALTIME | {"TRACING": True}
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with provider.get_tracer("shop").start_as_current_span("order") as order, transaction.atomic():
        publish(SUBJECT, "shipped")
    ((_, content, _, meta),) = [msgspec.msgpack.decode(bytes(row.message)) for row in OutboxMessage.objects.all()]
    assert content == "shipped"
    assert trace_of(meta["traceparent"]) == f"{order.get_span_context().trace_id:032x}"


def test_a_row_shares_the_fate_of_its_transaction_and_savepoint() -> None:
    with transaction.atomic():
        assert publish(SUBJECT, "kept") is None
        with transaction.atomic():
            publish(SUBJECT, "of a savepoint that is rolled back")
            transaction.set_rollback(True)
        with transaction.atomic():
            publish_many([(SUBJECT, "of one"), (SUBJECT, "that is not")])
    with transaction.atomic():
        publish(SUBJECT, "rolled back")
        transaction.set_rollback(True)
    assert publish(SUBJECT, "outside") is None
    assert written() == ["kept", "of one", "that is not", "outside"]


def test_a_row_holds_all_of_the_message() -> None:
    publish(SUBJECT, b"\x00\xff", {"a": 1}, retained=False, closure="c", as_of={"version": 3})
    row = OutboxMessage.objects.get()
    assert msgspec.msgpack.decode(bytes(row.message)) == [
        SUBJECT, b"\x00\xff", {"a": "1"}, {"retained": False, "as_of": {"version": 3}, "closure": "c"},
    ]  # fmt: skip
    assert (row.subject, row.size, row.code) == (SUBJECT, 4, "")


def test_asynchronous_code_writes_rows_too() -> None:
    async def view() -> None:
        assert await apublish(SUBJECT, "one") is None
        assert await apublish_many([(SUBJECT, "two"), (SUBJECT, "three")]) is None

    asyncio.run(view())
    assert written() == ["one", "two", "three"]


def test_what_is_too_large_is_refused_at_the_call() -> None:
    with pytest.raises(MessageTooLarge):
        publish(SUBJECT, "x" * ((1 << 20) + 1))
    assert written() == []


def test_a_full_outbox_says_so_and_leaves_the_transaction_as_it_was(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"OUTBOX_ROWS_MAX": 3, "ON_FAILURE": None}  # the default
    with transaction.atomic():
        publish(SUBJECT, "1")
        with pytest.raises(OutboxFull, match=r"outbox_full: the outbox has 3 rows.*realtime_outbox.*OUTBOX_ROWS_MAX"):
            publish_many([(SUBJECT, str(number)) for number in (2, 3, 4)])
        publish_many([(SUBJECT, "5"), (SUBJECT, "6")])
        before = failures.total
        assert publish(SUBJECT, "7", fail_silently=True) is None
        assert failures.total == before + 1
    assert written() == ["1", "5", "6"]
    settings.REALTIME = settings.REALTIME | {"ON_FAILURE": "log"}
    assert publish(SUBJECT, "8") is None
    OutboxMessage.objects.all().delete()
    publish(SUBJECT, "9")
    assert written() == ["9"]


def test_a_transaction_of_another_database_is_no_place_for_a_row(tmp_path: Path) -> None:
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.sqlite3"), "OPTIONS": {}}
    connections.settings["other"] = connections.settings["default"] | sqlite
    connections["other"].connect()
    try:
        with transaction.atomic(using="other"):
            for using in (None, "other"):
                with pytest.raises(TransactionManagementError, match='"other", and the outbox is in "default"'):
                    publish(SUBJECT, "of which", using=using)
            publish(SUBJECT, "at once", using="default")
            assert written() == ["at once"]
            with transaction.atomic():
                with pytest.raises(TransactionManagementError, match='"default" and "other"'):
                    publish(SUBJECT, "of which")
                publish(SUBJECT, "with it", using="default")
    finally:
        connections["other"].close()
        del connections["other"]
        del connections.settings["other"]
    assert written() == ["at once", "with it"]


def test_a_test_run_has_no_outbox(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"BACKEND": "dummy"}
    assert publish(SUBJECT, "to nobody") is not None
    assert written() == []
