"""Starts processes in order, restarts those that end, and ends them all: small and generic, for `runrealtime`."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from realtime.process import strays

_BACKOFF_SECONDS_MAX = 30.0
_REPORT_FAILURES = 5
_STABLE_SECONDS = 1.0
"""A child that ends sooner after it was ready failed at once, like one that never was."""

_LINES_KEPT = 20
_LAST_LINES_SECONDS = 0.3
"""Seconds that the last lines of an ended child may take; what it left behind can hold its output open."""

_LINE_BYTES_MAX = 16384
_LIFELINE = str(Path(__file__).with_name("lifeline.py"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StartFailed(Exception):
    """A child did not get ready when it was first started; the text holds its last lines."""


class Stopped(Exception):
    """A signal asked to stop while children were being started."""


@dataclass
class Child:
    """A command to keep running.

    ``ready``: the text in a line of its output that says it is up; empty: it is up at once. ``restart_seconds``: the
    pause before the first restart; after failures in a row it doubles, up to 30 s. ``on_hangup``: restart at SIGHUP.
    ``changed_status``: that with which it asks to be started again with new code; as soon as it is ready then, the
    others of ``on_hangup`` are restarted as well. ``waiting``: the text in a line that says that its code is broken.
    """

    name: str
    argv: list[str]
    environment: Callable[[], Mapping[str, str]]
    ready: str = ""
    ready_seconds_max: float = 30.0
    restart_seconds: float = 1.0
    stop_seconds_max: float = 10.0
    on_hangup: bool = False
    changed_status: int | None = None
    waiting: str = ""
    is_changed: bool = field(default=False, init=False)
    is_waiting: bool = field(default=False, init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started: float = field(default=0.0, init=False)
    ready_at: float | None = field(default=None, init=False)
    start_at: float | None = field(default=None, init=False)
    kill_at: float | None = field(default=None, init=False)
    failures: int = field(default=0, init=False)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT), init=False)

    @property
    def pid(self) -> int | None:
        """The running process's, or None."""
        return self.process.pid if self.process is not None else None

    def backoff(self) -> float:
        """Return the pause before the next start, in seconds."""
        if self.failures <= 1:
            return self.restart_seconds
        first = self.restart_seconds or 0.5
        return min(_BACKOFF_SECONDS_MAX, first * 2 ** (self.failures - 1))


class Supervisor:
    """``with Supervisor(say) as supervisor:`` takes the signals; leaving it ends every child.

    Processes are started by the thread that entered, which has to stay: Linux ends them with it (lifeline.py).
    ``say`` prints a line; it is called from several threads.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say_line = say
        self._say_lock = threading.Lock()
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._children: list[Child] = []
        self._stopping = False
        self._hurry = False
        self._handlers: dict[int, Any] = {}
        self._terminal = os.isatty(0)

    def __enter__(self) -> Self:
        strays.adopt()
        for number in _SIGNALS:
            # SimpleQueue.put may be called from a signal handler, whatever the interrupted code was doing.
            self._handlers[number] = signal.signal(number, lambda got, _: self._events.put(("signal", got)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        for child in reversed(self._children):
            self._end(child)
            while child.process is not None:
                self._step()
        strays.end_strays(())
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def start(self, child: Child, *, wait: bool = True) -> None:
        """Start one; with ``wait`` until it is ready, or waits itself; raises StartFailed, or Stopped at a signal."""
        self._children.append(child)
        self._spawn(child)
        deadline = child.started + child.ready_seconds_max
        while wait and child.ready_at is None and not child.is_waiting:
            self._step(deadline)
            if self._stopping:
                raise Stopped
            if child.process is None:
                raise StartFailed(f"{child.name} ended at its start:\n" + _tail(child))
            if time.monotonic() > deadline:
                raise StartFailed(f"{child.name} was not ready within {child.ready_seconds_max:g} s:\n" + _tail(child))

    def run(self) -> None:
        """Keep all children running until SIGINT or SIGTERM."""
        while not self._stopping:
            self._step()

    def say(self, text: str) -> None:
        """Print lines; a terminal that is gone is no reason to stop."""
        with self._say_lock:
            for line in text.splitlines():
                try:
                    self._say_line(line)
                except (OSError, ValueError):
                    return

    def _step(self, deadline: float = float("inf")) -> None:
        """Wait for one event or for what is due next, and act."""
        due = [at for child in self._children for at in (child.start_at, child.kill_at) if at is not None]
        pause = min([deadline, *due, time.monotonic() + 60]) - time.monotonic()
        try:
            kind, what = self._events.get(timeout=max(0.0, pause))
        except queue.Empty:
            pass
        else:
            acts = {"signal": self._signalled, "ended": self._ended, "ready": self._ready, "waiting": self._waiting}
            acts[kind](what)
        now = time.monotonic()
        for child in self._children:
            if child.kill_at is not None and now >= child.kill_at and child.process is not None:
                why = "was told twice to stop" if self._hurry else f"did not stop within {child.stop_seconds_max:g} s"
                self.say(f"{child.name} {why}: killing it")
                child.kill_at = None
                child.process.kill()
            if child.start_at is not None and now >= child.start_at and not self._stopping:
                self._spawn(child)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP and not (self._terminal and not os.isatty(0)):
            self._hang_up(self._children)
            return
        # SIGHUP because the terminal was closed ends everything, too.
        if self._stopping and not self._hurry:
            self._hurry = True
            for child in self._children:
                if child.process is not None:
                    child.process.kill()
        self._stopping = True

    def _hang_up(self, children: Iterable[Child]) -> None:
        for child in children:
            if child.on_hangup and child.kill_at is None:
                self.say(f"restarting {child.name}")
                self._end(child)
                if child.process is None:  # it is in its pause: the new code may be what it needs
                    child.start_at = time.monotonic()

    def _end(self, child: Child) -> None:
        child.start_at = None
        if child.process is not None and child.kill_at is None:
            child.kill_at = time.monotonic() + (0 if self._hurry else child.stop_seconds_max)
            child.process.terminate()

    def _spawn(self, child: Child) -> None:
        child.start_at = child.kill_at = None
        child.lines.clear()
        child.is_waiting = False
        child.started = time.monotonic()
        child.ready_at = None if child.ready else child.started
        try:
            child.process = process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LIFELINE, str(os.getpid()), *child.argv],
                env=dict(child.environment()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except Exception as error:  # the environment may come from a database
            self.say(f"{child.name} cannot be started: {error}")
            self._failed(child)
            return
        reader = threading.Thread(target=self._read, args=(child, process), daemon=True)
        reader.start()
        threading.Thread(target=self._wait, args=(child, process, reader), daemon=True).start()

    def _read(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        """Hand on the output, line by line, with the child's name before it (a thread)."""
        assert process.stdout is not None
        with process.stdout:
            while data := process.stdout.readline(_LINE_BYTES_MAX):
                line = data.decode(errors="replace").rstrip()
                child.lines.append(line)
                self.say(f"{child.name:8}| {line}")
                if child.ready and child.ready in line:
                    self._events.put(("ready", (child, process)))
                elif child.waiting and child.waiting in line:
                    self._events.put(("waiting", (child, process)))

    def _wait(self, child: Child, process: subprocess.Popen[bytes], reader: threading.Thread) -> None:
        process.wait()
        reader.join(_LAST_LINES_SECONDS)
        self._events.put(("ended", (child, process)))

    def _ready(self, what: tuple[Child, subprocess.Popen[bytes]]) -> None:
        child, process = what
        if child.process is process and child.ready_at is None:
            child.ready_at = time.monotonic()
            if child.is_changed:
                child.is_changed = False
                self._hang_up(other for other in self._children if other is not child)

    def _waiting(self, what: tuple[Child, subprocess.Popen[bytes]]) -> None:
        child, process = what
        child.is_waiting = child.process is process

    def _ended(self, what: tuple[Child, subprocess.Popen[bytes]]) -> None:
        """Restart what ended, at once if that was asked for, else after its pause."""
        child, process = what
        if child.process is not process:
            return
        changed = process.returncode == child.changed_status
        asked = changed or child.kill_at is not None
        child.is_changed = child.is_changed or changed
        child.process = child.kill_at = None
        strays.end_strays([pid for one in self._children if (pid := one.pid) is not None])
        if self._stopping:
            return
        if asked:
            child.failures, child.start_at = 0, time.monotonic()
            return
        self.say(f"{child.name} ended ({_how(process.returncode)})")
        self._failed(child)

    def _failed(self, child: Child) -> None:
        """Plan the next start, and say so clearly when one start after the other fails."""
        now = time.monotonic()
        at_once = child.ready_at is None or now - child.ready_at < _STABLE_SECONDS
        child.failures = child.failures + 1 if at_once else 0
        pause = child.backoff()
        child.start_at = now + pause
        self.say(f"starting {child.name} again " + (f"in {pause:g} s" if pause else "at once"))
        if child.failures and child.failures % _REPORT_FAILURES == 0:
            self.say(
                f"{child.name} has failed at its start {child.failures} times in a row; its last lines:\n"
                + _tail(child)
            )


def _tail(child: Child) -> str:
    return "\n".join(f"    {line}" for line in child.lines) or "    (it printed nothing)"


def _how(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
