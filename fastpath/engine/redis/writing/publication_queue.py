"""Publications on their way to Redis: cut into batches, answered in the order in which they were handed in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from ....core.broker.admission import Done, Outcome
from ....core.protocol.messages import Message
from ..script import Known, no_fields

BATCH_MESSAGES_MAX = 1000
"""Messages in one run of the script at most, which serves nobody else meanwhile: about 8 ms."""

BATCH_BYTES_MAX = 4 << 20
QUEUE_BYTES_MAX = 64 << 20
"""Bytes that may wait for Redis; above them publications are refused at once."""

MESSAGE_BYTES = 200
"""Bytes of a message beside its content and fields."""

NAME_BYTES = 400
"""Bytes that a field counts for in a batch that takes it out of a snapshot: Redis takes about as long for it."""

SEEN_SECONDS = 1.0
"""Seconds that an acknowledgement waits longer, for this node to have read what it acknowledges."""


class HandedPublications:
    """The messages that were handed in at once, with one ``done``."""

    __slots__ = ("done", "messages", "outcomes", "since")

    def __init__(self, messages: Sequence[Message], done: Done | None, since: float) -> None:
        self.messages = messages
        self.done = done
        self.since = since
        self.outcomes: list[Outcome] = []

    def answer(self, outcomes: list[Outcome]) -> None:
        """Take the outcomes of the next messages; call ``done`` with the last."""
        self.outcomes += outcomes
        if self.done is not None and len(self.outcomes) == len(self.messages):
            self.done(self.outcomes)

    def rest(self) -> tuple[Sequence[Message], Done | None]:
        """Return the messages without an outcome yet, and the callback for theirs."""
        if not self.outcomes:
            return self.messages, self.done
        done, before = self.done, self.outcomes
        return self.messages[len(before) :], None if done is None else lambda outcomes: done(before + outcomes)


@dataclass(slots=True, eq=False)
class StoreBatch:
    """The messages that go to Redis at once: parts of what was handed in, each from the first to before the last."""

    parts: list[tuple[HandedPublications, int, int]]
    messages: list[Message]
    since: float
    packed: tuple[bytes, bytes] = (b"", b"")
    uncertain: bool = False
    """True if the batch may have been stored, although no answer said so."""
    epoch: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """Numbers up to which the log has to be read until everybody has the batch, by group."""

    def answer(self, outcomes: list[Outcome]) -> None:
        """Answer the batch with one outcome a message, in order."""
        at = 0
        for handed, first, last in self.parts:
            handed.answer(outcomes[at : at + last - first])
            at += last - first


class PublicationQueue:
    """First in, first out; bounded. ``known`` tells of the fields that a batch takes out of a subject's snapshot."""

    def __init__(self, known: Known = no_fields) -> None:
        self._known = known
        self._waiting: deque[HandedPublications] = deque()
        self._at = 0  # so many messages of the first have been taken
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        """True while nothing more is taken."""
        return self._bytes > QUEUE_BYTES_MAX

    def add(self, handed: HandedPublications) -> None:
        """Add publications at the end."""
        self._waiting.append(handed)
        self._bytes += sum(_weight(message) for message in handed.messages)

    @property
    def since(self) -> float:
        """Time since when the first has waited; infinity when none does."""
        return self._waiting[0].since if self._waiting else inf

    def take(self) -> StoreBatch:
        """Return the next batch; without messages when only empty publications wait."""
        waiting = self._waiting
        batch = StoreBatch([], [], waiting[0].since)
        size = more = 0
        replaced: set[str] = set()
        while waiting and len(batch.messages) < BATCH_MESSAGES_MAX and size + more < BATCH_BYTES_MAX:
            handed = waiting[0]
            first = last = self._at
            for message in handed.messages[first : first + BATCH_MESSAGES_MAX - len(batch.messages)]:
                size += _weight(message)
                batch.messages.append(message)
                last += 1
                if message.replace and message.subject not in replaced:
                    replaced.add(message.subject)
                    more += sum(NAME_BYTES + len(name) for name in self._known(message.subject))
                if size + more >= BATCH_BYTES_MAX:
                    break
            batch.parts.append((handed, first, last))
            if last < len(handed.messages):
                self._at = last
                break
            self._at = 0
            waiting.popleft()
        self._bytes -= size
        return batch

    def take_all(self) -> list[tuple[HandedPublications, int]]:
        """Return everything, each with the index of the first message that has not been taken."""
        taken = [(handed, self._at if index == 0 else 0) for index, handed in enumerate(self._waiting)]
        self._waiting.clear()
        self._at = self._bytes = 0
        return taken

    def empty(self, batch: StoreBatch) -> None:
        """Put everything at the end of the batch, however large it gets."""
        for handed, first in self.take_all():
            batch.parts.append((handed, first, len(handed.messages)))
            batch.messages += handed.messages[first:]


class Unread:
    """Batches that have outcomes, until this node has read from the log what they stored: who is told that a
    publication is stored finds it here.

    ``after`` is called once when some were told, unless that came of ``seen()``: who reads ends the tick himself.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        epoch_known: Callable[[], int],
        after: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop
        self._epoch_known = epoch_known
        self._after = after
        self._read: dict[int, tuple[int, int]] = {}  # by group: up to where this node has read
        self._waiting: deque[tuple[float, StoreBatch, list[Outcome]]] = deque()  # until when
        self._timer: asyncio.TimerHandle | None = None

    def add(self, batch: StoreBatch, outcomes: list[Outcome]) -> None:
        """Add outcomes at the end; a number stands for a position in the batch's epoch."""
        self._waiting.append((self._loop.time() + SEEN_SECONDS, batch, outcomes))
        self.release()

    def seen(self, group: int, epoch: int, n: int) -> None:
        """Note that this node has read the group's log up to entry ``n`` of ``epoch``."""
        self._read[group] = epoch, n
        if self._waiting:
            self._tell()

    def close(self) -> None:
        """Tell all that wait."""
        self.release(all_of_them=True)
        if self._timer is not None:
            self._timer.cancel()

    def release(self, *, all_of_them: bool = False) -> None:
        """Tell the outcomes of what has been read, or should have been."""
        if self._tell(all_of_them=all_of_them) and self._after is not None:
            self._after()

    def _tell(self, *, all_of_them: bool = False) -> bool:
        waiting, now = self._waiting, self._loop.time()
        told = False
        while waiting:
            until, batch, outcomes = waiting[0]
            if now < until and not all_of_them and not self._has_read(batch):
                if self._timer is None:
                    self._timer = self._loop.call_at(until, self._due)
                return told
            waiting.popleft()
            known = self._epoch_known()
            batch.answer([_told(one, batch.epoch, known) for one in outcomes])
            told = True
        return told

    def _due(self) -> None:
        self._timer = None
        self.release()

    def _has_read(self, batch: StoreBatch) -> bool:
        return all(self._read.get(group, (0, 0)) >= (batch.epoch, n) for group, n in batch.ends.items())


def _told(outcome: Outcome, epoch: int, known: int) -> Outcome:
    """Return an outcome as it is told in the epoch ``known``, when a number stands for a position in ``epoch``."""
    if type(outcome) is int:
        return outcome if epoch == known or not outcome else (epoch, outcome)
    if isinstance(outcome, tuple) and outcome[0] == known and type(outcome[1]) is int:
        return outcome[1]
    return outcome


def _weight(message: Message) -> int:
    return message.size + MESSAGE_BYTES
