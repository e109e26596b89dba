"""What happens to traced publications, as spans: ``accept`` where one came in, ``deliver`` wherever it went out."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from time import time_ns
from typing import NamedTuple

from ...core.broker.admission import Done, Outcome
from ...core.broker.observers import PublicationListener, Source
from ...core.protocol.messages import Message
from ...core.protocol.trace_context import SAMPLED, flags_of, make_traceparent, span_of, trace_of
from ..runtime.component import Offers
from ..runtime.runtime import Runtime
from .sampler import TraceSampler
from .spans import WAITING_MAX, ExportQueue, MessageSpan

ACCEPT, DELIVER = "accept", "deliver"

WRITING_NS_MAX = 1_000_000_000
"""Nanoseconds that a delivery is waited for that goes to large groups, slice by slice, while others go on
publishing."""


class _Accepting(NamedTuple):
    place: int  # among the messages that came together
    subject: str
    trace: str
    span: str
    parent: str


class _Delivering(NamedTuple):
    traceparent: str
    subject: str
    epoch: int
    seq: int
    began: int
    clients: int = 0


class SpanRecorder(PublicationListener):
    """The spans of one process.

    A message that is traced goes on with the context of its span ``accept``, which is the parent of every ``deliver``,
    one in each process with a client that gets it at once, and of what its subscribers make of it.
    """

    def __init__(self, runtime: Runtime, queue: ExportQueue[MessageSpan], sampler: TraceSampler) -> None:
        self._runtime = runtime
        self._queue = queue
        self._sampler = sampler
        self._offered: list[_Delivering] = []
        self._delivering: list[_Delivering] = []
        self.offers = Offers(
            figures=lambda: {"spans_exported": queue.exported, "spans_dropped": queue.dropped}, stop=queue.stop
        )
        runtime.broker.follow(self, True)
        queue.start()

    # What comes in

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        accepting = [one for place, message in enumerate(messages) if (one := self._accept(place, message)) is not None]
        if not accepting:
            return done
        began = time_ns()

        def accepted(outcomes: list[Outcome]) -> None:
            ended = time_ns()
            for one in accepting:
                self._queue.put(_accepted(one, outcomes[one.place], began, ended))
            if done is not None:
                done(outcomes)

        return accepted

    def _accept(self, place: int, message: Message) -> _Accepting | None:
        """Have the message go on with the context of a span of this process; None: it is not traced here."""
        given = message.traceparent
        if given is None:
            trace, parent, flags = self._sampler.begin(), "", SAMPLED
        else:
            trace, parent, flags = (
                trace_of(given) if self._sampler.takes(given) else "",
                span_of(given),
                flags_of(given),
            )
        if not trace:
            return None
        if self._queue.full:
            self._queue.leave_out()
            return None
        span = secrets.token_hex(8)
        message.traceparent = make_traceparent(trace, span, flags)
        return _Accepting(place, message.subject, trace, span, parent)

    # What goes out

    def delivering(self, messages: Sequence[Message]) -> None:
        waited = bool(self._offered)
        for message in messages:
            traceparent = message.traceparent
            if traceparent is None or not self._sampler.takes(traceparent):
                continue
            if self._queue.full or len(self._offered) + len(self._delivering) >= WAITING_MAX:
                self._queue.leave_out()
                continue
            place = message.epoch, message.seq
            self._offered.append(_Delivering(traceparent, message.subject, *place, time_ns()))
        if self._offered and not waited:
            # At the end of this turn of the loop, in which it is written, too.
            self._runtime.loop.call_soon(self._count)

    def _count(self) -> None:
        """Count who gets what was offered: everybody is known, and nobody can have gone since."""
        waited = bool(self._delivering)
        offered, self._offered = self._offered, []
        for one in offered:
            clients = self._clients(one.subject)
            if clients:
                self._delivering.append(one._replace(clients=clients))
        if self._delivering and not waited:
            self._runtime.loop.call_soon(self._written)

    def _written(self) -> None:
        """Note what was offered as written, or as waiting in the queues of slow clients."""
        ended = time_ns()
        if self._runtime.broker.writing.behind and ended - self._delivering[0].began < WRITING_NS_MAX:
            self._runtime.loop.call_soon(self._written)
            return
        delivered, self._delivering = self._delivering, []
        for one in delivered:
            self._queue.put(_delivered(one, ended))

    def _clients(self, subject: str) -> int:
        """Return how many clients of this process get what comes of the subject at once."""
        topic = self._runtime.broker.interest.topics.get(subject)
        return 0 if topic is None or topic.feed is None else sum(map(len, topic.feed.groups))


def _accepted(one: _Accepting, outcome: Outcome, began: int, ended: int) -> MessageSpan:
    attributes = _attributes(one.subject, ACCEPT, "receive")
    error = ""
    if isinstance(outcome, int):
        attributes["fastpath.seq"] = outcome
    elif isinstance(outcome[0], str):
        attributes["error.type"] = outcome[0]
        error = str(outcome[1])
    else:
        # Stored before, or in another epoch.
        attributes["fastpath.epoch"], attributes["fastpath.seq"] = outcome[0], int(outcome[1])
    return MessageSpan(ACCEPT, True, one.trace, one.span, one.parent, began, ended, attributes, error)


def _delivered(one: _Delivering, ended: int) -> MessageSpan:
    attributes = _attributes(one.subject, DELIVER, "send")
    attributes["fastpath.clients"] = one.clients
    if one.seq:
        attributes["fastpath.epoch"], attributes["fastpath.seq"] = one.epoch, one.seq
    trace, parent = trace_of(one.traceparent), span_of(one.traceparent)
    return MessageSpan(DELIVER, False, trace, secrets.token_hex(8), parent, one.began, ended, attributes)


def _attributes(subject: str, name: str, kind: str) -> dict[str, str | int]:
    """Return attributes in the names of OpenTelemetry's conventions for messaging."""
    return {
        "messaging.system": "fastpath",
        "messaging.destination.name": subject,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
