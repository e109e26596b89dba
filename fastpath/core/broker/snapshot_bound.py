"""The bound on a subject's whole snapshot: what it will weigh with what is merged into it next (limits.md).

A snapshot has the fields of many publications, each of which may be as large as a message. So what a publication would
make of it is found out before that is numbered: of the snapshot as it stands, with what was accepted before and has not
been merged yet, which is what the same batch has brought, and, where another process numbers, what is on its way there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING

from ..cache.snapshot import length
from ..protocol.columns import ColumnBatch, expand
from ..protocol.messages import Message, Value
from ..protocol.packets import Refusal

if TYPE_CHECKING:
    from ..cache.snapshot import Snapshot
    from ..delivery.audience import Topic

SETTLED_MS = 10_000
"""So long what was stored is waited for: numbers may have begun anew meanwhile, and it never comes under its own."""

Outcomes = list[int | tuple[int, int] | Refusal]
"""What became of publications (broker/admission.py)."""


class Forecast:
    """What a snapshot will be, in bytes; ``seen`` is how many publications to its subject in a batch it knows of."""

    __slots__ = ("_base", "_content", "_sizes", "bytes", "seen")

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.seen = 0
        self._sizes: dict[str, int] = {}
        self._base: dict[str, Value] = (snapshot.fields or {}) if snapshot is not None else {}
        self._content = length(snapshot.newest.content) if snapshot is not None else 0
        self.bytes = snapshot.weigh() if snapshot is not None else 0

    def copy(self) -> Forecast:
        """Another one that goes on from here."""
        other = Forecast(None)
        other._base, other._sizes = self._base, dict(self._sizes)
        other._content, other.bytes, other.seen = self._content, self.bytes, self.seen
        return other

    def after(self, message: Message) -> int:
        """The bytes with this message as well."""
        size = message.size or message.weigh()
        if message.replace:
            return size
        return self.bytes - self._content + size - sum(map(self._held, message.fields or ()))

    def take(self, message: Message) -> None:
        """The message has been accepted, and will be merged."""
        self.bytes = self.after(message)
        if message.replace:
            self._base, self._sizes = {}, {}
        for name, value in (message.fields or {}).items() if not message.removed else ():
            self._sizes[name] = length(name) + length(value)
        if message.removed:
            self.bytes = 0
        self._content = length(message.content)

    def _held(self, name: str) -> int:
        size = self._sizes.get(name)
        if size is None:
            value = self._base.get(name)
            size = 0 if value is None else length(name) + length(value)
        return size


class SnapshotBound:
    """Keeps every subject's snapshot within ``bytes_max``; one that has more already, as one that is kept from before
    the bound was set, does not grow.

    ``expiry_ms`` is how old a snapshot may be (0: any). ``follow`` is for engines that number elsewhere.
    """

    def __init__(self, bytes_max: int, expiry_ms: int) -> None:
        self.bytes_max = bytes_max
        self.coming: dict[str, int] = {}
        """At most how many bytes of a subject are on their way to who numbers them."""
        self._expiry_ms = expiry_ms
        self._coming: dict[str, deque[Message]] = {}
        self._settled: deque[tuple[Message, int, int]] = deque()
        """Those that have been stored, the number of each, and until when it is waited for."""
        self._now = 0

    def forecast(self, topic: Topic | None, subject: str, now: int) -> Forecast:
        """What the subject's snapshot will be when all that was accepted before is merged."""
        snapshot = None if topic is None else topic.snapshot
        if snapshot is not None and self._expiry_ms and snapshot.newest.time < now - self._expiry_ms:
            snapshot = None
        forecast = Forecast(snapshot)
        for message in self._coming.get(subject, ()):
            forecast.take(message)
        return forecast

    def refusal(self, forecast: Forecast, message: Message) -> Refusal | None:
        """Why the message may not be merged; None if it may."""
        size = forecast.after(message)
        if size > self.bytes_max and size > forecast.bytes:
            return "too_large", f"the subject's snapshot would hold over {self.bytes_max} bytes"
        return None

    # What another process numbers

    def follow(
        self, messages: Sequence[Message], topics: dict[str, Topic], now: int, done: Callable[[Outcomes], None] | None
    ) -> Callable[[Outcomes], None]:
        """``done`` for messages that are handed on to who numbers them: they count until they are here, or refused."""
        self._now = now
        for message in messages:
            if message.retained:
                subject = message.subject
                self._coming.setdefault(subject, deque()).append(message)
                self.coming[subject] = self.coming.get(subject, 0) + message.size

        def settled(outcomes: Outcomes) -> None:
            for message, outcome in zip(messages, outcomes, strict=True):
                if message.retained:
                    number = outcome if isinstance(outcome, int) else 0
                    self._settled.append((message, number, self._now + SETTLED_MS))
            self._let_go(topics)
            if done is not None:
                done(outcomes)

        return settled

    def _let_go(self, topics: dict[str, Topic]) -> None:
        """Forget what has come here since it was stored."""
        while self._settled:
            message, seq, until = self._settled[0]
            topic = topics.get(message.subject)
            if seq and self._now < until and (topic is None or topic.seq < seq):
                return
            self._settled.popleft()
            subject = message.subject
            waiting = self._coming[subject]
            if waiting[0] is message:
                waiting.popleft()
            else:
                waiting.remove(message)
            self.coming[subject] -= message.size
            if not waiting:
                del self._coming[subject], self.coming[subject]


class StepForecasts:
    """What one step, a batch or some runs, will make of snapshots: each publication is judged with those before it."""

    def __init__(self, bound: SnapshotBound | None, now: int) -> None:
        self._bound = bound
        self._now = now
        self._coming = bound.coming if bound is not None else {}
        self._room = bound.bytes_max if bound is not None else 1 << 62
        self._forecasts: dict[str, Forecast] = {}
        self._places: dict[str, list[int]] | None = None

    def is_tight(self, topic: Topic | None, subject: str, size: int) -> bool:
        """Count ``size`` more bytes; whether it has to be looked at whether they fit."""
        self._room -= size
        held = 0 if topic is None or topic.snapshot is None else topic.snapshot.bytes_most
        return self._room < (held + self._coming.get(subject, 0) if self._coming else held)

    def refusal(
        self, topic: Topic | None, batch: Sequence[Message], index: int, passed_over: Container[int]
    ) -> Refusal | None:
        """Why the message at ``index`` of the batch may not be merged, None if it may; those before it are accepted,
        but for what is ``passed_over``."""
        message = batch[index]
        if self._bound is None or message.replace or not _is_kept(topic, message.retained):
            return None
        if self._places is None:
            self._places = {}
            for at, one in enumerate(batch):
                if one.retained:
                    self._places.setdefault(one.subject, []).append(at)
        forecast = self._forecast(self._bound, topic, message.subject)
        places = self._places[message.subject]
        while places[forecast.seen] < index:
            if places[forecast.seen] not in passed_over:
                forecast.take(batch[places[forecast.seen]])
            forecast.seen += 1
        return self._bound.refusal(forecast, message)

    def refused_run(self, topic: Topic | None, run: ColumnBatch) -> Refusal | None:
        """Why no row of the run may be merged, as one of them would pass the bound; None, and it is accepted."""
        if self._bound is None or not _is_kept(topic, run.retained):
            return None
        trial = self._forecast(self._bound, topic, run.subject).copy()
        for row in expand(run):
            if refusal := self._bound.refusal(trial, row):
                return refusal
            trial.take(row)
        self._forecasts[run.subject] = trial
        return None

    def _forecast(self, bound: SnapshotBound, topic: Topic | None, subject: str) -> Forecast:
        forecast = self._forecasts.get(subject)
        if forecast is None:
            forecast = self._forecasts[subject] = bound.forecast(topic, subject, self._now)
        return forecast


def _is_kept(topic: Topic | None, retained: bool) -> bool:
    return retained and (topic is None or topic.options is None or topic.options.retained)
