"""The queue of spans: bounded, emptied by a thread, and honest about what it lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from fastpath.edge.tracing.spans import BATCH_SPANS, STOP_SECONDS, WAITING_MAX, ExportQueue, MessageSpan
from tests.support.waiting import until


class Slow:
    """An exporter that says what it is told to, and waits while it is held."""

    def __init__(self) -> None:
        self.batches: list[list[MessageSpan]] = []
        self.trouble = ""
        self.free = threading.Event()
        self.free.set()
        self.waits = False
        self.closed = threading.Event()

    def export(self, spans: Sequence[MessageSpan]) -> str:
        """Keep them."""
        self.waits = not self.free.is_set()
        while not self.free.wait(0.02) and not self.closed.is_set():
            pass
        self.batches.append(list(spans))
        return self.trouble

    def close(self) -> None:
        """Give up."""
        self.closed.set()


def span(number: int) -> MessageSpan:
    """One of many."""
    return MessageSpan("accept", True, "1" * 32, f"{number:016x}", "", number, number + 1, {})


def test_what_waits_is_exported_in_batches_and_in_order_and_the_rest_at_the_end() -> None:
    exporter = Slow()
    queue = ExportQueue("spans", exporter, 0.02)
    for number in range(BATCH_SPANS + 3):
        queue.put(span(number))
    queue.start()
    until(lambda: queue.exported == BATCH_SPANS + 3)
    assert [len(batch) for batch in exporter.batches] == [BATCH_SPANS, 3]
    queue.put(span(9000))
    queue.stop()
    assert [one.began for batch in exporter.batches for one in batch] == [*range(BATCH_SPANS + 3), 9000]
    assert (queue.exported, queue.dropped) == (BATCH_SPANS + 4, 0)
    assert exporter.closed.is_set()


def test_what_it_has_no_room_for_is_counted_and_nobody_waits() -> None:
    exporter = Slow()
    exporter.free.clear()
    queue = ExportQueue("spans", exporter, 0.02)
    queue.put(span(0))
    queue.start()
    until(lambda: exporter.waits)
    for number in range(WAITING_MAX + 10):
        queue.put(span(number))
    assert queue.full
    queue.leave_out()
    assert (queue.exported, queue.dropped) == (0, 11)
    exporter.free.set()
    until(lambda: queue.exported == WAITING_MAX + 1)
    assert (queue.full, queue.dropped) == (False, 11)
    queue.stop()


def test_what_nobody_took_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Slow()
    exporter.trouble = "connection refused"
    queue = ExportQueue("spans", exporter, 0.02)
    with caplog.at_level(logging.INFO, "fastpath.tracing"):
        queue.start()
        for count in (1, 2):
            queue.put(span(count))
            until(lambda count=count: queue.dropped == count)  # type: ignore[misc]
        exporter.trouble = ""
        queue.put(span(3))
        until(lambda: queue.exported == 1)
        queue.stop()
    assert [record.getMessage() for record in caplog.records] == ["spans are not exported", "spans are exported again"]
    assert caplog.records[0].values == {"reason": "connection refused"}  # type: ignore[attr-defined]


def test_a_stop_does_not_wait_for_a_collector_that_never_answers() -> None:
    exporter = Slow()
    exporter.free.clear()
    queue = ExportQueue("spans", exporter, 0.02)
    queue.put(span(1))
    queue.start()
    ended = threading.Event()
    stopping = threading.Thread(target=lambda: (queue.stop(), ended.set()))
    stopping.start()
    assert ended.wait(10 * STOP_SECONDS)
    stopping.join()
    assert exporter.closed.is_set()
