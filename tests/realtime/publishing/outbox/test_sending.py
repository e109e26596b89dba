"""The outbox is sent in order, once, whatever the sidecar answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from realtime import Position, publish, publish_failed, publish_many, published, remove
from realtime.conf import conf
from realtime.models import OutboxMessage, OutboxState
from realtime.publishing.outbox.listening import Waker
from realtime.publishing.outbox.sending import Sender
from realtime.publishing.outbox.store import OutboxStore
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

SUBJECT = "/orders/42"

Stored = Callable[[str], list[str]]

pytestmark = pytest.mark.usefixtures("outbox")


class Scripted:
    """Nodes that answer what the test says, the last answer again and again; ``asked`` is what they were sent."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[list[tuple[str, int]]] = []
        self.publishers: list[str] = []

    def publish(self, rows: Sequence[Any], publisher: str) -> dict[str, Any]:
        """As Nodes; an answer is an error, a function of the rows, or their results."""
        self.asked.append([(row[1], row[3]["id"]) for row in rows])
        self.publishers.append(publisher)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"epoch": 7, "results": answer(rows) if callable(answer) else answer}


def all_stored(rows: Sequence[Any]) -> list[int]:
    """The results of rows that are all stored."""
    return list(range(1, len(rows) + 1))


@contextmanager
def sending(nodes: Any) -> Iterator[None]:
    """A sender at work in a thread."""
    stop = threading.Event()
    sender = Sender(OutboxStore("default"), nodes, Waker("default", stop), stop)

    def run() -> None:
        try:
            sender.run()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def empty() -> bool:
    """Whether nothing waits."""
    return not OutboxMessage.objects.filter(code="").exists()


def test_what_waits_and_what_comes_is_sent_in_order(node: Sidecar, stored: Stored) -> None:
    publish_many([(SUBJECT, str(number)) for number in range(10)])
    with Nodes(conf.controls) as nodes, sending(nodes):
        until(empty)
        for number in range(10, 20):
            publish(SUBJECT, str(number))
            publish("/orders/43", str(number))
        until(empty)
    assert stored(SUBJECT) == list(map(str, range(20)))
    assert stored("/orders/43") == list(map(str, range(10, 20)))
    state = OutboxState.objects.get()
    assert (state.sent, state.refused, state.holder, state.pending) == (30, 0, "", [])


def test_a_removal_is_sent_in_its_place(node: Sidecar) -> None:
    publish(SUBJECT, "open", {"total": "7"})
    remove(SUBJECT)
    with Nodes(conf.controls) as nodes, sending(nodes):
        until(empty)
        assert nodes.snapshot(SUBJECT)["status"] == "none"
        publish(SUBJECT, "again")
        until(empty)
        assert nodes.snapshot(SUBJECT)["message"]["fields"] == {}


def test_a_batch_whose_sender_died_is_stored_once(node: Sidecar, stored: Stored) -> None:
    publish_many([(SUBJECT, str(number)) for number in range(10)])
    store = OutboxStore("default")
    assert store.lead()
    batch = store.take()
    with Nodes(conf.controls) as nodes:
        rows = [[*one.row.wire[:3], {"id": one.number}] for one in batch]
        nodes.publish(rows[:6], publisher=store.publisher)  # it dies before it has told the database
        OutboxState.objects.update(holder="")
        publish(SUBJECT, "10")
        with sending(nodes):
            until(empty)
    assert stored(SUBJECT) == list(map(str, range(11)))


def test_rows_wait_for_a_sidecar_that_is_away(node: Sidecar, stored: Stored, caplog: pytest.LogCaptureFixture) -> None:
    node.stop()
    publish(SUBJECT, "a")
    with Nodes(conf.controls) as nodes, sending(nodes):
        until(lambda: OutboxState.objects.filter(retries__gt=1).exists())
        assert not empty()
        told = [record for record in caplog.records if record.name == "realtime.outbox"]
        node.start()  # from here on it may be unable to answer in several ways
        until(empty)
    assert stored(SUBJECT) == ["a"]
    assert [record.levelno for record in told] == [logging.ERROR], "once as long as it is the same"
    assert "1 messages or more wait" in told[0].getMessage()


def test_what_is_refused_is_set_aside_and_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    publish_many([(SUBJECT, "a"), (SUBJECT, "b"), (SUBJECT, "c")])
    failed: list[tuple[str, str]] = []
    positions: list[tuple[str, Position]] = []

    def on_failed(content: str, error: Any, **_: Any) -> None:
        failed.append((content, error.code))

    def on_published(content: str, position: Position, **_: Any) -> None:
        positions.append((content, position))

    publish_failed.connect(on_failed)
    published.connect(on_published)
    try:
        nodes = Scripted([4, ["denied", "no right"], [6, 5]], all_stored)
        with sending(nodes):
            until(empty)
            publish(SUBJECT, "d")
            until(empty)
            until(lambda: len(positions) == 3)
    finally:
        publish_failed.disconnect(on_failed)
        published.disconnect(on_published)
    assert nodes.asked == [[("a", 1), ("b", 2), ("c", 3)], [("d", 4)]]
    assert failed == [("b", "denied")]
    assert positions == [("a", (7, 4)), ("c", (6, 5)), ("d", (7, 1))]
    aside = OutboxMessage.objects.get()
    assert (aside.subject, aside.code, aside.reason) == (SUBJECT, "denied", "no right")
    assert "1 messages were refused and set aside; the first: the message to /orders/42" in caplog.text


def test_the_outcome_decides_under_which_number_a_row_comes_again() -> None:
    """Known not to be stored: under a new one. Perhaps stored: under the same, and ahead of all others."""
    publish_many([(SUBJECT, "a"), (SUBJECT, "b"), (SUBJECT, "c")])
    nodes = Scripted([1, ["failed", "full"], ["unavailable", "no replica"]], [["not_ready", "no rights"]], all_stored)
    with sending(nodes):
        until(empty)
    assert nodes.asked == [[("a", 1), ("b", 2), ("c", 3)], [("c", 3)], [("c", 3)], [("b", 4)]]
    assert len(set(nodes.publishers)) == 1
    assert OutboxState.objects.get().retries == 2


@pytest.mark.parametrize("code", ["stale", "outdated"])
def test_what_was_sent_before_and_is_not_remembered_counts_as_stored(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(SUBJECT, "a")
    with sending(Scripted(SidecarUnavailable("/c.sock", "it ended"), [[code, "too old"]])):
        until(empty)
    assert not OutboxMessage.objects.exists()
    assert "1 messages that were sent before count as stored, the first to /orders/42" in caplog.text


def test_numbers_that_somebody_else_has_used_are_given_up() -> None:
    publish(SUBJECT, "a")
    nodes = Scripted([["stale", "older than what is remembered"]], all_stored)
    with sending(nodes):
        until(empty)
    assert [nodes.asked, len(set(nodes.publishers))] == [[[("a", 1)], [("a", 1)]], 2]


def test_of_a_frame_that_is_refused_each_message_is_tried_alone() -> None:
    publish_many([(SUBJECT, "a"), (SUBJECT, "b")])
    refused = ControlRefused("too_large", "passes the bound")
    nodes = Scripted(refused, [1], refused, ControlRefused("failed", "a fault"), all_stored)
    with sending(nodes):
        until(empty)
        publish(SUBJECT, "c")
        until(empty)
    assert nodes.asked == [[("a", 1), ("b", 2)], [("a", 1)], [("b", 2)], [("c", 3)], [("c", 4)]]
    assert OutboxMessage.objects.get().code == "too_large"


def test_a_second_one_takes_over_when_the_first_ends() -> None:
    first, second = Scripted(all_stored), Scripted(all_stored)
    with sending(second):
        until(lambda: OutboxState.objects.exclude(holder="").exists())
        with sending(first):
            publish(SUBJECT, "a")
            until(empty)
            assert not first.asked
            OutboxState.objects.update(holder="")  # as if the other had ended
            until(lambda: OutboxState.objects.exclude(holder="").exists())
            publish(SUBJECT, "b")
            until(empty)
    assert len(first.asked) + len(second.asked) == 2
