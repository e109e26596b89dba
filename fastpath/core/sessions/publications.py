"""What clients publish: the command becomes a message, and its outcome an answer (protocol.md 3.4, 4.4)."""

from __future__ import annotations

from collections.abc import Iterable

from ..auth.allowed_addresses import Networks
from ..broker.admission import Done, Outcome
from ..broker.broker import Broker
from ..delivery.audience import Client
from ..delivery.link import PauseReason
from ..protocol.codec import Form, check_fields, check_value
from ..protocol.errors import InvalidMessage
from ..protocol.limits import CLOSURE_BYTES_MAX, SUBJECT_BYTES_MAX
from ..protocol.messages import GUARANTEED, STANDARD, Message, Publish, Published
from ..protocol.packets import PUBLICATION_MAX, PUBLISHER_CHARS_MAX, REMOVED_WHAT, REPLACE_WHAT, publisher_key
from ..protocol.trace_context import read_traceparent
from .rate_limits import SubjectRates


def name_publisher(client: Client, publisher: str) -> None:
    """Note the name under which the client numbers what it publishes; raise InvalidMessage."""
    if len(publisher) > PUBLISHER_CHARS_MAX:
        raise InvalidMessage("invalid", f"publisher has at most {PUBLISHER_CHARS_MAX} characters")
    client.publisher = publisher_key(client.principal.user, publisher) if publisher else None


class Publications:
    """The publications of all clients."""

    def __init__(self, broker: Broker, rates: SubjectRates[object]) -> None:
        self._broker = broker
        self._rates = rates
        self._publish_from: Networks | None = None
        self.held: dict[Client, None] | None = None
        """Clients that have published while the server is congested, from whom nothing more is read; None when it is
        not."""

    def accept_from(self, networks: Networks | None) -> None:
        """Take publications of clients from these addresses only, from now on; None: from all."""
        self._publish_from = networks

    def hold(self, holds: bool) -> Iterable[Client]:
        """Hold each client as soon as it has published, or hold none any more; the clients that were held before."""
        held, self.held = self.held, {} if holds else None
        return held or ()

    def forget(self, client: Client) -> None:
        """Forget a client that is gone."""
        (self.held or {}).pop(client, None)

    def publish(self, client: Client, command: Publish, now: int) -> None:
        """Publish for the client; it is answered if it asked for that."""
        closure = command.closure
        if closure and len(closure) > CLOSURE_BYTES_MAX:
            raise InvalidMessage("limit", f"a closure has at most {CLOSURE_BYTES_MAX} characters")
        broker = self._broker
        trail = broker.trail
        acknowledges = client.terms.wire.acknowledges
        answered = bool(closure) or (acknowledges and bool(command.id))
        try:
            if self._publish_from is not None and not self.accepts(client.address):
                raise InvalidMessage("denied", f"publishing is not allowed from {client.address}")
            message = read_publication(command, client.form)
            if command.publication:
                _number(client, message, command.publication)
            elif acknowledges:
                message.publisher = client.publisher  # by which it is known as its own
        except InvalidMessage as error:
            broker.counters.refused(((error.code, error.reason),))
            if trail is not None:
                trail.unread(client, command.subject, error.code, error.reason)
            if answered:
                self._answer(client, command, None, (error.code, error.reason))
            return
        done = self._answering(client, command, message) if answered else None
        if trail is not None:
            done = trail.publication(client, (message,), done)
        if broker.interest.options.rates and self._rates.spend(client, ((message.subject, 1),), now):
            client.link.hold(PauseReason.RATE, True)
        broker.publish(client.principal, (message,), now, done)
        if self.held is not None:
            self.has_published(client)

    def has_published(self, client: Client) -> None:
        """Read nothing more of the client while the server is congested."""
        if self.held is not None and not client.closed:
            self.held[client] = None
            client.link.hold(PauseReason.CONGESTED, True)

    def accepts(self, address: str) -> bool:
        """Return whether clients at this address may publish."""
        return self._publish_from is None or address in self._publish_from

    def _answering(self, client: Client, command: Publish, message: Message) -> Done:
        """Return what tells the publisher; made apart, so that who is not answered pays nothing for it."""
        return lambda outcomes: self._answer(client, command, message, outcomes[0])

    def _answer(self, client: Client, command: Publish, message: Message | None, outcome: Outcome) -> None:
        """Tell the publisher what became of its publication (protocol.md 4.4)."""
        answer = Published(id=command.id, closure=command.closure, status="ok")
        if isinstance(outcome, int):
            if outcome and message is not None:
                answer.epoch, answer.seq = message.epoch, outcome
        elif isinstance(outcome[0], str):
            answer.status, answer.reason = outcome[0], str(outcome[1])
        else:
            answer.epoch, answer.seq = outcome[0], int(outcome[1])
        self._broker.send(client, answer)


def read_publication(command: Publish, form: Form) -> Message:
    """Return the message that a client's command publishes; raise InvalidMessage."""
    content = command.content
    if (
        type(content) is str
        and command.qos == GUARANTEED
        and not (command.closure or command.reply_to or command.fields or command.traceparent)
        and not (command.replace or command.removed)
    ):
        # Nearly all publications are such. What ``Message.weigh`` would find is known; of all others it has to look.
        retained = command.retained
        if content.isascii():
            return Message(command.subject, content, retained=retained, size=len(content), plain=retained)
        return Message(command.subject, content, retained=retained)
    if command.replace and not command.retained:
        raise InvalidMessage("invalid", REPLACE_WHAT)
    content = check_value(content, form)
    if command.removed and (content or not command.retained):
        raise InvalidMessage("invalid", REMOVED_WHAT)
    replace = command.replace or command.removed
    if command.qos not in (GUARANTEED, STANDARD):
        raise InvalidMessage("invalid", 'qos is "guaranteed" or "standard"')
    if len(command.reply_to) > SUBJECT_BYTES_MAX:
        raise InvalidMessage("invalid", f"reply_to has at most {SUBJECT_BYTES_MAX} characters")
    return Message(
        command.subject,
        content,
        check_fields(command.fields, form),
        retained=command.retained,
        qos=command.qos,
        reply_to=command.reply_to or None,
        closure=command.closure or None,
        replace=replace,
        removed=command.removed,
        traceparent=read_traceparent(command.traceparent),
    )


def _number(client: Client, message: Message, publication: int) -> None:
    if not 0 < publication <= PUBLICATION_MAX:
        raise InvalidMessage("invalid", "publication is a whole number from 1 on that rises")
    if client.publisher is None:
        raise InvalidMessage("invalid", "publication needs a publisher: name one with connect")
    message.publisher, message.publication = client.publisher, publication
