"""Plays a recording: each message when it is due, at a speed, through an outlet that is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from fastpath.client.subscriber.subscription_set import check_name, covered
from fastpath.core.protocol.subject import check_subject

from .lateness import Lateness
from .lines import Recorded
from .outlets import Outlet
from .reading import Reader
from .timeline import Timeline

BATCH_MESSAGES = 500
WAIT_SECONDS = 0.1
"""The longest sleep: whoever stops the replay waits no longer."""

IDLE_SECONDS = 0.02
"""Seconds after which a pipe is looked at again that has nothing to be read."""

PAUSE_SECONDS = 1
"""Seconds between two passes, at speed 1."""

LOOK_SECONDS = 0.5
"""Seconds: where the next message is due so much later, what was sent is acknowledged first."""


class Moment(NamedTuple):
    """µs since 1970 or, ``relative``, since the recording began."""

    us: int
    relative: bool

    def since_1970(self, begin_us: int) -> int:
        """Return the moment in µs since 1970, for a recording that began then."""
        return self.us + begin_us if self.relative else self.us


@dataclass(frozen=True)
class Choice:
    """The choice of messages to play, and the prefix of their subjects.

    ``start`` and ``end`` bound the time of arrival. ``names`` are subjects and patterns, none: all.
    """

    prefix: str = ""
    names: tuple[str, ...] = ()
    start: Moment | None = None
    end: Moment | None = None
    snapshots: bool = True

    def __post_init__(self) -> None:
        """Check the names and the prefix; raises InvalidSubject."""
        for name in self.names:
            check_name(name)
        if self.prefix:
            check_subject(f"{self.prefix}/subject")

    def take(self, message: Recorded) -> bool:
        """Return True when the message is to be played; its subject then has the prefix."""
        if not self.snapshots and message.kind == "snapshot":
            return False
        if self.names and not covered(message.subject, self.names):
            return False
        message.subject = self.prefix + message.subject
        return True


def messages_of(
    paths: Sequence[str],
    choice: Choice,
    cut: Callable[[str], None] | None = None,
    idle: Callable[[], bool] | None = None,
) -> Iterator[Recorded]:
    """Yield the chosen messages of some files, one after the other.

    ``cut`` is told which file ends in the middle, ``idle`` is called while a pipe has nothing to be read (``Reader``).
    Raises RecordingError.
    """
    bounds: tuple[float, float] | None = None
    for path in paths:
        reader = Reader(path, idle)
        for line in reader:
            if bounds is None:
                assert reader.header is not None
                begin = reader.header.at_us
                bounds = (
                    choice.start.since_1970(begin) if choice.start else 0,
                    choice.end.since_1970(begin) if choice.end else inf,
                )
            if not isinstance(line, Recorded):
                continue
            if line.at_us >= bounds[1]:
                break
            if line.at_us >= bounds[0] and choice.take(line):
                yield line
        if reader.cut and cut is not None:
            cut(path)


class Replay:
    """``speed``: 1 is as it was, 2 twice as fast, 0 as fast as it goes; ``loops``: how often, 0 for ever.

    A pass begins a second (of the recording's time) after the end of the one before. When the server was away, or is
    slower than the recording, what is due meanwhile is sent as fast as it goes, until it has been caught up with.
    """

    def __init__(self, out: Outlet, speed: float, by: str = "time", pause_us_max: int = 0, loops: int = 1) -> None:
        self.lateness = Lateness()
        """Lateness from when a message was due to when it had been sent."""
        self.pass_number = 0
        self.stopped = False
        self._out = out
        self._speed = speed
        self._by = by
        self._pause_us_max = pause_us_max
        self._loops = loops
        self._batch: list[Recorded] = []
        self._batch_due = 0.0
        self._ticked: Callable[[], None] = lambda: None
        self._ticked_at = 0.0

    def stop(self) -> None:
        """Send nothing more; what was sent is still waited for."""
        self.stopped = True

    def run(self, source: Callable[[], Iterable[Recorded]], ticked: Callable[[], None]) -> None:
        """Play what ``source`` gives, anew for each pass; ``ticked`` is called now and then. Raises ClientError,
        RecordingError."""
        self._ticked = ticked
        begin = time.monotonic()
        while not self.stopped and (not self._loops or self.pass_number < self._loops):
            self.pass_number += 1
            before = self._out.sent
            begin = self._pass(source(), begin) + (PAUSE_SECONDS / self._speed if self._speed else 0)
            if self._out.sent == before:
                break  # nothing in it
        self._out.finish()

    def idle(self) -> bool:
        """Wait a moment, as the recording comes through a pipe in which there is nothing at present; return whether to
        wait for more."""
        self._send()
        self._out.wait(IDLE_SECONDS)
        self._tick(time.monotonic())
        return not self.stopped

    def _pass(self, messages: Iterable[Recorded], begin: float) -> float:
        """Play the messages once; returns when the last one was due, by ``time.monotonic()``."""
        timeline = Timeline(self._by, self._pause_us_max)
        due = begin
        for message in messages:
            if self._speed:
                due = begin + timeline.place(message) / 1e6 / self._speed
            now = time.monotonic()
            if due > now or len(self._batch) >= BATCH_MESSAGES:
                self._send()
            if due > now or now - self._ticked_at >= WAIT_SECONDS:
                self._until(due)
            if self.stopped:
                break
            if not self._batch:
                self._batch_due = due
            self._batch.append(message)
        self._send()
        return due

    def _send(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        self._out.send(batch)
        if self._speed:
            self.lateness.add(time.monotonic() - self._batch_due, len(batch))

    def _until(self, due: float) -> None:
        """Wait for the next message, in steps."""
        if due - time.monotonic() > LOOK_SECONDS:
            self._out.finish()
        while True:
            now = time.monotonic()
            self._tick(now)
            left = due - now
            if left <= 0 or self.stopped:
                return
            self._out.wait(min(left, WAIT_SECONDS))

    def _tick(self, now: float) -> None:
        if now - self._ticked_at >= WAIT_SECONDS:
            self._ticked_at = now
            self._ticked()
