"""Ends a Spark job's process in order: signals, the JVM, and the one line that says why a query failed."""

from __future__ import annotations

import atexit
import faulthandler
import logging
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from fastpath.stop_signal import SIGNALS, WAKE_SECONDS, StopEvent

WORKER = b"pyspark/daemon.py"
"""Part of the command line of Spark's Python workers."""

STOP_SECONDS_MAX = 4.0
"""Seconds from the signal to the end; after them the JVM is killed."""
STUCK_SECONDS = 15.0
"""Seconds from the signal to the end of a process whose alarm was not heard."""
JAVA_EXIT_SECONDS_MAX = 2.0
NOISE = (b"Using incubator modules", b"Streaming TransformWithStateInPandas Python worker")
"""Parts of lines that say nothing to the user, though they are printed as if they were errors."""


class Stop:
    """Tells the thread that works of SIGTERM and SIGINT, which the main thread receives.

    `ending` is set as soon as the process is about to end, for whatever reason.
    """

    def __init__(self) -> None:
        self._event = StopEvent()
        self.ending = StopEvent()
        self._started = False
        signal.signal(signal.SIGALRM, _end_at_once)
        # The interpreter's end takes the handler away, and then the alarm would kill; the watch is still behind it.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def started(self, session: SparkSession) -> None:
        """Have the JVM stopped in order from now on; a signal before this ends it at once."""
        self._started = True
        # A signal to the process group ends the JVM as well, and this thread of Spark's would print a trace about it.
        session.sparkContext._accumulatorServer.handle_error = lambda *_: None

    def wait(self, seconds: float) -> bool:
        """Wait for a signal; whether one came."""
        return self._event.wait(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._event.is_set():
            return
        # First of all, so that whatever else is held up, this ends: the alarm, and behind it a watch that needs neither
        # the main thread nor the interpreter's lock, and says where everything stood.
        signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS_MAX)  # a thread of ours would take locks that may be taken
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True, file=2)
        self._event.set()
        self.ending.set()
        logging.disable()  # of all loggers: what py4j loses now it would tell with a trace
        if not self._started:
            _signal_children(signal.SIGTERM)


def run_in_thread(work: Callable[[], int]) -> int:
    """Run `work` beside the main thread, which thereby stays free for signals; 1 when it raised.

    Spark talks to its JVM without end, and an exception of a signal handler in the middle of that breaks both.
    """
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    while thread.is_alive():
        # The kernel may hand a signal to another thread; the main one runs its handler only when it wakes.
        thread.join(WAKE_SECONDS)
    return results[0] if results else 1


@contextmanager
def java_errors(stop: Stop) -> Iterator[None]:
    """Let a JVM started inside write to our stderr until the process is about to end.

    What the JVM and its Python workers print after that is about being ended. Our own stderr is as before on leaving.
    """
    read, write = os.pipe()
    own = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_forward, args=(read, own, stop), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(own, 2)


def _forward(read: int, own: int, stop: Stop) -> None:
    with open(read, "rb") as lines:
        for line in without_noise(lines):
            if not stop.ending.is_set():
                os.write(own, line)


def without_noise(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that say something: without NOISE, and without the trace of a Python worker whose JVM has let go
    of it, as it does with every worker of a query that has ended. The first line of the trace may be lost among others.
    """
    trace: list[bytes] = []
    for line in lines:
        if trace or line.startswith(b"Traceback") or (line.startswith(b"  File ") and WORKER in line):
            trace.append(line)
            if line.startswith((b" ", b"Traceback")):
                continue
            if not (line.startswith(b"BrokenPipeError") and any(WORKER in one for one in trace)):
                yield from trace
            trace = []
        elif line.strip() and not any(noise in line for noise in NOISE):
            yield line
    if any(not line.startswith(b"Traceback") for line in trace):  # who ended with the first line has said nothing
        yield from trace


def end_java(session: SparkSession | None, stop: Stop) -> None:
    """Stop the session with its queries and wait until its JVM is gone; it ends when the pipe to it is closed."""
    stop.ending.set()
    logging.disable()
    if session is not None:
        # The JVM may be gone already: a signal to the process group has ended it as well.
        with suppress(Py4JError, OSError):
            for query in session.streams.active:
                query.stop()
        with suppress(Py4JError, OSError):
            session.stop()
    java = _java()
    if java is None or java.stdin is None:
        return
    with suppress(OSError):
        java.stdin.close()
    try:
        java.wait(JAVA_EXIT_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def describe(error: BaseException) -> str:
    """Return the one line of a failed query that says why: the Python error inside Spark's, else the first line."""
    text, _, _ = str(error).partition("=== Streaming Query ===")
    raised: list[str] = re.findall(r"^(?:[a-z_]\w*\.)*[A-Z]\w*: (.+)$", text, re.MULTILINE)
    if raised and "Traceback" in text:
        return raised[-1]
    first, _, rest = text.partition("\n")
    return f"{first} {rest.splitlines()[0]}" if rest.startswith(": ") else first or type(error).__name__


def _java() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    del number, frame
    try:
        _signal_children(signal.SIGKILL)
    finally:
        os._exit(0)


def _signal_children(number: signal.Signals) -> None:
    """Send a signal to our children: while a JVM starts, PySpark does not tell its process, but it is one of them."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                os.kill(int(path.parent.name), number)
