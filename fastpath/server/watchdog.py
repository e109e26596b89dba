"""Watches the workers that serve: names one that hangs or is starved, asks where it stands, and kills a hung one."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..logs.formats import event
from .hangs import HangVerdict, Judge, Silence, Work

BEAT = b"\0"
"""Byte that a worker writes to its parent each second."""

STACK_BYTES_MAX = 16 << 10

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

log = logging.getLogger("fastpath.workers")


class Watchdog:
    """The parent's side. ``hang_seconds`` of its own time (hangs.py) are too much for a worker's silence; 0: never."""

    def __init__(self, hang_seconds: float) -> None:
        self._judge = Judge(hang_seconds, time.monotonic())
        self._pids: dict[int, int] = {}
        self._stacks: dict[int, bytes] = {}

    @property
    def watches(self) -> bool:
        """True if there is anybody to look at."""
        return bool(self._pids)

    def begin(self, number: int, pid: int) -> None:
        """Watch a worker from now on, as it serves."""
        self._pids[number], self._stacks[number] = pid, b""
        self._judge.begin(number)

    def end(self, number: int) -> None:
        """Stop watching a worker that has ended."""
        if self._pids.pop(number, None) is not None:
            del self._stacks[number]
            self._judge.end(number)

    def hear(self, number: int, data: bytes) -> None:
        """Hear beats, or the stack that was asked for."""
        if number not in self._pids:
            return
        if BEAT not in data:
            self._stacks[number] = (self._stacks[number] + data)[:STACK_BYTES_MAX]
            return
        self._stacks[number] = b""
        silence = self._judge.heard(number)
        if silence is not None:
            self._tell("worker goes on", logging.WARNING, number, **_seconds(silence))

    def look(self, hear: Callable[[], object]) -> None:
        """Look at all workers; to be called every LOOK_SECONDS. ``hear`` hands over what the workers have said by
        now."""
        # In this order: what a worker did before its last beat must not be held against it.
        works = {number: work_of(self._pids[number]) for number in self._judge.silent}
        hear()
        for verdict, number, silence in self._judge.look(time.monotonic(), works):
            self._act(verdict, number, silence)

    def _act(self, verdict: HangVerdict, number: int, silence: Silence) -> None:
        if verdict is HangVerdict.KILL:
            stack = self._stacks[number].decode(errors="replace") or "(it did not say where it stands)"
            self._tell("worker killed", logging.ERROR, number, traceback=stack)
            self._send(number, signal.SIGKILL)
            self.end(number)
            return
        found = {**_seconds(silence), "state": _state(self._pids[number])}
        if verdict is HangVerdict.STARVED:
            self._tell("worker starved", logging.WARNING, number, **found)
        elif verdict is HangVerdict.MACHINE:
            self._tell("worker silent as others are", logging.ERROR, number, others=len(self._judge.crowd) - 1, **found)
        else:
            self._stacks[number] = b""
            self._tell("worker hangs", logging.ERROR, number, **found)
            self._send(number, signal.SIGUSR1)

    def _tell(self, text: str, level: int, number: int, **values: Any) -> None:
        event(log, text, level, child=number, child_pid=self._pids[number], **values)

    def _send(self, number: int, what: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pids[number], what)


def _seconds(silence: Silence) -> dict[str, float]:
    return {
        "silent_seconds": round(silence.silent, 1),
        "ran_seconds": round(silence.ran, 1),
        "waited_seconds": round(silence.waited, 1),
    }


def work_of(pid: int) -> Work | None:
    """Return the work of a process by Linux' /proc; None elsewhere, and of one that is gone.

    A kernel without ``schedstat`` tells no time that was waited: then only who is runnable at a look has waited.
    """
    ran = waited = 0
    runnable, scheduled = False, True
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end at any moment
                runnable |= _stat(f"/proc/{pid}/task/{task}/stat")[0] == "R"
                try:
                    of_task = Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()
                    ran, waited = ran + int(of_task[0]), waited + int(of_task[1])
                except FileNotFoundError:
                    scheduled = False
        if scheduled:
            return Work(ran / 1e9, waited / 1e9, runnable)
        user, system = _stat(f"/proc/{pid}/stat")[11:13]
        return Work((int(user) + int(system)) / _TICKS, 0.0, runnable)
    except OSError:
        return None


def _stat(path: str) -> list[str]:
    """Return the fields of a ``stat`` from its third on, the state; the second, a name in brackets, may hold
    anything."""
    return Path(path).read_text().rpartition(")")[2].split()


def _state(pid: int) -> str:
    """Return what the kernel says that a process does, as ``T (stopped)`` or ``D (disk sleep)``; empty elsewhere."""
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
        """Write the one line that this worker has to tell."""
        os.write(self._descriptor, line.encode() + b"\n")

    def beat(self) -> None:
        """Beat, as the loop runs."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._descriptor, BEAT)
