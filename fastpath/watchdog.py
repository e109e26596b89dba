"""Notices a worker that hangs, asks it where it stands, and kills it so that another takes its place."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from .logs import event

BEAT = b"\0"
"""What a worker writes to its parent each second."""

STACK_SECONDS = 1.0
"""How long a worker that hangs has to tell where, before it is killed."""

STACK_BYTES_MAX = 16 << 10

ASLEEP_SECONDS = 3.0
"""A parent that has not looked for so long was itself not running: the machine was suspended, or all were stopped."""

log = logging.getLogger("fastpath.workers")


class Watchdog:
    """Watches one worker that serves; ``hang_seconds`` of silence are too much, and 0 is never."""

    def __init__(self, number: int, pid: int, hang_seconds: float) -> None:
        self._number = number
        self._pid = pid
        self._hang_seconds = hang_seconds
        self._heard = self._looked = time.monotonic()
        self._asked = 0.0
        self._killed = False
        self._stack = b""

    def hear(self, data: bytes) -> None:
        """Beats, or the stack that was asked for."""
        if BEAT not in data:
            self._stack = (self._stack + data)[:STACK_BYTES_MAX]
            return
        moment = time.monotonic()
        if self._asked and not self._killed:
            event(
                log,
                "worker goes on",
                logging.WARNING,
                child=self._number,
                child_pid=self._pid,
                silent_seconds=round(moment - self._heard, 1),
            )
            self._asked, self._stack = 0.0, b""
        self._heard = moment

    def look(self) -> None:
        """Called about once a second."""
        moment = time.monotonic()
        if moment - self._looked > ASLEEP_SECONDS:
            self._heard, self._asked = moment, 0.0
        self._looked = moment
        silent = moment - self._heard
        if self._killed or not self._hang_seconds or silent < self._hang_seconds:
            return
        if not self._asked:
            self._asked, self._stack = moment, b""
            event(
                log,
                "worker hangs",
                logging.ERROR,
                child=self._number,
                child_pid=self._pid,
                silent_seconds=round(silent, 1),
                state=_state(self._pid),
            )
            self._send(signal.SIGUSR1)
        elif moment - self._asked >= STACK_SECONDS:
            self._killed = True
            event(
                log,
                "worker killed",
                logging.ERROR,
                child=self._number,
                child_pid=self._pid,
                traceback=self._stack.decode(errors="replace") or "(it did not say where it stands)",
            )
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


def _state(pid: int) -> str:
    """What the kernel says that a process does, such as ``T (stopped)`` or ``D (disk sleep)``; empty elsewhere."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(line for line in lines if line.startswith("State:")).partition(":")[2].strip()
    return ""


class Heart:
    """The worker's side: the descriptor that its parent reads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)
        # In C: it works also while Python code runs on and on, or a call does not come back.
        faulthandler.register(signal.SIGUSR1, descriptor, all_threads=True)

    def say(self, line: str) -> None:
        """The one line that this worker has to tell."""
        os.write(self._descriptor, line.encode() + b"\n")

    def beat(self) -> None:
        """The loop runs."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._descriptor, BEAT)
