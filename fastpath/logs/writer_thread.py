"""A thread that writes what is handed in: a bounded queue, a pause after each failure, and an end that is waited for.

The log (fastpath/logs/writer.py) and the audit (fastpath/edge/audit/files.py) are written by one each.
"""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, TypeVar

RETRY_SECONDS = 1.0
"""Seconds after a failure in which nothing is tried."""

CLOSE_SECONDS = 2.0
"""Seconds that the end waits for the taker of the lines."""

T = TypeVar("T")
"""Item that is handed in at once: whole lines, with what its writer needs to know of them."""


class WriterThread(ABC, Generic[T]):
    """Takes items, never waits for who writes them, and loses them while that fails.

    ``lines_max`` and ``bytes_max`` may wait; ``batch_bytes`` are written together at most, 0 is one item at a time.
    With ``idle_seconds`` the thread calls ``_idle`` so often.
    """

    def __init__(
        self, name: str, lines_max: int, bytes_max: int, batch_bytes: int = 0, idle_seconds: float | None = None
    ) -> None:
        self._name = name
        self._waiting_lines_max = lines_max
        self._waiting_bytes_max = bytes_max
        self._batch_bytes = batch_bytes
        self._idle_seconds = idle_seconds
        self._items: queue.SimpleQueue[tuple[T, int, int] | None] = queue.SimpleQueue()
        # What was handed in, by one thread at a time, and what was taken of it, by the thread.
        self._in_lines = self._in_bytes = self._out_lines = self._out_bytes = 0
        self._failing = ""
        self._failed_at = 0.0
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write what has been handed in, and what will be, after a thread that has been told to end."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, args=(self._thread,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self, seconds: float = CLOSE_SECONDS, last: T | None = None) -> bool:
        """Write what waits and then ``last``, for so long at most, and end the thread; ``start`` goes on.

        Return whether all has been taken; in a process that was forked there is no thread, and nothing to wait for.
        """
        if self._thread is None or not self._thread.is_alive():
            return True
        self._closing = True
        if last is not None:
            self._items.put((last, 0, 0))
        self._items.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def has_room(self, lines: int, size: int) -> bool:
        """Return whether so many more lines and bytes may wait."""
        return (
            self._in_lines - self._out_lines + lines <= self._waiting_lines_max
            and self._in_bytes - self._out_bytes + size <= self._waiting_bytes_max
        )

    def hand_in(self, item: T, lines: int, size: int) -> None:
        """Let the thread write the item, of so many lines and bytes. Not by two threads at once."""
        self._in_lines += lines
        self._in_bytes += size
        self._items.put((item, lines, size))

    @abstractmethod
    def _write(self, items: Sequence[T]) -> None:
        """Write the items, however long it takes; called by the thread, as all that follows. Raises OSError."""

    @abstractmethod
    def _lose(self, items: Sequence[T]) -> None:
        """Count the items as lost."""

    @abstractmethod
    def _fails(self, why: OSError) -> None:
        """Say that nothing can be written from now on."""

    def _recovers(self) -> None:
        """Say that lines are written again."""

    def _idle(self) -> None:
        """Do what is due every ``idle_seconds``."""

    def _run(self, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        looked_at, ended = time.monotonic(), False
        while not ended:
            items, ended = self._take()
            if items:
                self._attempt(items)
            if self._idle_seconds is not None and not ended and time.monotonic() >= looked_at + self._idle_seconds:
                looked_at = time.monotonic()
                self._idle()

    def _take(self) -> tuple[list[T], bool]:
        """Take what waits, as much as is written together; return with it True if the end has come."""
        items: list[T] = []
        taken = 0
        with suppress(queue.Empty):
            entry = self._items.get(timeout=self._idle_seconds)
            while entry is not None:
                item, lines, size = entry
                items.append(item)
                self._out_lines += lines
                self._out_bytes += size
                taken += size
                if taken >= self._batch_bytes:
                    return items, False
                entry = self._items.get_nowait()
            return items, True
        return items, False

    def _attempt(self, items: list[T]) -> None:
        if self._failing and not self._closing and time.monotonic() < self._failed_at + RETRY_SECONDS:
            self._lose(items)
            return
        try:
            self._write(items)
        except OSError as error:
            first, self._failing = not self._failing, error.strerror or str(error)
            self._failed_at = time.monotonic()
            self._lose(items)
            if first:
                self._fails(error)
            return
        if self._failing:
            self._failing = ""
            self._recovers()
