"""An event that signal handlers set: how the programs around the sidecar are told to end."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)

WAKE_SECONDS = 0.5
"""Seconds after which a main thread that waits wakes: the kernel may hand a signal to a thread that runs no handler."""


class StopEvent(threading.Event):
    """An event without a lock, so that a signal handler may set it whatever the main thread does at that moment.

    `threading.Event.set` takes a lock that is not reentrant: a handler that interrupts `wait`, or another handler's
    `set`, waits for the lock forever. A terminal's Ctrl-C is often followed at once by a supervisor's SIGTERM. The
    event keeps two descriptors for as long as it is there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told = False
        self._read, self._write = os.pipe()

    def __del__(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)

    def is_set(self) -> bool:
        """Return True once the event was set."""
        return self._told

    def set(self) -> None:
        """Wake all who wait; the event stays set."""
        if not self._told:
            self._told = True
            os.write(self._write, b"\0")  # never read: whoever waits, now or later, finds the pipe readable

    def clear(self) -> None:
        """Refuse: a program that was told to end is not told otherwise."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most so many seconds; return True if it is."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        until = None if timeout is None else time.monotonic() + timeout
        while not self._told:
            left = WAKE_SECONDS if until is None else min(until - time.monotonic(), WAKE_SECONDS)
            poll.poll(max(left, 0) * 1000)
            if until is not None and time.monotonic() >= until:
                break
        return self._told


@contextmanager
def stop_on_signals() -> Iterator[StopEvent]:
    """Yield an event that SIGTERM and SIGINT set; let them do afterwards what they did before. For the main thread
    only."""
    stop = StopEvent()

    def told(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    before = {number: signal.signal(number, told) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
