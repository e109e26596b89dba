"""One process' part of requests: those of its requesters, and what its responders are asked (protocol.md 3.11)."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from ...core.auth.grants import Principal
from ...core.auth.reasons import PENDING
from ...core.auth.rules import SUBSCRIBE
from ...core.broker.observers import Source
from ...core.protocol.messages import Asked, Message, Offer
from ...core.protocol.packets import Refusal
from ...core.protocol.subject import INBOX
from ...core.requests.open_requests import (
    BUSY,
    GONE,
    NOT_READY,
    TIMEOUT,
    UNAVAILABLE,
    GivenReply,
    OpenRequests,
    Requester,
    TakenRequest,
    TakenRequests,
    failed,
)
from ...core.requests.responders import offers_of
from ..node import messages
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .nodes import responded
from .router import Router

RESPONDERS_MAX = 1000
"""Connections of one process that respond."""

UNSENT_BYTES_MAX = 4 << 20
"""Bytes that wait for the first worker above which no request is handed to it."""

GONE_REPLY: Refusal = ("gone", "nobody waits for this reply any more")
"""Refusal for a responder that replies too late, twice, or to what it was not asked."""

REVOKED = "the right to read the subject is gone"


class ResponderConnection(Protocol):
    """A connection that answers requests."""

    @property
    def principal(self) -> Principal | None:
        """Holder of the right to read the subject; None: Django, whose right is not asked."""

    @property
    def full(self) -> bool:
        """True while so much waits for it that it is asked nothing."""

    def ask(self, asked: Asked) -> None:
        """Hand it a request."""

    def tell_over(self, name: str, reason: str) -> None:
        """Tell it that nobody waits any more for its reply to the request of that name."""


class Requests:
    """The requests of one process, and its responders."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._open = OpenRequests()
        self._taken: TakenRequests[int, messages.Requested] = TakenRequests()
        self._router = Router(runtime, self._deliver, self._answered, self._end, self._node_parted)
        self._responders: dict[int, tuple[ResponderConnection, list[str]]] = {}
        self._numbers: dict[ResponderConnection, int] = {}
        self._by_number: dict[int, ResponderConnection] = {}  # with those that answer nothing more, and may owe replies
        self._made = 0
        self._said = 0
        self._unnoted: deque[tuple[int, Callable[[], None]]] = deque()
        self._version = runtime.broker.grants.version
        self._counts = dict.fromkeys(("requests", "requests_failed", "replies", "replies_dropped"), 0)
        self.offers = Offers(
            messages={
                messages.Responds: self._said_by,
                messages.ResponderNoted: lambda worker, told: self._noted(told.at),
                messages.Requested: self._requested,
                messages.Responded: self._responded,
                messages.Abandoned: self._abandoned,
            },
            linked=self._linked,
            parted=self._router.parted,
            figures=self._figures,
            on_grid=self._on_grid,
            on_second=self._on_second,
            nodes=self._router.nodes,
        )

    # Requesters

    def name(self, inbox: str) -> str:
        """Return where the replies to the next request of this inbox go."""
        self._made += 1
        return f"{INBOX}{inbox}/{self._made}"

    def ask(
        self,
        requester: Requester,
        message: Message,
        principal: Principal | None,
        source: Source | None,
        *,
        timeout: int,
        replies: int,
    ) -> Refusal | None:
        """Ask what the message says, and have the replies to its ``reply_to`` told to ``requester``.

        Returns why not, if it is refused. ``principal`` None is Django, or somebody whose right was found out before.
        """
        broker, name = self._runtime.broker, message.reply_to or ""
        refusal = broker.admission.refused_request(principal, message, now())
        if refusal is None and (reason := self._open.limit(requester)):
            refusal = "limit", reason
            broker.counters.limit("requests")
        self._note(source, message, refusal)
        if refusal is not None:
            self._counts["requests_failed"] += 1
            return refusal
        self._counts["requests"] += 1
        user = source.principal.user if source is not None and source.principal is not None else ""
        asked = messages.Requested(
            name=name,
            node="",
            worker=self._runtime.workers.number,
            subject=message.subject,
            content=message.content,
            fields=message.fields or {},
            timeout=timeout,
            replies=replies,
            user=user,
        )
        self._open.begin(name, requester, replies, self._time() + timeout)
        self._route(asked)
        return None

    def abandon(self, requester: Requester) -> None:
        """Abandon the requests of a requester that is gone: whoever answers them is told."""
        names = self._open.leave(requester)
        if names:
            self._end(names)
            if self._runtime.workers.follows:
                self._runtime.workers.to_first(messages.Abandoned(names))
            else:
                self._router.abandoned(names, 0)

    # Responders

    def respond(
        self, responder: ResponderConnection, patterns: Sequence[str], noted: Callable[[], None]
    ) -> list[Offer]:
        """Replace the patterns that the responder answers, none at its end; what became of each.

        ``noted`` is called once they are in force, in the same turn or later.
        """
        number = self._numbers.get(responder)
        offers = offers_of(patterns)
        if number is None and len(self._responders) >= RESPONDERS_MAX:
            why = f"over {RESPONDERS_MAX} connections of a process respond"
            offers = [Offer(pattern=offer.pattern, error="limit", reason=why) for offer in offers]
        texts = [offer.pattern for offer in offers if not offer.error]
        if number is None and not texts:
            noted()
            return offers
        if number is None:
            self._made += 1
            number = self._numbers[responder] = self._made
            self._by_number[number] = responder
        if texts:
            self._responders[number] = responder, texts
        else:
            self._responders.pop(number, None)
        self._unnoted.append((self._said + 1, noted))
        self._say(number, texts)
        return offers

    def leave(self, responder: ResponderConnection) -> None:
        """Let a responder go that is gone: whoever waits for its replies is told."""
        number = self._numbers.pop(responder, None)
        if number is None:
            return
        del self._by_number[number]
        if self._responders.pop(number, None) is not None:
            self._say(number, [])
        for _, taken in self._taken.leave(number):
            self._back(responded(taken.origin, failed(GONE)))

    def reply(
        self, responder: ResponderConnection, message: Message, answer: GivenReply, source: Source | None
    ) -> Refusal | None:
        """Reply for the responder, ``message`` being the reply as a publication; return why it is dropped, if it is."""
        number = self._numbers.get(responder, 0)
        refusal = self._runtime.broker.admission.oversized(message)
        waited = None
        if refusal is None:
            waited = self._taken.reply(message.subject, number, answer.more and not answer.error)
            if waited is None:
                refusal = GONE_REPLY
        self._note(source, message, refusal)
        if waited is None:
            self._counts["replies_dropped"] += 1
            return refusal
        self._counts["replies"] += 1
        origin, more = waited
        self._back(responded(origin, answer._replace(more=more)))  # the router forgets what is over
        return None

    # The way of a request

    def _route(self, asked: messages.Requested) -> None:
        """Route a request to the first worker, or by it to a responder."""
        workers = self._runtime.workers
        if not workers.follows:
            self._router.route(asked)
        elif workers.unsent() > UNSENT_BYTES_MAX or not workers.to_first(asked):
            self._answered(responded(asked, failed(UNAVAILABLE)))

    def _requested(self, worker: int, asked: messages.Requested) -> None:
        del worker
        if self._runtime.workers.follows:
            self._deliver(asked)
        else:
            self._router.route(asked)

    def _deliver(self, asked: messages.Requested) -> None:
        """Ask a responder of this process, or let another one be asked."""
        number = asked.responder
        responder, _ = self._responders.get(number, (None, ()))
        why = self._unfit(number, responder, asked.subject)
        if responder is None or why is not None:
            passed = [*asked.passed, (self._runtime.workers.number, number)]
            self._route(msgspec.structs.replace(asked, passed=passed, why=why or asked.why))
            return
        taken = TakenRequest(number, asked, asked.subject, asked.replies)
        self._taken.take(asked.name, taken, self._time() + asked.timeout)
        responder.ask(
            Asked(
                to=asked.name,
                subject=asked.subject,
                content=asked.content,
                fields=asked.fields,
                timeout=asked.timeout,
                replies=asked.replies,
                user=asked.user,
            )
        )

    def _unfit(self, number: int, responder: ResponderConnection | None, subject: str) -> str | None:
        """Return the error that the responder is passed over with, empty if nobody need know; None: it is fit."""
        if responder is None:
            return ""
        if self._taken.full(number) or responder.full:
            return BUSY
        reason = self._denied(responder, subject)
        if not reason:
            return None
        return NOT_READY if reason in PENDING else ""

    def _denied(self, responder: ResponderConnection, subject: str) -> str:
        """Return why the responder may not read the subject; empty if it may."""
        principal = responder.principal
        return "" if principal is None else self._runtime.broker.grants.check(principal, SUBSCRIBE, subject, now())

    # The way of a reply

    def _back(self, reply: messages.Responded) -> None:
        """Bring a reply back to whoever has asked, in this process or by the first worker."""
        workers = self._runtime.workers
        if not reply.node and reply.worker == workers.number:
            self._answered(reply)
        elif workers.follows:
            workers.to_first(reply)
        else:
            self._router.back(reply)

    def _responded(self, worker: int, reply: messages.Responded) -> None:
        del worker
        if self._runtime.workers.follows:
            self._answered(reply)
        else:
            self._router.back(reply)

    def _answered(self, reply: messages.Responded) -> None:
        """Take a reply that has come to the process of whoever has asked."""
        answer = GivenReply(reply.content, reply.fields, reply.more, reply.error, reply.reason, reply.own)
        if self._open.answered(reply.name, answer) and reply.error:
            self._counts["requests_failed"] += 1

    def _abandoned(self, worker: int, told: messages.Abandoned) -> None:
        self._end(told.names)
        if not self._runtime.workers.follows:
            self._router.abandoned(told.names, worker)

    def _end(self, names: list[str]) -> None:
        """Tell the responders of this process that nobody waits for these any more."""
        for name in names:
            taken = self._taken.end(name)
            if taken is not None:
                self._tell_over(name, taken, "whoever asked is gone")

    def _node_parted(self, node: str) -> None:
        """End what a node asked that is gone; without a name all others."""
        for name, taken in self._taken.those():
            asked = taken.origin
            if asked.node and node in ("", asked.node) and self._taken.end(name) is not None:
                self._tell_over(name, taken, "the node of whoever asked is gone")
                self._back(responded(asked, failed(GONE)))  # or it is there, and was out of reach

    def _tell_over(self, name: str, taken: TakenRequest[int, messages.Requested], reason: str) -> None:
        responder = self._by_number.get(taken.responder)
        if responder is not None:
            responder.tell_over(name, reason)

    # What the first worker knows of responders

    def _say(self, number: int, patterns: list[str]) -> None:
        self._said += 1
        if self._runtime.workers.follows:
            self._runtime.workers.to_first(messages.Responds(number, patterns, self._said))
        else:
            self._router.set(0, number, patterns)
            self._noted(self._said)

    def _said_by(self, worker: int, said: messages.Responds) -> None:
        self._router.set(worker, said.number, said.patterns)
        self._runtime.workers.to_others(messages.ResponderNoted(said.at), worker)

    def _noted(self, at: int) -> None:
        while self._unnoted and self._unnoted[0][0] <= at:
            self._unnoted.popleft()[1]()

    def _linked(self, worker: int) -> None:
        """Tell a first worker that is there, perhaps a new one, of the responders here; for another worker than the
        first."""
        if self._runtime.workers.follows and not worker:
            for number, (_, patterns) in self._responders.items():
                self._say(number, patterns)

    # Time and rights

    def _on_grid(self, moment: int) -> None:
        del moment
        time = self._time()
        for name, taken in self._taken.due(time):
            self._tell_over(name, taken, "the time for it is over")
            self._back(responded(taken.origin, failed(TIMEOUT)))
        self._counts["requests_failed"] += self._open.expire(time)
        self._router.expire()

    def _on_second(self, moment: int) -> None:
        """Follow a change of rights: whoever may not read a subject any more owes no reply to it."""
        del moment
        self._router.nodes.beat()
        version = self._runtime.broker.grants.version
        if version != self._version:
            self._version = version
            self._recheck(None)

    def _recheck(self, responder: ResponderConnection | None) -> None:
        """Look at the rights of one responder again, or of all."""
        for name, taken in self._taken.those():
            one = self._by_number.get(taken.responder)
            if one is None or (responder is not None and one is not responder):
                continue
            reason = self._denied(one, taken.subject)
            if reason and reason not in PENDING and self._taken.end(name) is not None:
                one.tell_over(name, REVOKED)
                self._back(responded(taken.origin, failed(GONE)))

    def recheck(self, responder: ResponderConnection) -> None:
        """Look at the rights of a responder that acts for somebody else from now on."""
        self._recheck(responder)

    def _note(self, source: Source | None, message: Message, refusal: Refusal | None) -> None:
        """Count, and tell the audit, as of a publication of standard quality."""
        broker = self._runtime.broker
        if refusal is not None:
            broker.counters.refused((refusal,))
        if broker.trail is not None:
            done = broker.trail.publication(source, (message,), None)
            if done is not None:
                done([0 if refusal is None else refusal])

    def _time(self) -> int:
        """Return the loop's clock in ms."""
        return int(self._runtime.loop.time() * 1000)

    def _figures(self) -> dict[str, float]:
        return {
            **self._counts,
            "requests_open": len(self._open),
            "requests_taken": len(self._taken),
            "responders": len(self._responders),
            **self._router.nodes.figures(),
        }


def inbox() -> str:
    """Return the name of an inbox that nobody can guess."""
    return secrets.token_urlsafe(16)
