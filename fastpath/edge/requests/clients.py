"""Requests of clients, and clients that respond: their commands and what they are told (protocol.md 3.11 to 3.13)."""

from __future__ import annotations

from msgspec import UNSET

from ...core.auth.grants import Principal
from ...core.broker.observers import ConnectionListener
from ...core.delivery.audience import Client
from ...core.protocol.codec import check_fields, check_value
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.limits import ERROR_CHARS_MAX, REASON_CHARS_MAX, REPLIES_MAX, REQUEST_MS_MAX
from ...core.protocol.messages import (
    STANDARD,
    Asked,
    Fields,
    GiveReply,
    MakeRequest,
    Message,
    Offer,
    Over,
    Replied,
    Respond,
    Responding,
    Response,
    Value,
)
from ...core.requests.open_requests import GivenReply
from ..runtime.component import Offers
from ..runtime.runtime import Runtime
from .requests import Requests, inbox

PATTERNS_PER_COMMAND_MAX = 1000
"""Patterns in one ``respond``."""


class ClientRequester:
    """A client that asks, with its inbox."""

    def __init__(self, runtime: Runtime, client: Client) -> None:
        self.inbox = inbox()
        self._runtime = runtime
        self._client = client
        self._ids: dict[str, int] = {}

    def expect(self, name: str, number: int) -> None:
        """Expect replies to the request of that name, which answer the command of this id."""
        self._ids[name] = number

    def forget(self, name: str) -> None:
        """Forget a request that was refused."""
        del self._ids[name]

    def answered(self, name: str, answer: GivenReply) -> None:
        """Tell the client a reply (protocol.md 4.19)."""
        number = self._ids[name] if answer.more else self._ids.pop(name)
        response = Response(
            id=number,
            content=answer.content,
            fields=answer.fields,
            more=answer.more,
            error=answer.error,
            reason=answer.reason,
            own=answer.own,
        )
        self._runtime.broker.send(self._client, response)


class ClientResponder:
    """A client that answers requests (edge/requests/requests.py Responder)."""

    def __init__(self, runtime: Runtime, client: Client) -> None:
        self._runtime = runtime
        self._client = client

    @property
    def principal(self) -> Principal:
        """The client's principal at this moment."""
        return self._client.principal

    @property
    def full(self) -> bool:
        """True while the client lags, or is on its way out."""
        queue = self._client.queue
        return self._client.closed or (queue is not None and queue.size > self._runtime.broker.limits.lag_bytes)

    def ask(self, asked: Asked) -> None:
        """Hand the client a request (protocol.md 4.17)."""
        self._runtime.broker.send(self._client, asked)

    def tell_over(self, name: str, reason: str) -> None:
        """Tell the client that nobody waits any more (protocol.md 4.17)."""
        self._runtime.broker.send(self._client, Over(to=name, reason=reason))


class ClientRequests(ConnectionListener):
    """The commands of the clients of one process."""

    def __init__(self, runtime: Runtime, requests: Requests) -> None:
        self._runtime = runtime
        self._requests = requests
        self._requesters: dict[Client, ClientRequester] = {}
        self._responders: dict[Client, ClientResponder] = {}
        if runtime.sessions.guard is not None:
            runtime.sessions.guard.spare(self._responders.__contains__)
        self.offers = Offers(commands={Respond: self._respond, MakeRequest: self._request, GiveReply: self._reply})

    # Observer, from the first command on

    def disconnected(self, client: Client) -> None:
        responder = self._responders.pop(client, None)
        if responder is not None:
            self._requests.leave(responder)
        requester = self._requesters.pop(client, None)
        if requester is not None:
            self._requests.abandon(requester)

    def renewed(self, client: Client, before: str) -> None:
        del before
        responder = self._responders.get(client)
        if responder is not None:
            self._requests.recheck(responder)

    def _observe(self) -> None:
        observers = self._runtime.broker.observers
        if self not in observers:
            observers.append(self)

    # Commands

    def _respond(self, client: Client, command: Respond, moment: int) -> None:
        """protocol.md 3.11; raises InvalidMessage."""
        del moment
        if len(command.patterns) > PATTERNS_PER_COMMAND_MAX:
            raise InvalidMessage("limit", f"over {PATTERNS_PER_COMMAND_MAX} patterns in one command")
        self._observe()
        responder = self._responders.get(client)
        if responder is None:
            responder = self._responders[client] = ClientResponder(self._runtime, client)
        results: list[Offer] = []

        def noted() -> None:
            self._runtime.loop.call_soon(self._noted, client, command.id, results)

        results += self._requests.respond(responder, command.patterns, noted)
        client.responds = not all(offer.error for offer in results)

    def _noted(self, client: Client, number: int, results: list[Offer]) -> None:
        self._runtime.broker.send(client, Responding(id=number, results=results))
        self._runtime.end()

    def _request(self, client: Client, command: MakeRequest, moment: int) -> None:
        """protocol.md 3.12; raises InvalidMessage."""
        del moment
        check_bounds(command.timeout, command.replies)
        content, fields = check_value(command.content, client.form), check_fields(command.fields, client.form)
        publications = self._runtime.sessions.publications
        if not publications.accepts(client.address):
            self._refuse(client, command.id, "denied", f"publishing is not allowed from {client.address}")
            return
        self._observe()
        requester = self._requesters.get(client)
        if requester is None:
            requester = self._requesters[client] = ClientRequester(self._runtime, client)
        name = self._requests.name(requester.inbox)
        requester.expect(name, command.id)
        refusal = self._requests.ask(
            requester,
            question(command.subject, content, fields, name),
            client.principal,
            client,
            timeout=command.timeout,
            replies=command.replies,
        )
        if refusal is not None:
            requester.forget(name)
            self._refuse(client, command.id, *refusal)
        publications.has_published(client)

    def _refuse(self, client: Client, number: int, code: str, reason: str) -> None:
        self._runtime.broker.send(client, Response(id=number, error=code, reason=reason, own=True))

    def _reply(self, client: Client, command: GiveReply, moment: int) -> None:
        """protocol.md 3.13; raises InvalidMessage."""
        del moment
        check_error(command.error, command.reason)
        fields = check_fields(command.fields, client.form)
        content = check_value(command.content, client.form)
        message = Message(command.to, content, fields or None, retained=False, qos=STANDARD)
        answer = GivenReply(content, fields, command.more, command.error, command.reason)
        publications = self._runtime.sessions.publications
        if not publications.accepts(client.address):
            raise InvalidMessage("denied", f"publishing is not allowed from {client.address}")
        responder = self._responders.get(client) or ClientResponder(self._runtime, client)
        refusal = self._requests.reply(responder, message, answer, client)
        status, reason = refusal or ("ok", "")
        if command.id is not UNSET:
            self._runtime.broker.send(client, Replied(id=command.id, status=status, reason=reason))
        elif refusal is not None:
            responder.tell_over(command.to, reason)
        publications.has_published(client)


def question(subject: str, content: Value, fields: Fields, name: str) -> Message:
    """Return a request as a publication; its replies go to ``name``."""
    return Message(subject, content, fields or None, retained=False, qos=STANDARD, reply_to=name)


def check_bounds(timeout: int, replies: int) -> None:
    """Raise InvalidMessage for a time (ms) or a number of replies that no request may have."""
    if not 0 < timeout <= REQUEST_MS_MAX:
        raise InvalidMessage("invalid", f"timeout is 1 to {REQUEST_MS_MAX} ms")
    if not 0 < replies <= REPLIES_MAX:
        raise InvalidMessage("invalid", f"replies is 1 to {REPLIES_MAX}")


def check_error(code: str, reason: str) -> None:
    """Raise InvalidMessage for an error that no responder may tell."""
    if len(code) > ERROR_CHARS_MAX:
        raise InvalidMessage("invalid", f"an error has at most {ERROR_CHARS_MAX} characters")
    if len(reason) > REASON_CHARS_MAX:
        raise InvalidMessage("invalid", f"a reason has at most {REASON_CHARS_MAX} characters")
    if reason and not code:
        raise InvalidMessage("invalid", "a reason belongs to an error")
