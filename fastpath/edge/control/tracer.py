"""What one process sees of whom or what is traced: events, while the trace runs and never else (protocol.md 8.10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from time import perf_counter
from typing import Any

from ...core.broker.admission import Done, Outcome
from ...core.broker.observers import ConnectionListener, PublicationListener, Source
from ...core.delivery.audience import Client, Group, SubjectFeed, Topic, pattern_of
from ...core.matching.subscribed_patterns import covers
from ...core.protocol.messages import AnyCommand, Message, Publish, Result, Subscribe
from ...core.protocol.subject import is_wildcard
from ..audit.events import short, user_of
from ..runtime.component import Answer
from ..runtime.connection_names import source_id
from ..runtime.runtime import Runtime, now
from .trace_detail import LOOKED_MAX, NAMED_MAX, detail, members

USER, SUBJECT, CONNECTION = "user", "subject", "connection"

EVENTS_MAX = 2000
"""Events that wait to be handed on, and about as many in a second: what comes beyond is counted, and costs no more."""

HAND_ON_SECONDS = 0.1
"""Seconds after which events are handed on."""

CLIENTS_MAX = 100
"""Connections of one user that are followed in one process."""

KNOWN_MAX = 10_000
"""Subjects of which is remembered whether the traced pattern covers them."""

ENDED = "the connection has ended"

HandOn = Callable[[list[Answer], int], None]
"""Gets events, and how many more there were."""


class Tracer(ConnectionListener, PublicationListener):
    """Follows a user's connections, one connection, or a subject (``kind``); ``ended`` is told that it is over."""

    def __init__(self, runtime: Runtime, kind: str, value: str, hand_on: HandOn, ended: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._kind = kind
        self._value = value
        self._hand_on = hand_on
        self._ended = ended
        self._pattern = kind == SUBJECT and is_wildcard(value)
        self._known: dict[str, bool] = {}
        self.clients: dict[Client, None] = {}
        """Clients that are followed; none where a subject is."""
        self._events: list[Answer] = []
        self._lost = 0
        self._timer: asyncio.TimerHandle | None = None
        self.stopped = False
        self._fresh: dict[str, list[Message]] = {}  # the first of their subject, which a pattern may be found to cover
        self._pending: list[Callable[[], None]] = []  # what is found out when the tick's messages have been written
        self._broker = runtime.broker
        self._broker.observers.append(self)
        self._broker.follow(self, True)

    def stop(self) -> None:
        """Follow nothing any more; what has been noted is handed on."""
        if self in self._broker.observers:
            self._broker.observers.remove(self)
            self._broker.follow(self, False)
        self.stopped = True
        self.clients.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._flush()

    def add(self, client: Client, event: str = "following") -> None:
        """Follow this client from now on."""
        if client in self.clients:
            return
        if len(self.clients) >= CLIENTS_MAX:
            self._note("limit", client, reason=f"more than {CLIENTS_MAX} connections: this one is not followed")
            return
        self.clients[client] = None
        self._note(event, client, since=client.since)

    # Who comes, goes and says what

    def connected(self, client: Client) -> None:
        if self._is_user(client):
            self.add(client, "connected")

    def renewed(self, client: Client, before: str) -> None:
        if client in self.clients:
            self._note("renewed", client, before=before)
            if self._kind == USER and client.principal.user != self._value:
                del self.clients[client]
        elif self._is_user(client):
            self.add(client, "connected")

    def introduced(self, client: Client, program: str) -> None:
        if client in self.clients:
            self._note("introduced", client, program=short(program))

    def disconnected(self, client: Client) -> None:
        if client in self.clients or (self._kind == SUBJECT and self._reads(client)):
            self.clients.pop(client, None)
            code, reason = client.end
            seconds = round((now() - client.since) / 1000, 1)
            self._note("closed", client, code=int(code), reason=short(reason), seconds=seconds)
            if self._kind == CONNECTION:
                self._ended(ENDED)

    def said(self, client: Client, command: AnyCommand) -> None:
        """Note a command; what it comes to follows. A publication is told with its outcome only."""
        if client in self.clients and type(command) is not Publish:
            self._note("command", client, command=command.__struct_config__.tag, detail=detail(command))

    def refused(self, client: Client, code: str, reason: str) -> None:
        if client in self.clients:
            self._note("refused", client, error=code, reason=short(reason))

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        del request
        if client not in self.clients and not self._covers(topic.subject):
            return
        event = self._note(
            "subscribed",
            client,
            subject=topic.subject,
            pattern="",
            epoch=topic.epoch,
            seq=topic.seq,
            recovery=result.recovery,
            messages=result.messages,
            conflation=result.conflation,
            again=again,
        )
        if event is not None:  # by which pattern, is known when all of the command has been done
            self._when_written(lambda: event.update(pattern=pattern_of(client, topic)))
        feed = client.subscriptions.get(topic) if client in self.clients else None
        if feed is not None and not topic.seq and topic.snapshot is None:  # the pattern was looked for because of these
            for message in self._fresh.get(topic.subject, ()):
                self._offered(client, topic, feed, message)

    def subscribed_together(self, group: Group, topic: Topic, result: Result) -> None:
        """Note the subscriptions of a group: of very many as many as there is room for."""
        for client in self._followed(group, (topic,)):
            self.subscribed(client, topic, Subscribe(id=0, subjects=[]), result, False)

    def unsubscribed_together(self, group: Group, topics: Sequence[Topic], why: str) -> None:
        """Note the ends of a group's subscriptions: of very many as many as there is room for."""
        for client in self._followed(group, topics):
            self.unsubscribed(client, topics, why)

    def _followed(self, group: Group, topics: Sequence[Topic]) -> Iterable[Client]:
        """Return those of the group whom an event is about; those for whom there is no room are counted only."""
        if self._kind != SUBJECT:
            return [client for client in self.clients if client.group is group]
        if not any(self._covers(topic.subject) for topic in topics):
            return ()
        room = EVENTS_MAX - len(self._events)
        self._lost += max(len(group) - room, 0)
        return islice(chain(tuple(group.ready[:room]), tuple(group.singles)), room)

    def denied(self, client: Client, results: Sequence[Result]) -> None:
        for result in results:
            if client in self.clients or self._covers(result.subject):
                subject = short(result.subject)
                self._note("denied", client, subject=subject, error=result.error, reason=result.reason)

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        for topic in topics:
            if client in self.clients or self._covers(topic.subject):
                if why:
                    self._note("revoked", client, subject=topic.subject, reason=short(why))
                else:
                    self._note("unsubscribed", client, subject=topic.subject)

    # How it keeps up

    def blocked(self, client: Client) -> None:
        if client in self.clients:
            self._note("blocked", client, queue_bytes=client.queue.size if client.queue is not None else 0)

    def unblocked(self, client: Client) -> None:
        if client in self.clients:
            self._note("unblocked", client)

    def lagging(self, client: Client, topics: Sequence[Topic]) -> None:
        self._note_topics("lagging", client, topics)

    def caught_up(self, client: Client, topics: Sequence[Topic]) -> None:
        self._note_topics("caught_up", client, topics)

    def _note_topics(self, event: str, client: Client, topics: Sequence[Topic]) -> None:
        if client in self.clients:
            named = [topic.subject for topic in islice(topics, NAMED_MAX)]
            self._note(event, client, subjects=named, count=len(topics))

    # What is published, and what of it reaches whom

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        if self._kind != SUBJECT and not self._is_source(source):
            return done
        began = perf_counter()

        def noted(outcomes: list[Outcome]) -> None:
            took = round((perf_counter() - began) * 1000, 3)
            for message, outcome in zip(messages, outcomes, strict=False):
                if self._kind != SUBJECT or self._covers(message.subject):
                    self._note_outcome(source, message, outcome, took)
            if done is not None:
                done(outcomes)

        return noted

    def unread(self, source: Source | None, row: Any, code: str, reason: str) -> None:
        subject = row[0] if isinstance(row, list | tuple) and row else row
        subject = getattr(subject, "subject", subject)
        subject = short(subject) if isinstance(subject, str) else ""
        if self._covers(subject) if self._kind == SUBJECT else self._is_source(source):
            self._note("unpublished", source, subject=subject, error=code, reason=short(reason))

    def ended(self, source: Source, code: int, reason: str, seconds: float) -> None:
        """Note that a publisher has gone."""
        if self._kind == CONNECTION and self._is_source(source):
            self._note("closed", source, code=code, reason=short(reason), seconds=round(seconds, 1))
            self._ended(ENDED)

    def delivering(self, messages: Sequence[Message]) -> None:
        """Note messages of the subject: the one thing that costs for each message, a look into a dict or two."""
        if self._kind == SUBJECT:
            for message in messages:
                if self._covers(message.subject):
                    self._delivered(message)
            return
        self._fresh.clear()
        if not self.clients:
            return
        topics = self._broker.interest.topics
        for message in messages:
            topic = topics.get(message.subject)
            if topic is None or not topic.known:
                self._fresh.setdefault(message.subject, []).append(message)
            if topic is not None:
                for client in self.clients:
                    feed = client.subscriptions.get(topic)
                    if feed is not None:
                        self._offered(client, topic, feed, message)

    def _offered(self, client: Client, topic: Topic, feed: SubjectFeed, message: Message) -> None:
        """Note a message for a client that is followed: what has become of it shows when the tick has been written."""
        event = self._note("message", client, subject=topic.subject, bytes=message.size)
        if event is None:
            return
        behind = (client.lag is not None and topic in client.lag.behind) or topic in (client.recovering or ())

        def sent() -> None:
            event["epoch"], event["seq"] = message.epoch, message.seq
            if behind:
                event["how"] = "behind"
            elif feed.interval:
                event["how"] = "conflated"
            elif client.queue is not None:
                event["how"], event["queue_bytes"] = "queued", client.queue.size
            elif client.group is not None and client.group.held is not None:
                event["how"] = "batched"
            else:
                event["how"], event["latency_ms"] = "sent", max(now() - message.time, 0)

        self._when_written(sent)

    def _delivered(self, message: Message) -> None:
        """Note to how many clients of this process a message of the subject has gone."""
        event = self._note("delivered", None, subject=message.subject, bytes=message.size)
        if event is None:
            return

        def sent() -> None:
            topic = self._broker.interest.topics.get(message.subject)
            event["epoch"], event["seq"] = message.epoch, message.seq
            event["clients"], more = members([topic.feed]) if topic is not None else (0, False)
            event["conflated"], much = members((topic.conflated or {}).values()) if topic is not None else (0, False)
            slow = islice(self._runtime.blocked, LOOKED_MAX)
            event["queued"] = sum(topic in client.subscriptions for client in slow) if topic is not None else 0
            if more or much or len(self._runtime.blocked) > LOOKED_MAX:
                event["more"] = True
            event["latency_ms"] = max(now() - message.time, 0)

        self._when_written(sent)

    def _when_written(self, found_out: Callable[[], None]) -> None:
        self._pending.append(found_out)
        if len(self._pending) == 1:
            # Two turns on: the messages of this one are written in the next (Runtime.end).
            self._runtime.loop.call_soon(self._runtime.loop.call_soon, self._written)

    def _written(self) -> None:
        pending, self._pending = self._pending, []
        for found_out in pending:
            found_out()

    def _note_outcome(self, source: Source | None, message: Message, outcome: Outcome, took: float) -> None:
        if isinstance(outcome, int):
            epoch, seq, repeated = message.epoch if outcome else 0, outcome, False
        elif isinstance(outcome[0], str):
            error, reason = outcome[0], short(str(outcome[1]))
            self._note("unpublished", source, subject=short(message.subject), error=error, reason=reason)
            return
        else:
            epoch, seq, repeated = outcome[0], int(outcome[1]), True  # stored before, or in another epoch
        self._note(
            "published",
            source,
            subject=message.subject,
            epoch=epoch,
            seq=seq,
            bytes=message.size,
            ms=took,
            repeated=repeated,
        )

    # Whom and what it is about

    def _is_user(self, client: Client) -> bool:
        return self._kind == USER and client.principal.user == self._value

    def _is_source(self, source: Source | None) -> bool:
        """Return whether it is somebody that is followed who publishes."""
        if source is None or source in self.clients:
            return source is not None
        if self._kind == CONNECTION:
            return source_id(self._runtime, source) == self._value
        return self._kind == USER and user_of(source) == self._value and not isinstance(source, Client)

    def _covers(self, subject: str) -> bool:
        """Return whether the trace is about the subject."""
        if self._kind != SUBJECT or not self._pattern:
            return self._kind == SUBJECT and subject == self._value
        known = self._known.get(subject)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[subject] = covers(self._value, subject)
        return known

    def _reads(self, client: Client) -> bool:
        """Return whether a client that ends has read the subject, as far as is looked."""
        if not self._pattern:
            topic = self._broker.interest.topics.get(self._value)
            return topic is not None and topic in client.subscriptions
        return any(self._covers(topic.subject) for topic in islice(client.subscriptions, LOOKED_MAX))

    # Events

    def _note(self, event: str, source: Source | None, **more: Any) -> Answer | None:
        """Keep an event, to which something may be added until the next turn but one; None when there are too many."""
        if len(self._events) >= EVENTS_MAX:
            self._lost += 1
            return None
        noted: Answer = {"time": now(), "event": event, "worker": self._runtime.workers.number}
        if source is not None:
            noted["connection"] = source_id(self._runtime, source)
            noted["user"] = user_of(source)
            noted["address"] = source.address
        noted |= more
        self._events.append(noted)
        if self._timer is None:
            self._timer = self._runtime.loop.call_later(HAND_ON_SECONDS, self._flush)
        return noted

    def _flush(self) -> None:
        self._written()
        events, self._events = self._events, []
        lost, self._lost = self._lost, 0
        self._timer = None
        if events or lost:
            self._hand_on(events, lost)
        if events and not self.stopped:
            # The next ones later, after many: so that in each second there are about EVENTS_MAX.
            wait = max(HAND_ON_SECONDS, len(events) / EVENTS_MAX)
            self._timer = self._runtime.loop.call_later(wait, self._flush)
