"""Records what a client gets: messages in order, each with the time of its arrival, and what happened in between."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable

from fastpath.client.errors import ClientError
from fastpath.client.message import Message, Status
from fastpath.client.subscriber.streams import MessageStream
from fastpath.client.subscriber.transports.link import ABNORMAL

from .lines import RecordingError, happened, recorded
from .writing import ReaderGone, RecordingParts

TICK_SECONDS = 0.5
"""Seconds after which what was written is flushed: at most so much is lost with a recorder that is killed."""

DENIED_MAX = 1000
TOLD_MAX = 10
"""Number of troubles of each kind that are said in words."""

NOT_TOLD = {"subscribed", "recovered", "granted", "expiring", "renewed", "published", "paused", "closed"}
"""Statuses that say nothing about what a recording has or has not."""


class Clock:
    """µs since 1970 that go on evenly, also where the machine's clock is set meanwhile."""

    def __init__(self) -> None:
        self._began = time.time_ns() // 1000
        self._monotonic = time.monotonic_ns()

    def __call__(self) -> int:
        return self._began + (time.monotonic_ns() - self._monotonic) // 1000


class Recorder:
    """``noticed`` is a client's ``on_status``; ``run()`` reads the stream until ``stop()``.

    ``tell`` is given in words what its operator should know. ``live``: flush after all that came together, because
    somebody reads along.
    """

    def __init__(self, clock: Callable[[], int], tell: Callable[[str], None], *, live: bool = False) -> None:
        self.denied: set[str] = set()
        """Subjects that cannot be recorded at present; a thousand at most."""
        self.losses = 0
        """Number of times that messages may be missing: resynchronisations and gaps that could not be filled."""
        self.connected = False
        self.why = ""
        """Reason why the recording ended."""
        self._clock = clock
        self._tell = tell
        self._told_of = Counter[str]()
        self._live = live
        self._stream: MessageStream | None = None
        self._told: deque[tuple[int, int, Status]] = deque()
        """Statuses: after how many of the messages that wait, when, what."""
        self._stopping = asyncio.Event()
        self._asked: set[str] = set()
        self._away = ""
        """Words that were said last of a connection that did not come about."""
        self._begun: Callable[[], None] = lambda: None

    def noticed(self, status: Status) -> None:
        """Take a status, which belongs after the messages that wait at this moment."""
        self._look(status)
        if status.name not in NOT_TOLD:
            waiting = len(self._stream) if self._stream is not None else 0
            self._told.append((waiting, self._clock(), status))

    def begin(self, names: Iterable[str], begun: Callable[[], None]) -> None:
        """Note the names that were asked for; ``begun`` is called when the server has answered about each."""
        self._asked = set(names)
        self._begun = begun

    def stop(self, why: str) -> None:
        """End in order, with all that has come."""
        self.why = self.why or why
        self._stopping.set()

    async def stopped(self) -> None:
        """Wait until the recorder is told to stop."""
        await self._stopping.wait()

    async def run(self, stream: MessageStream, parts: RecordingParts, ticked: Callable[[], None]) -> None:
        """Write what comes until it ends; ``ticked`` is called now and then. Raises RecordingError, ReaderGone, and
        what ended the client."""
        self._stream = stream
        tasks = [
            asyncio.create_task(self._read(stream, parts)),
            asyncio.create_task(self._tick(parts, ticked)),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        errors = [error for task in done if (error := task.exception()) is not None]
        if not any(isinstance(error, RecordingError | ReaderGone) for error in errors):
            # What has come but was not read yet, and what the end was.
            self._write(await stream.take() if len(stream) else [], parts)
        for error in errors:
            raise error

    async def _read(self, stream: MessageStream, parts: RecordingParts) -> None:
        while True:
            try:
                messages = await stream.take()
            except StopAsyncIteration:
                raise ClientError("the subscription has ended") from None
            self._write(messages, parts)

    async def _tick(self, parts: RecordingParts, ticked: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._stream is not None and not len(self._stream):
                self._write([], parts)
            parts.turn(self._clock())
            parts.flush()
            ticked()

    def _write(self, messages: list[Message], parts: RecordingParts) -> None:
        """Write all that waited, and what was told meanwhile in its place."""
        at = self._clock()
        told, written = self._told, 0
        while told:
            before, when, status = told.popleft()
            for message in messages[written:before]:
                parts.message(recorded(message, at))
            written = max(written, min(before, len(messages)))
            parts.status(happened(status, when))
        for message in messages[written:]:
            parts.message(recorded(message, at))
        if self._live:
            parts.flush()

    def _look(self, status: Status) -> None:
        if status.subject in self._asked:
            self._asked.discard(status.subject)
            if not self._asked:
                self._begun()
        match status.name:
            case "connected":
                self.connected = True
                self._away = ""
            case "disconnected":
                self._say_away(status)
                self.connected = False
            case "resynchronised":
                self.losses += 1
                self._say(
                    status.name,
                    f"messages of {status.subject} may be missing: {status.reason or 'not cached any more'}",
                )
            case "denied" | "revoked" | "limited":
                if len(self.denied) < DENIED_MAX:
                    self.denied.add(status.subject)
                self._say(status.name, f"{status.subject} is {status.name}: {status.reason}")
            case "granted" | "subscribed" | "recovered":
                self.denied.discard(status.subject)

    def _say_away(self, status: Status) -> None:
        """Report that the connection was lost; of later failed attempts only a reason that is new."""
        why = status.reason if status.code == ABNORMAL else f"{status.code} {status.reason}"
        if self.connected:
            self._say("lost", f"the connection was lost: {why}")
            return
        words = f"no connection: {why}; it is tried again"
        if words != self._away:
            self._away = words
            self._say("away", words)

    def _say(self, kind: str, words: str) -> None:
        """Tell the first of each kind; all are in the file."""
        self._told_of[kind] += 1
        if self._told_of[kind] <= TOLD_MAX:
            self._tell(words)
