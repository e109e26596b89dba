"""Which publications are refused, and why (protocol.md 4.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Sequence

from ..auth.grants import Grants, Principal
from ..auth.reasons import PENDING
from ..auth.rules import PUBLISH
from ..cache.snapshot import Forecast
from ..delivery.audience import Topic
from ..delivery.interest import SubscriptionIndex
from ..delivery.slow_consumers import give_up, needed_from
from ..protocol.as_of import NO_VERSION, version_of
from ..protocol.columns import ColumnBatch, expand
from ..protocol.errors import InvalidSubject
from ..protocol.limits import SNAPSHOT_FIELDS_MAX, Limits
from ..protocol.messages import STANDARD, Message
from ..protocol.packets import Position, Refusal
from ..protocol.subject import check_subject, is_system
from ..telemetry.counters import Counters

Outcome = int | Position | Refusal
"""Outcome of a publication: its sequence number in the epoch of the answer (0 for standard quality), the position where
it has been stored before or in another epoch, or a code of protocol.md 4.4 and why."""

Done = Callable[[list[Outcome]], None]
"""Takes the outcomes of publications, in their order."""


MEMORY_FULL = "the server's memory is full; retry later"
"""Reason why nothing new begins (memory_bytes_max)."""


SETTLED_MS = 10_000
"""Milliseconds for which what was stored is waited for: numbers may have begun anew meanwhile, and a message never
comes under its own."""

SYSTEM: Refusal = ("denied", "subjects below /__sys__ belong to the server")


class SnapshotBound:
    """Keeps every subject's snapshot within ``bytes_max``; one that has more already, as one that is kept from before
    the bound was set, does not grow.

    A snapshot has the fields of many publications, so what one would make of it is found out before it is numbered: of
    the snapshot as it stands, with what was accepted before and is not merged yet.

    ``expiry_ms`` is how old a snapshot may be (0: any). ``follow`` is for engines that number elsewhere.
    """

    def __init__(self, bytes_max: int, expiry_ms: int) -> None:
        self.bytes_max = bytes_max
        self.coming: dict[str, int] = {}
        """Bytes of each subject that are at most on their way to who numbers them."""
        self._expiry_ms = expiry_ms
        self._coming: dict[str, deque[Message]] = {}
        self._settled: deque[tuple[Message, int, int]] = deque()
        """Messages that have been stored, the number of each, and the time until which it is waited for."""
        self._now = 0

    def forecast(self, topic: Topic | None, subject: str, now: int) -> Forecast:
        """Return what the subject's snapshot will be when all that was accepted before is merged."""
        snapshot = None if topic is None else topic.snapshot
        if snapshot is not None and self._expiry_ms and snapshot.newest.time < now - self._expiry_ms:
            snapshot = None
        forecast = Forecast(snapshot)
        for message in self._coming.get(subject, ()):
            forecast.take(message)
        return forecast

    def refusal(self, forecast: Forecast, message: Message) -> Refusal | None:
        """Return why the message may not be merged; None if it may."""
        size = forecast.after(message)
        if size > self.bytes_max and size > forecast.bytes:
            return "too_large", f"the subject's snapshot would hold over {self.bytes_max} bytes"
        return None

    # What another process numbers

    def follow(self, messages: Sequence[Message], topics: dict[str, Topic], now: int, done: Done | None) -> Done:
        """Return ``done`` for messages that are handed on to who numbers them: they count until they are here, or
        refused."""
        self._now = now
        for message in messages:
            if message.retained:
                subject = message.subject
                self._coming.setdefault(subject, deque()).append(message)
                self.coming[subject] = self.coming.get(subject, 0) + message.size

        def settled(outcomes: list[Outcome]) -> None:
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
    """The snapshots that one step, a batch or some runs, will make: each publication is judged with those before it."""

    def __init__(self, bound: SnapshotBound | None, now: int) -> None:
        self._bound = bound
        self._now = now
        self._forecasts: dict[str, Forecast] = {}
        self._places: dict[str, list[int]] | None = None
        self._looked_at: dict[str, int] = {}
        """Number of the runs that the forecast of each subject has."""

    def refusal(
        self, topic: Topic | None, batch: Sequence[Message], index: int, passed_over: Container[int]
    ) -> Refusal | None:
        """Return why the message at ``index`` of the batch may not be merged, None if it may; those before it are
        accepted, but for what is ``passed_over``."""
        message = batch[index]
        if self._bound is None or message.replace or not _is_kept(topic, message.retained):
            return None
        if self._places is None:
            self._places = {}
            for at, one in enumerate(batch):
                if one.retained:
                    self._places.setdefault(one.subject, []).append(at)
        forecast = self._forecast(self._bound, topic, message.subject)
        forecast.take_those_before(index, batch, self._places[message.subject], passed_over)
        return self._bound.refusal(forecast, message)

    def refused_run(
        self, topic: Topic | None, runs: Sequence[ColumnBatch], index: int, passed_over: Container[int]
    ) -> Refusal | None:
        """Return why no row of the run at ``index`` may be merged, as one of them would pass the bound; None, and the
        run is accepted. Those before it are, but for what is ``passed_over``."""
        run = runs[index]
        if self._bound is None or not _is_kept(topic, run.retained):
            return None
        forecast = self._forecast(self._bound, topic, run.subject)
        for at in range(self._looked_at.get(run.subject, 0), index):
            if runs[at].subject == run.subject and runs[at].retained and at not in passed_over:
                for row in expand(runs[at]):
                    forecast.take(row)
        self._looked_at[run.subject] = index + 1
        trial = forecast.copy()
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


class Admission:
    """Checks publications against rights and bounds, and gives them the quality that options of their subjects say.

    It changes nothing else but what it remembers of rights, and closes clients that lag where publications would have
    to be refused because of them.
    """

    def __init__(
        self,
        interest: SubscriptionIndex,
        grants: Grants,
        limits: Limits,
        counters: Counters,
        snapshot_bound: SnapshotBound | None = None,
    ) -> None:
        self.interest = interest
        self.grants = grants
        self.limits = limits
        self.counters = counters
        self.snapshot_bound = snapshot_bound
        """None where no snapshots are kept, or where another process, to which publications are handed on, keeps it."""
        self._room = 1 << 62 if snapshot_bound is None else snapshot_bound.bytes_max
        """Bytes that a step may bring before it has to be looked at whether they fit."""
        self._coming: dict[str, int] = {} if snapshot_bound is None else snapshot_bound.coming
        self.full = False
        """The memory is used up: nothing new begins, what is there goes on (docs/operate/limits.md)."""

    def fill(self, full: bool) -> None:
        """Say whether the memory is used up, from now on."""
        self.full = full

    def refused(self, principal: Principal | None, messages: Sequence[Message], now: int) -> dict[int, Refusal]:
        """Return the publications that are refused, by their index (protocol.md 4.4); and weigh all others.

        What is usual is decided here: a known subject that the principal is known to be allowed to publish to, and
        nothing large.
        """
        refused: dict[int, Refusal] = {}
        versions: dict[str, int] | None = None
        room, coming = self._room, self._coming
        forecasts: StepForecasts | None = None
        known = None if principal is None else self.grants.publishable(principal)
        interest = self.interest
        topics, has_options = interest.topics, interest.options.rows
        bytes_max = self.limits.message_bytes_max
        for index, message in enumerate(messages):
            subject = message.subject
            topic = topics.get(subject)
            # A trace may have come to it since it was made, nothing else (``Message.plain``).
            size = message.size if message.plain and message.traceparent is None else message.weigh()
            room -= size
            state = None if topic is None else topic.snapshot
            held = 0 if state is None else state.bytes_most
            tight = room < (held + coming.get(subject, 0) if coming else held)
            if (
                tight
                or topic is None
                or topic.system
                or (known is not None and subject not in known)
                or size > bytes_max
                or (message.fields and not message.replace and self._too_many_fields(topic, message.fields))
                or message.as_of is not None
            ):
                refusal = self._refusal(principal, message, topic, now)
                if tight and not refusal:
                    forecasts = forecasts or StepForecasts(self.snapshot_bound, now)
                    refusal = forecasts.refusal(topic, messages, index, refused)
                if versions is None:
                    versions = {}
                refusal = refusal or self._outdated(subject, version_of(message.as_of), versions)
                if refusal:
                    refused[index] = refusal
                    continue
                if known is not None:
                    known.add(subject)
            if has_options:
                options = topic.options if topic is not None else self.interest.options.find(subject)
                if options is not None and options.delivery == STANDARD:
                    message.demote()
        return refused

    def refused_request(self, principal: Principal | None, message: Message, now: int) -> Refusal | None:
        """Return why a request is refused, or None if it may go on: as a publication, but that no subject comes to be
        by it.

        ``principal`` None is Django, whose right is not asked.
        """
        try:
            check_subject(message.subject)
        except InvalidSubject as error:
            return "invalid", f"subject {message.subject[:80]!r}: {error.reason}"
        if is_system(message.subject):
            return SYSTEM
        if principal is not None:
            reason = self.grants.check(principal, PUBLISH, message.subject, now)
            if reason:
                return ("not_ready" if reason in PENDING else "denied"), reason
        return self.oversized(message)

    def oversized(self, message: Message) -> Refusal | None:
        """Weigh the message; return why it is too large, or None if it is not."""
        if message.weigh() > self.limits.message_bytes_max:
            self.counters.limit("message")
            return "too_large", f"over {self.limits.message_bytes_max} bytes"
        return None

    def refused_runs(self, runs: Sequence[ColumnBatch], now: int) -> dict[int, Refusal]:
        """Return the runs that are refused, by their index; rights, sizes and values were looked at before."""
        refused: dict[int, Refusal] = {}
        versions: dict[str, int] = {}
        room, coming = self._room, self._coming
        forecasts = StepForecasts(self.snapshot_bound, now)
        for index, run in enumerate(runs):
            topic = self.interest.topics.get(run.subject)
            refusal = self._no_subject(run.subject) if topic is None else None
            if is_system(run.subject) if topic is None else topic.system:
                refusal = refusal or SYSTEM
            elif topic is not None and run.fields and not run.replace:
                refusal = self._too_many_fields(topic, run.fields)
            room -= run.bytes_most()
            held = 0 if topic is None or topic.snapshot is None else topic.snapshot.bytes_most
            if room < held + coming.get(run.subject, 0) and not refusal:
                refusal = forecasts.refused_run(topic, runs, index, refused)
            if run.meta and not refusal:
                refusal = self._outdated(run.subject, run.version, versions)
            if refusal:
                refused[index] = refusal
        return refused

    def by_options(self, run: ColumnBatch) -> ColumnBatch:
        """Return the run with the quality that options of its subject say."""
        topic = self.interest.topics.get(run.subject)
        options = topic.options if topic is not None else self.interest.options.find(run.subject)
        if options is None or options.delivery != STANDARD:
            return run
        return ColumnBatch(run.subject, run.contents, run.fields, (run.meta or {}) | {"qos": STANDARD})

    def _refusal(self, principal: Principal | None, message: Message, topic: Topic | None, now: int) -> Refusal | None:
        """Return why the publication is refused, or None if it may go on (protocol.md 4.4)."""
        subject = message.subject
        if topic is None:
            refusal = self._no_subject(subject)
            if refusal:
                return refusal
        if is_system(subject):
            return SYSTEM
        if principal is not None:
            reason = self.grants.check(principal, PUBLISH, subject, now)
            if reason:
                return ("not_ready" if reason in PENDING else "denied"), reason
        refusal = self.oversized(message)
        if refusal is None and topic is not None and message.fields and not message.replace:
            return self._too_many_fields(topic, message.fields)
        return refusal

    def _no_subject(self, subject: str) -> Refusal | None:
        """Return why a subject that is not known cannot come to be."""
        try:
            check_subject(subject)
        except InvalidSubject as error:
            return "invalid", f"subject {subject[:80]!r}: {error.reason}"
        if self.full:
            self.counters.limit("memory")
            return "failed", f"{MEMORY_FULL}: no new subject is taken"
        if len(self.interest.topics) >= self.limits.subjects_max:
            self.counters.limit("subjects")
            return "failed", f"the server already holds {self.limits.subjects_max} subjects"
        return None

    def _outdated(self, subject: str, version: int, versions: dict[str, int]) -> Refusal | None:
        """Return why this version comes too late; ``versions`` are those of earlier messages of the same step."""
        if version == NO_VERSION:
            return None
        topic = self.interest.topics.get(subject)
        newest = max(versions.get(subject, NO_VERSION), NO_VERSION if topic is None else topic.version)
        if version < newest:
            return "outdated", f"version {version}: the subject has version {newest} already"
        versions[subject] = version
        return None

    def _too_many_fields(self, topic: Topic, fields: Collection[str]) -> Refusal | None:
        """Return why a subject takes no more field names, in its snapshot and in a conflated interval; None while it
        does."""
        if topic.snapshot is not None and topic.snapshot.fields_after(fields) > SNAPSHOT_FIELDS_MAX:
            return "too_large", f"the subject's snapshot would hold over {SNAPSHOT_FIELDS_MAX} fields"
        live = topic.live
        if live is not None and live.fields_after(fields) > SNAPSHOT_FIELDS_MAX:
            live.forget(needed_from(topic, live, live.lagging.values()))
            if live.lagging and live.fields_after(fields) > SNAPSHOT_FIELDS_MAX:
                give_up(live)
                live.forget(needed_from(topic, live))
            if live.fields_after(fields) > SNAPSHOT_FIELDS_MAX:
                return "too_large", f"over {SNAPSHOT_FIELDS_MAX} fields within a conflation interval"
        return None


def with_refusals(done: Done, refused: dict[int, Refusal]) -> Done:
    """Return ``done`` for a batch of which only the accepted messages have an outcome yet."""

    def merged(outcomes: list[Outcome]) -> None:
        rest = iter(outcomes)
        done([refused[index] if index in refused else next(rest) for index in range(len(outcomes) + len(refused))])

    return merged
