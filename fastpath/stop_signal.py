"""An event that signal handlers set: how the programs around the sidecar are told to end."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopEvent(threading.Event):
    """Without a lock, so that a signal handler may set it whatever the main thread does at that moment.

    `threading.Event.set` takes a lock that is not reentrant: a handler that interrupts `wait`, or another handler's
    `set`, waits for it forever. A terminal's Ctrl-C is often followed at once by a supervisor's SIGTERM. It keeps two
    descriptors for as long as it is there.
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
        """Whether it was set."""
        return self._told

    def set(self) -> None:
        """Wake all who wait; it stays set."""
        if not self._told:
            self._told = True
            os.write(self._write, b"\0")  # never read: whoever waits, now or later, finds the pipe readable

    def clear(self) -> None:
        """A program that was told to end is not told otherwise."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds; whether it is."""
        if not self._told:
            poll = select.poll()
            poll.register(self._read, select.POLLIN)
            poll.poll(None if timeout is None else timeout * 1000)
        return self._told


@contextmanager
def stop_on_signals() -> Iterator[StopEvent]:
    """An event that SIGTERM and SIGINT set; afterwards they do what they did before. For the main thread only."""
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
