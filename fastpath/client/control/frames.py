"""Publications of several threads in one frame: what waits at the same moment is sent together, by one who waits."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import ClientError
from .client import Answer

FRAME_ROWS = 1000
"""Rows in a call at most that may share a frame; a call with more goes alone."""

FRAME_BYTES = 1 << 20
"""Bytes in a call at most that may share a frame, so that few small messages wait for a large one."""

_encode = msgspec.msgpack.Encoder().encode


class PublishCall:
    """One call of publish(), from its beginning until it returns.

    Its rows are encoded here, in its own thread: what cannot be is nobody else's error. With a ``publisher`` they have
    numbers of that name already, and go alone.
    """

    __slots__ = ("bytes", "deadline", "frame", "gone", "leads", "outcome", "publisher", "rows", "woken")

    def __init__(self, rows: Iterable[Sequence[Any]], deadline: float, publisher: str = "") -> None:
        self.rows = [Raw(_encode(row)) for row in rows]
        self.bytes = sum(map(len, self.rows))
        self.deadline = deadline
        self.publisher = publisher
        self.frame: SharedFrame | None = None
        """Frame in which the call was sent, or is to be."""
        self.leads = False
        """True once the call sends its frame, and says who goes on."""
        self.gone = False
        """True once nobody waits for the call's outcome any more."""
        self.outcome: Answer | ClientError | None = None
        self.woken = threading.Lock()
        self.woken.acquire()

    def lead(self) -> None:
        """Have the call's thread send the frame that the call is in, and wake the thread for that."""
        self.leads = True
        self.woken.release()


class SharedFrame:
    """Calls that are sent together.

    ``publisher`` and ``first``, the number of the first row, are set when the frame is first sent, and stay: a frame
    that is sent again is the same."""

    __slots__ = ("calls", "done", "first", "publisher", "sent", "told")

    def __init__(self, calls: list[PublishCall]) -> None:
        self.calls = calls
        self.publisher = ""
        self.first = 0
        self.sent = self.done = False
        self.told: Iterator[PublishCall] = iter(())
        """Calls that are still to be woken when the frame is done."""

    @property
    def rows(self) -> list[msgspec.Raw]:
        """Rows of all calls, in the order of the calls."""
        return [row for call in self.calls for row in call.rows] if len(self.calls) > 1 else self.calls[0].rows

    def begin(self) -> None:
        """Close the frame, which is sent now: callers who have gone are left out, and told that their rows were not
        sent."""
        if not self.sent:
            self.calls = [call for call in self.calls if not call.gone]
            self.sent = True

    def number(self, publisher: str, first: int) -> None:
        """Set the publisher's name and the number of the first row."""
        self.publisher, self.first = publisher, first

    def finish(self) -> None:
        """Mark the frame as done: every call has its outcome."""
        self.told = iter(self.calls)
        self.done = True

    def settle(self, epoch: int, results: Sequence[Any]) -> None:
        """Give each call its part of the answer."""
        at = 0
        for call in self.calls:
            behind = at + len(call.rows)
            call.outcome = {"epoch": epoch, "results": results[at:behind]}
            at = behind
        self.finish()

    def fail(self, error: ClientError) -> None:
        """Give each call the error, as one of its own: threads that raise the same object write into each other's."""
        for call in self.calls:
            call.outcome = copy.copy(error)
        self.finish()


class Frames:
    """Calls of several threads that are sent one frame after the other, in the order in which they came.

    A call while nothing is being sent leaves at once. Calls that come meanwhile wait, and leave together in the next
    frame; of their threads the one that has most time left sends it. ``send(frame, deadline)`` tells each call its
    outcome. A thread that is interrupted while it sends (KeyboardInterrupt, a task's time limit) leaves that to another
    one of the frame, which sends the frame again as it was. A thread whose time is over returns, whatever becomes of
    its rows.
    """

    def __init__(self, send: Callable[[SharedFrame, float], None]) -> None:
        self._send = send
        # Held for moments, in which nothing is waited for. What interrupts a thread there, a signal's handler or a
        # finalizer, may publish as well.
        self._lock = threading.RLock()
        self._waiting: deque[PublishCall] = deque()
        self._busy = False

    def locked(self) -> bool:
        """Return True while a frame is being sent."""
        return self._busy

    def carry_out(self, call: PublishCall) -> None:
        """Return when the call has its outcome, or without one when its time is over; not sent, it has no frame."""
        try:
            if self._begin(call) or self._wait(call):
                assert call.frame is not None
                self._send(call.frame, call.deadline)
        finally:
            self._leave(call)

    def _begin(self, call: PublishCall) -> bool:
        """Return True if the call may be sent now; else let it wait."""
        with self._lock:
            if self._busy:
                self._waiting.append(call)
                return False
            frame = call.frame = SharedFrame([call])
            frame.begin()
            call.leads = self._busy = True
            return True

    def _wait(self, call: PublishCall) -> bool:
        """Wait for the outcome, or until it is this thread that sends: True."""
        call.woken.acquire(timeout=max(0.0, call.deadline - time.monotonic()))
        if not call.leads or time.monotonic() >= call.deadline:
            return False
        with self._lock:
            assert call.frame is not None
            call.frame.begin()
        return True

    def _leave(self, call: PublishCall) -> None:
        """Leave the frames, as the call returns: what it did for other calls is done, or is another call's from now
        on."""
        with self._lock:
            call.gone = True
            frame = call.frame
            if frame is None:
                if call in self._waiting:
                    self._waiting.remove(call)
                return
            if call.leads:
                self._pass_on(frame)
                call.leads = False
            if frame.done:
                # One wakes the next: all at once they would only wait for the interpreter, each in the others' way.
                for one in frame.told:
                    if not one.gone:
                        one.woken.release()
                        break
            elif not frame.sent:
                call.frame = None

    def _pass_on(self, frame: SharedFrame) -> None:
        """Have another call send: the same frame where it is not done, else the next one, if a call waits."""
        there = [] if frame.done else [call for call in frame.calls if not call.gone]
        if not there:
            there = self._gather()
            frame = SharedFrame(there)
        self._busy = bool(there)
        if there:
            for call in there:
                call.frame = frame
            max(there, key=_deadline).lead()

    def _gather(self) -> list[PublishCall]:
        """Take the calls of the next frame from those that wait."""
        calls: list[PublishCall] = []
        rows = size = 0
        while self._waiting:
            call = self._waiting[0]
            rows += len(call.rows)
            size += call.bytes
            if calls and (rows > FRAME_ROWS or size > FRAME_BYTES or call.publisher or calls[0].publisher):
                break
            calls.append(self._waiting.popleft())
        return calls


_deadline = attrgetter("deadline")
