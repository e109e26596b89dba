"""Spans, and what else is exported, on the way out: a bounded queue that the loop fills and a thread empties."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ...logs.formats import event

WAITING_MAX = 1024
"""Items that wait; with EXPORT_SECONDS this also bounds how many a process exports a second, and what that costs."""

BATCH_SPANS = 512
"""Items of one request, as OpenTelemetry's own processor takes."""

EXPORT_SECONDS = 0.5
"""Seconds between two exports of what waits."""

STOP_SECONDS = 2.0
"""Seconds that a process that stops waits for its last items to be taken."""

log = logging.getLogger("fastpath.tracing")


class MessageSpan(NamedTuple):
    """The course of one message in this process; times are in ns since 1970.

    ``trace``, ``span`` and ``parent`` are ids in hexadecimal digits, ``parent`` empty for the first span of a trace.
    ``incoming`` tells what was taken in from what was handed on. ``error`` is empty, or why the message went no
    further.
    """

    name: str
    incoming: bool
    trace: str
    span: str
    parent: str
    began: int
    ended: int
    attributes: Mapping[str, str | int]
    error: str = ""


Item = TypeVar("Item")
"""Item that is exported."""

_Taken = TypeVar("_Taken", contravariant=True)


class Exporter(Protocol[_Taken]):
    """Hands items on; called in one thread, and may wait there."""

    def export(self, items: Sequence[_Taken]) -> str:
        """Export; return an empty text when all were taken, else why none was."""

    def close(self) -> None:
        """Give up what is being waited for; called in another thread."""


class ExportQueue(Generic[Item]):
    """The items of one process that wait, and what became of the others; ``name`` is what the log calls them."""

    def __init__(self, name: str, exporter: Exporter[Item], seconds: float = EXPORT_SECONDS) -> None:
        self._name = name
        self._exporter = exporter
        self._seconds = seconds
        self._waiting: deque[Item] = deque()
        # Each number has one thread that counts it.
        self._left_out = self._exported = self._lost = 0
        self._trouble = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Export from now on."""
        self._thread.start()

    @property
    def full(self) -> bool:
        """True if there is no room for one more."""
        return len(self._waiting) >= WAITING_MAX

    @property
    def exported(self) -> int:
        """The number of items that were taken."""
        return self._exported

    @property
    def dropped(self) -> int:
        """The number of items for which there was no room, or that nobody took."""
        return self._left_out + self._lost

    def put(self, item: Item) -> None:
        """Have it exported; one for which there is no room is counted."""
        if self.full:
            self._left_out += 1
        else:
            self._waiting.append(item)

    def leave_out(self) -> None:
        """Count an item that was not even made, because the queue is full."""
        self._left_out += 1

    def stop(self) -> None:
        """Export what waits, and wait a moment for that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._exporter.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            self._export(len(self._waiting))
        self._export(len(self._waiting))

    def _export(self, count: int) -> None:
        """Hand on so many of those that wait; others that come meanwhile have their turn later."""
        while count > 0:
            batch = [self._waiting.popleft() for _ in range(min(count, BATCH_SPANS))]
            count -= len(batch)
            trouble = self._exporter.export(batch)
            if trouble:
                self._lost += len(batch)
            else:
                self._exported += len(batch)
            self._tell(trouble)

    def _tell(self, trouble: str) -> None:
        """Log that it goes wrong, or well again, once."""
        if trouble and not self._trouble:
            event(log, f"{self._name} are not exported", logging.WARNING, reason=trouble)
        elif self._trouble and not trouble:
            event(log, f"{self._name} are exported again")
        self._trouble = trouble
