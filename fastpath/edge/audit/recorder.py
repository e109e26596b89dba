"""The audit: what clients, publishers and the cache do, as events for files and listeners (docs/operate/audit.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ...core.broker.admission import Done, Outcome
from ...core.broker.observers import ConnectionListener, PublicationListener, Source
from ...core.delivery.audience import Client, Topic
from ...core.protocol.messages import Message, Result, Subscribe
from ...core.telemetry.samples import WINDOWS, Windows
from ...core.websocket.handshake import Request
from ..runtime.connection_names import source_id
from ..runtime.runtime import Runtime, now
from .event_queue import AuditQueue
from .events import (
    DJANGO,
    AccessEvent,
    CachedEvent,
    FiguresEvent,
    PublicationEvent,
    WindowsEvent,
    content_of,
    node_name,
    short,
    stamp,
    user_of,
)

FIGURES_SECONDS = 60.0


class Audit(ConnectionListener, PublicationListener):
    """The audit of one process. It takes part in nothing that nobody asks for: see ``_attach``."""

    def __init__(self, runtime: Runtime, worker: int, workers: int, figures: Callable[[], dict[str, float]]) -> None:
        self._runtime = runtime
        self._worker = worker
        self._figures = figures
        self._node = node_name()
        self._content = runtime.settings.audit_content
        self._kinds: frozenset[str] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self._queue = AuditQueue(runtime, worker, workers, self._attach)
        self._note = self._queue.note
        self.offers = replace(
            self._queue.listeners.offers,
            figures=lambda: {"audit_dropped": self.dropped},
            connections=self,
            stop=self.stop,
        )
        self._attach()
        self._on_minute()

    def stop(self) -> None:
        """Write all that has happened."""
        if self._timer is not None:
            self._timer.cancel()
        self._note_figures()
        self._queue.close()

    @property
    def dropped(self) -> int:
        """Events that were not written, or told nobody."""
        return self._queue.dropped

    @property
    def waiting(self) -> int:
        """Events that wait to be handed on."""
        return self._queue.waiting

    def _attach(self) -> None:
        """Follow what is written or listened to, and nothing else."""
        self._kinds = kinds = self._queue.wanted
        broker = self._runtime.broker
        if self in broker.observers:
            broker.observers.remove(self)
        if not kinds.isdisjoint(("access", "cache")):
            broker.observers.append(self)
        broker.follow(self, not kinds.isdisjoint(("access", "message", "cache")))
        # What others hold of the cache is a copy.
        broker.history.tell(self.evicted if "cache" in kinds and self._worker == 0 else None)

    # Clients

    def opened(self, client: Client, request: Request) -> None:
        """Note that a client has come."""
        if "access" in self._kinds:
            agent = short(request.headers.get("user-agent", ""))
            self._access("connected", client, transport=client.transport, agent=agent, **_token(client))

    def rejected(
        self, address: str, reason: str, *, code: int = 0, status: int = 0, request: Request | None = None
    ) -> None:
        """Note that a request for a WebSocket was refused: by a status of HTTP, or by a close code right after it."""
        if "access" in self._kinds:
            agent = short(request.headers.get("user-agent", "")) if request is not None else ""
            self._note(
                AccessEvent(
                    time=now(),
                    kind="access",
                    event="rejected",
                    node=self._node,
                    worker=self._worker,
                    connection="",
                    user="",
                    address=address,
                    agent=agent,
                    code=code,
                    status=status,
                    reason=short(reason),
                )
            )

    def introduced(self, client: Client, program: str) -> None:
        if "access" in self._kinds:
            self._access("introduced", client, program=short(program))

    def disconnected(self, client: Client) -> None:
        if "access" in self._kinds:
            code, reason = client.end
            count = len(client.subscriptions)
            self._access("disconnected", client, code=int(code), reason=short(reason), subscriptions=count)

    def renewed(self, client: Client, before: str) -> None:
        if "access" in self._kinds:
            self._access("renewed", client, before=before, **_token(client))

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        if "access" in self._kinds:
            self._access(
                "subscribed",
                client,
                result,
                subject=topic.subject,
                epoch=topic.epoch,
                seq=topic.seq,
                history=request.history,
                recovery=result.recovery,
                messages=result.messages,
                conflation=result.conflation,
                slow="" if request.slow == "close" else request.slow,
                again=again,
                reason=self._permitted(client, topic.subject),
            )
        if "cache" in self._kinds:
            self._note_reading(client, topic, request, result)

    def _permitted(self, client: Client, subject: str) -> str:
        """Return what of its own token lets the client read the subject; empty where that is not why."""
        if client.principal.permitted is None:
            return ""
        why = self._runtime.broker.grants.explain(client.principal, subject, now())
        return short(why.reason) if why.allowed and why.rule is None else ""

    def denied(self, client: Client, results: Sequence[Result]) -> None:
        """Observer; what is not ready yet is not denied."""
        if "access" in self._kinds:
            for result in results:
                if result.error != "not_ready":
                    self._access(
                        "denied", client, subject=short(result.subject), error=result.error, reason=result.reason
                    )

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        if "access" in self._kinds:
            event = "revoked" if why else "unsubscribed"
            for topic in topics:
                self._access(event, client, subject=topic.subject, reason=why)

    # Publishers

    def publisher_came(self, source: Source, publisher: str) -> None:
        """Note that a publisher said hello, under this name."""
        if "access" in self._kinds:
            self._access("publisher_connected", source, publisher=short(publisher))

    def publisher_gone(self, source: Source, code: int, reason: str) -> None:
        """Note that a publisher's connection ends, maybe before its hello was taken."""
        if "access" in self._kinds:
            event = "publisher_disconnected" if source.principal is not None else "publisher_rejected"
            self._access(event, source, code=int(code), reason=short(reason))

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        if self._kinds.isdisjoint(("access", "message")):
            return done

        def noted(outcomes: list[Outcome]) -> None:
            self._note_outcomes(source, messages, outcomes)
            if done is not None:
                done(outcomes)

        return noted

    def unread(self, source: Source | None, row: object, code: str, reason: str) -> None:
        if "access" in self._kinds:
            subject = row[0] if isinstance(row, list | tuple) and row else row
            subject = getattr(subject, "subject", subject)
            text = subject if isinstance(subject, str) else ""
            self._access("refused", source, subject=short(text), error=code, reason=short(reason))

    def delivering(self, messages: Sequence[Message]) -> None:
        """Trail: all that has a number is cached."""
        broker = self._runtime.broker
        if "cache" in self._kinds and self._worker == 0 and broker.guaranteed:
            options = broker.interest.options
            for message in messages:
                if message.seq and (options.find(message.subject) or options.defaults).cache_messages > 0:
                    self._cached("added", message)

    def evicted(self, message: Message, cause: str) -> None:
        self._cached("deleted", message, cause)

    # What is noted

    def _name(self, source: Source | None) -> str:
        return DJANGO if source is None else source_id(self._runtime, source)

    def _access(self, event: str, source: Source | None, result: Result | None = None, **more: Any) -> None:
        self._note(
            AccessEvent(
                time=now(),
                kind="access",
                event=event,
                node=self._node,
                worker=self._worker,
                connection=self._name(source),
                user=user_of(source),
                address=source.address if source is not None else "",
                **more,
            ),
            result,
        )

    def _note_outcomes(self, source: Source | None, messages: Sequence[Message], outcomes: Sequence[Outcome]) -> None:
        connection, user = self._name(source), user_of(source)
        address = source.address if source is not None else ""
        time, node, worker = now(), self._node, self._worker
        published = "message" in self._kinds
        for message, outcome in zip(messages, outcomes, strict=False):
            repeated = False
            if isinstance(outcome, int):
                epoch, seq = message.epoch if outcome else 0, outcome
            elif isinstance(outcome[0], str):
                if "access" in self._kinds:
                    reason = short(str(outcome[1]))
                    self._access("refused", source, subject=short(message.subject), error=outcome[0], reason=reason)
                continue
            else:
                epoch, seq = outcome[0], int(outcome[1])  # stored before, or in another epoch
                repeated = True
            if published:
                content, fields = content_of(message) if self._content else (None, None)
                self._note(
                    PublicationEvent(
                        time=time,
                        kind="message",
                        event="published",
                        node=node,
                        worker=worker,
                        connection=connection,
                        user=user,
                        address=address,
                        subject=message.subject,
                        epoch=epoch,
                        seq=seq,
                        bytes=message.size,
                        repeated=repeated,
                        content=content,
                        fields=fields,
                    ),
                    weight=message.size if content is not None else 0,
                )

    def _cached(self, event: str, message: Message, cause: str = "") -> None:
        self._note(
            CachedEvent(
                time=now(),
                kind="cache",
                event=event,
                node=self._node,
                worker=self._worker,
                subject=message.subject,
                epoch=message.epoch,
                seq=message.seq,
                bytes=message.size,
                cause=cause,
            )
        )

    def _note_reading(self, client: Client, topic: Topic, request: Subscribe, result: Result) -> None:
        """Note that a subscription asked for stored messages: what it missed, or the newest."""
        missed = topic.subject in request.since
        if not missed and not request.history:
            return
        found = result.recovery == "recovered" if missed else bool(topic.ring)
        self._note(
            CachedEvent(
                time=now(),
                kind="cache",
                event="read" if found else "missed",
                node=self._node,
                worker=self._worker,
                subject=topic.subject,
                epoch=topic.epoch,
                seq=topic.seq,
                by="recovery" if missed else "history",
                messages=result.messages if found else 0,
                connection=self._name(client),
                user=user_of(client),
                address=client.address,
            )
        )

    def _on_minute(self) -> None:
        """Note the figures, at the start and each minute."""
        self._note_figures()
        self._timer = self._runtime.loop.call_later(FIGURES_SECONDS - now() / 1000 % FIGURES_SECONDS, self._on_minute)

    def _note_figures(self) -> None:
        if "statistics" in self._kinds:
            figures = {name: value for name, value in self._figures().items() if name != "worker"}
            self._note(
                FiguresEvent(
                    time=now(),
                    kind="statistics",
                    event="figures",
                    node=self._node,
                    worker=self._worker,
                    figures=figures,
                )
            )
            self._note_windows()

    def _note_windows(self) -> None:
        """Note the statistics, which Django's collector tells the first worker; until it has, there are none."""
        topic = self._runtime.broker.interest.topics.get(WINDOWS)
        if self._worker or topic is None or topic.snapshot is None or topic.snapshot.removed:
            return
        newest = topic.snapshot.newest
        self._note(
            WindowsEvent(
                time=now(),
                kind="statistics",
                event="windows",
                node=self._node,
                worker=self._worker,
                told=stamp(newest.time),
                windows=msgspec.json.decode(newest.content, type=Windows),
            )
        )


def _token(client: Client) -> dict[str, Any]:
    """Return the id of the client's token, by which it can be revoked, and when it ends; nothing of what it is made
    of."""
    principal = client.principal
    return {
        "token": short(principal.claims.token_id) if principal.claims is not None else "",
        "expires": stamp(principal.expires) if principal.expires is not None else "",
    }
