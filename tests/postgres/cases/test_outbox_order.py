"""The outbox on PostgreSQL: what is sent follows the commits, and not the order in which rows were written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from django.db import connection, connections, transaction

from realtime import publish, publish_many
from realtime.models import OutboxMessage
from realtime.publishing.outbox import listening
from realtime.publishing.outbox.listening import Waker
from realtime.publishing.outbox.store import Fates, OutboxStore, send_again
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.django_db(transaction=True)

SUBJECT = "/orders/42"


@pytest.fixture(autouse=True)
def outbox(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "CONTROL": "/nonexistent/c.sock"}


@contextmanager
def thread() -> Iterator[Callable[..., Future[Any]]]:
    """Another connection: runs functions one after the other, in the transaction of that thread."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit
        finally:
            pool.submit(connections.close_all).result(PATIENCE_SECONDS)


def taken(store: OutboxStore) -> list[str]:
    """The contents of the next batch, which is stored."""
    batch = store.take()
    store.settle(Fates([one.id for one in batch], {}, []))
    return [one.row.wire[1] for one in batch]


def waits() -> bool:
    """Whether a connection waits for an advisory lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("looks_between", [True, False])
def test_the_transaction_that_commits_first_is_sent_first(looks_between: bool) -> None:
    """Though the other one has the lower transaction and rows; and nobody waits for what is still open."""
    store = OutboxStore("default")
    assert store.lead()
    found = []
    with thread() as other:
        with transaction.atomic():
            publish(SUBJECT, "begun first")
            other(publish_many, [(SUBJECT, "committed first"), ("/orders/43", "besides")]).result(PATIENCE_SECONDS)
            if looks_between:
                found += other(taken, store).result(PATIENCE_SECONDS)
                assert found == ["committed first", "besides"]
        found += other(taken, store).result(PATIENCE_SECONDS)
    assert found == ["committed first", "besides", "begun first"]


def test_who_commits_to_a_subject_waits_for_who_does_already() -> None:
    with thread() as other:
        with transaction.atomic():
            publish(SUBJECT, "first")
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as if this were its commit
            second = other(publish, SUBJECT, "second")
            until(waits)
            assert not second.done()
        second.result(PATIENCE_SECONDS)
    rows = OutboxMessage.objects.order_by("position", "id")
    assert [msgspec.msgpack.decode(bytes(row.message))[1] for row in rows] == ["first", "second"]


def test_commits_to_the_same_subjects_in_any_order_do_not_block_each_other() -> None:
    subjects = [f"/orders/{number}" for number in range(20)]

    def run(order: list[str]) -> None:
        try:
            for _ in range(20):
                with transaction.atomic():
                    for subject in order:
                        publish(subject, "x")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        orders = (subjects, subjects[::-1], subjects[10:] + subjects[:10], subjects[5:] + subjects[:5])
        for done in [pool.submit(run, order) for order in orders]:
            done.result(60)
    assert OutboxMessage.objects.filter(position__isnull=False).count() == 4 * 20 * 20


def test_a_large_transaction_takes_one_place() -> None:
    with transaction.atomic():
        publish_many([(f"/orders/{number}", "x") for number in range(5000)])
    assert OutboxMessage.objects.values("position").distinct().count() == 1


def test_a_commit_wakes_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LISTEN_SECONDS", 60.0)
    waker = Waker("default", threading.Event())
    waker.listen()
    with thread() as other:
        waiting = other(waker.wait)
        with transaction.atomic():
            publish_many([(SUBJECT, "a"), (SUBJECT, "b")])
            publish(SUBJECT, "c")
            assert not waiting.done()
        waiting.result(PATIENCE_SECONDS)
    waker.close()


def terminate(pid: int) -> None:
    """End another connection, and wait until it has ended."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        assert cursor.fetchone()[0]


def test_a_commit_whose_notification_fails_is_a_commit_all_the_same() -> None:
    """The rows are found by looking: who has committed hears of no error, and what else waits for that is done."""
    done: list[str] = []
    with thread() as doomed, thread() as other:

        def publishes() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                (pid,) = cursor.fetchone()
            with transaction.atomic():
                transaction.on_commit(lambda: other(terminate, pid).result(2 * PATIENCE_SECONDS))
                publish(SUBJECT, "committed")
                transaction.on_commit(lambda: done.append("last"))

        doomed(publishes).result(3 * PATIENCE_SECONDS)
    assert done == ["last"]
    store = OutboxStore("default")
    assert store.lead()
    assert taken(store) == ["committed"]


def test_what_two_send_again_at_once_is_there_once() -> None:
    publish(SUBJECT, "refused")
    OutboxMessage.objects.update(code="denied")
    (number,) = OutboxMessage.objects.values_list("pk", flat=True)
    with thread() as other:
        with transaction.atomic():
            assert send_again("default", [number]) == 1
            second = other(send_again, "default", [number])
            until(blocked)
        assert second.result(PATIENCE_SECONDS) == 0
    assert OutboxMessage.objects.count() == 1


def blocked() -> bool:
    """Whether a connection waits for another one's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted")
        return bool(cursor.fetchone()[0])
