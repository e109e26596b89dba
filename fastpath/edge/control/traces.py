"""The control verbs ``trace``, ``traced`` and ``untrace``: every event of a user, connection or subject for a while.

The first worker keeps what all have seen, a bounded number of events for each trace (protocol.md 8.10). While none runs
nothing is attached to anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from ...core.broker.observers import CommandListener
from ...core.delivery.audience import Client
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.messages import AnyCommand
from ...core.protocol.subject import check_pattern
from ..node import messages
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.connection_names import Name
from ..runtime.runtime import Runtime
from ..runtime.scatter import Work, chosen, text
from .actions import publishers
from .client_detail import GONE, find
from .find_clients import pieces
from .tracer import CONNECTION, ENDED, SUBJECT, USER, Tracer

SECONDS_MAX = 60
"""Seconds that a trace runs at most."""

RUNNING_MAX = 4
"""Traces that run at a time."""

KEPT_MAX = 8
"""Traces whose events can be read, those that have ended included."""

UNREAD_SECONDS = 15.0
"""A trace that nobody has read for so long ends, and is forgotten."""

RING = 2000
"""Events of one trace that wait to be read; of more the oldest go, and are counted."""

ANSWER_EVENTS = 500
"""Events in one answer."""

LAST_SECONDS = 0.3
"""Seconds after which everything that other workers have seen has come: only then it is told that a trace has ended."""

OVER = "its time is over"
UNREAD = "nobody reads it"
STOPPED = "it was ended"


class Traces(CommandListener):
    """The traces of a node on its first worker; on each, what takes part in them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._traces: dict[str, _Trace] = {}
        self._begun = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tracers: dict[str, Tracer] = {}
        self.offers = Offers(
            verbs={"trace": self._ask, "traced": self._read, "untrace": self._untrace},
            questions={"trace": self._begin, "untrace": self._end},
            messages={
                messages.TraceEvents: self._told_by,
                messages.TraceOver: lambda worker, told: self._over(told.trace, told.why),
            },
            linked=self._linked,
            parted=self._parted,
        )

    @property
    def running(self) -> list[_Trace]:
        """The traces that have not ended."""
        return [trace for trace in self._traces.values() if not trace.ended]

    # The first worker

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Begin a trace of a ``user``, a ``subject`` (or a pattern) or a ``connection``, for ``seconds``; answers when
        all have begun."""
        given = [kind for kind in (USER, SUBJECT, CONNECTION) if arguments.get(kind)]
        if len(given) != 1:
            raise InvalidMessage("invalid", "a trace is about a user, a subject or a connection")
        kind = given[0]
        value = text(arguments, kind)
        seconds = chosen(arguments.get("seconds"), 1, SECONDS_MAX, "seconds", SECONDS_MAX)
        name = Name.parse(value) if kind == CONNECTION else None
        if kind == SUBJECT:
            check_pattern(value, names=False)
        if len(self.running) >= RUNNING_MAX:
            raise InvalidMessage("limit", f"{RUNNING_MAX} traces run already")
        self._begun += 1
        trace = _Trace(
            f"{self._runtime.broker.server[:8]}-{self._begun}", kind, value, self._runtime.loop.time() + seconds
        )
        number = peer.request

        def gathered(answers: dict[int, Answer], away: list[int]) -> None:
            failed = next((answer["failed"] for answer in answers.values() if "failed" in answer), None)
            if failed is None and not answers:
                failed = ["timeout", "no worker answers"]
            if failed is not None:
                self._over(trace.number, failed[1])
                self._traces.pop(trace.number, None)
                peer.refuse(number, *failed)
            else:
                peer.reply(number, {"trace": trace.number, "seconds": seconds, "away": away})

        worker = name.worker if name is not None else None
        self._runtime.scatter.ask("trace", trace.question(self._runtime.loop.time()), gathered, worker=worker)
        self._keep(trace)

    def _keep(self, trace: _Trace) -> None:
        trace.read_at = self._runtime.loop.time()
        self._traces[trace.number] = trace
        too_many = max(len(self._traces) - KEPT_MAX, 0)
        for number in [number for number, one in self._traces.items() if one.ended][:too_many]:
            del self._traces[number]
        if self._timer is None:
            self._look()

    def _look(self) -> None:
        """End the traces whose time is over, or that nobody reads, once a second while there are any."""
        moment = self._runtime.loop.time()
        for number, trace in list(self._traces.items()):
            if not trace.ended and moment >= trace.until:
                self._over(number, OVER)
            if moment - trace.read_at > UNREAD_SECONDS:
                self._over(number, UNREAD)
                del self._traces[number]
        self._timer = self._runtime.loop.call_later(1, self._look) if self._traces else None

    def _read(self, peer: ControlPeer, arguments: dict[str, Any]) -> Answer:
        """Return the events of a ``trace`` behind the number of the last one that was read (``after``)."""
        del peer
        trace = self._trace(arguments)
        moment = self._runtime.loop.time()
        trace.read_at = moment
        left = 0.0 if trace.ended else round(max(trace.until - moment, 0), 1)
        events = trace.read(chosen(arguments.get("after"), 0, 1 << 53, "after", 0))
        ended = trace.ended if moment >= trace.ended_at + LAST_SECONDS else ""
        return {"events": events, "dropped": trace.dropped, "ended": ended, "seconds_left": left}

    def _untrace(self, peer: ControlPeer, arguments: dict[str, Any]) -> Answer:
        """End a trace now; its events can still be read."""
        del peer
        self._over(self._trace(arguments).number, STOPPED)
        return {}

    def _trace(self, arguments: dict[str, Any]) -> _Trace:
        trace = self._traces.get(text(arguments, "trace"))
        if trace is None:
            raise InvalidMessage("unknown", "there is no such trace, or nobody has read it for long")
        return trace

    def _over(self, number: str, why: str) -> None:
        """End a trace, which is over: all workers stop following."""
        trace = self._traces.get(number)
        if trace is not None and not trace.ended:
            trace.ended, trace.ended_at = why, self._runtime.loop.time()
            self._runtime.workers.to_others(messages.Gather(0, "untrace", {"trace": number}))
            self._end({"trace": number}, lambda answer: None)

    def _told_by(self, worker: int, told: messages.TraceEvents) -> None:
        del worker
        trace = self._traces.get(told.trace)
        if trace is not None:
            trace.add(told.events, told.lost)

    def _linked(self, worker: int) -> None:
        """Have a new worker take part in what runs; or stop all, as a new first one knows of no trace."""
        if worker:
            for trace in self.running:
                if trace.kind != CONNECTION:
                    question = trace.question(self._runtime.loop.time())
                    with suppress(InvalidMessage):  # too much is being asked: it is traced without that worker
                        self._runtime.scatter.ask("trace", question, lambda answers, away: None, worker=worker)
        else:
            for number in list(self._tracers):
                self._stop(number)

    def _parted(self, worker: int) -> None:
        """End the traces of connections of a worker that is gone."""
        for trace in self.running:
            if trace.kind == CONNECTION and Name.parse(trace.value).worker == worker:
                self._over(trace.number, ENDED)

    # Every worker

    def _begin(self, query: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._follow(query["trace"], query["kind"], query["value"], query["seconds"]), done)

    def _follow(self, number: str, kind: str, value: str, seconds: float) -> Work:
        """Follow from now on, and whoever is there already."""
        client: Client | None = None
        if kind == CONNECTION:
            name = Name.parse(value)
            if not name.publisher:
                client = yield from find(self._runtime, name)
            elif not name.here or all(one.number != name.number for one in publishers(self._runtime)):
                raise InvalidMessage("unknown", GONE)
        runtime = self._runtime
        self._stop(number)
        hand_on = partial(self._hand_on, number)
        tracer = self._tracers[number] = Tracer(runtime, kind, value, hand_on, self._ender(number))
        runtime.sessions.show(self)
        runtime.loop.call_later(seconds + 1, self._stop, number)  # should the first worker not say so
        if client is not None:
            tracer.add(client)
        elif kind == USER:
            for some in runtime.sessions.batches():
                for piece in pieces(some):
                    for client in piece:
                        if client.principal.user == value and not (client.closed or tracer.stopped):
                            tracer.add(client)
                    yield
        return {}

    def _ender(self, number: str) -> Any:
        """Return what tells the first worker that there is nothing more to follow; later, as observers are being told
        now."""

        def ended(why: str) -> None:
            self._runtime.loop.call_soon(end, why)

        def end(why: str) -> None:
            self._stop(number)
            if self._runtime.workers.follows:
                self._runtime.workers.to_first(messages.TraceOver(number, why))
            else:
                self._over(number, why)

        return ended

    def _hand_on(self, number: str, events: list[Answer], lost: int) -> None:
        told = messages.TraceEvents(number, events, lost)
        if self._runtime.workers.follows:
            self._runtime.workers.to_first(told)
        else:
            self._told_by(0, told)

    def _end(self, query: Answer, done: Done) -> None:
        self._stop(query["trace"])
        done({})

    def _stop(self, number: str) -> None:
        tracer = self._tracers.pop(number, None)
        if tracer is not None:
            tracer.stop()
        if not self._tracers:
            self._runtime.sessions.show(None)

    def said(self, client: Client, command: AnyCommand) -> None:
        for tracer in self._tracers.values():
            tracer.said(client, command)

    def refused(self, client: Client, code: str, reason: str) -> None:
        for tracer in self._tracers.values():
            tracer.refused(client, code, reason)


class _Trace:
    """One trace: what it is about, until when (the loop's time), and what has been seen."""

    def __init__(self, number: str, kind: str, value: str, until: float) -> None:
        self.number = number
        self.kind = kind
        self.value = value
        self.until = until
        self.ended = ""
        """Reason why the trace has ended."""
        self.ended_at = 0.0
        self.read_at = 0.0
        self.dropped = 0
        self._events: deque[Answer] = deque()
        self._count = 0
        self._read = 0

    def question(self, moment: float) -> Answer:
        """Return what the workers are asked."""
        seconds = max(self.until - moment, 0)
        return {"trace": self.number, "kind": self.kind, "value": self.value, "seconds": seconds}

    def add(self, events: list[Answer], lost: int) -> None:
        """Add events of one worker, in their order."""
        self.dropped += lost
        for event in events:
            self._count += 1
            event["n"] = self._count
            self._events.append(event)
        while len(self._events) > RING:
            self.dropped += self._events.popleft()["n"] > self._read

    def read(self, after: int) -> list[Answer]:
        """Return the next events behind that number."""
        self._read = max(self._read, min(after, self._count))
        first = self._events[0]["n"] if self._events else 0
        start = max(after - first + 1, 0)  # numbers rise by one
        return list(islice(self._events, start, start + ANSWER_EVENTS))
